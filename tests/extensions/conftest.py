"""Fixtures of all extensions: a server inside the test."""

from tests.server.conftest import *  # noqa: F403 - fixtures
from tests.server.interface.conftest import *  # noqa: F403 - fixtures
