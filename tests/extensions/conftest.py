"""A server inside the test, for the tests of each extension."""

from tests.server.conftest import *  # noqa: F403 - fixtures
from tests.server.interface.conftest import *  # noqa: F403 - fixtures
