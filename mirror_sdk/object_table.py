"""The earlier name of :mod:`mirror_sdk.object_definitions`, for programs that import it."""

from mirror_sdk.object_definitions import *  # noqa: F403 - every name
