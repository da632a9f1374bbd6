"""The previous name of :mod:`mirror_sdk.object_definitions`, for programs that still import it."""

from mirror_sdk.object_definitions import *  # noqa: F403 - all names are available here, too
