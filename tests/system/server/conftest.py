"""A server inside the test, and one with a CoAP port."""

from tests.server.conftest import *  # noqa: F403 - fixtures
from tests.server.devices.lwm2m.conftest import *  # noqa: F403 - fixtures
