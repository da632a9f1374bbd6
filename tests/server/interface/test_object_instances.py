"""Object instances, which devices of some backends read and write as a whole. An extension; source: wire.md 2."""

import base64

import pytest
from device_resources import control
from resource_paths import SWITCH

from mirror_server.devices.interface import Content

INSTANCE, LEVEL = "/3311/0", "/3311/0/5851"
WRITTEN = {LEVEL: "5", SWITCH: "1"}


@pytest.fixture
def device(server, key):
    return server.add_device(key, "light-1", control(LEVEL), control(SWITCH))


@pytest.fixture
def instance_values(server):
    """Let the backend split each object instance into the same values."""
    server.devices.split_instance = lambda *_: [(path, Content(value.encode())) for path, value in WRITTEN.items()]


def desired(server, key, device):
    """Return value and status of the last write for both resources."""
    found = [server.resource(key, device, path)["desired"] for path in WRITTEN]
    return [(base64.b64decode(each["value"]).decode(), each["status"]) for each in found if each]


def test_instance_is_400_if_the_backend_cannot_split_it(server, key, device, check_error):
    for method, more in (("GET", {}), ("PUT", {"value": "x"})):
        error = check_error(server.submit(key, device, method, method, INSTANCE, **more), 400, "uri")
        assert (error.reason, "only a real device" in error.message) == ("RESOURCE_NOT_FOUND", True)
    assert desired(server, key, device) == []


def test_write_of_an_instance_writes_its_resources(server, key, device, instance_values):
    server.patch(key, device, answer="reject")
    assert server.submit(key, device, "w", "PUT", INSTANCE, value="x").status_code == 202
    assert server.responses(key) == {"w": (400, "REJECTED")}
    assert desired(server, key, device) == [("5", 2), ("1", 2)]


def test_write_of_an_instance_completes_on_a_server_without_its_backend(server, key, device, instance_values):
    server.patch(key, device, online=False)
    assert server.submit(key, device, "w", "PUT", INSTANCE, value="x", expiry_seconds=60).status_code == 202
    server.submit(key, device, "later", "PUT", SWITCH, value="0")
    assert desired(server, key, device) == [("5", 0), ("0", 0)]
    server.devices.split_instance = None
    server.restart()
    server.advance(key, 60)
    assert server.responses(key) == {"w": (429, "REQUEST_EXPIRED")}
    assert desired(server, key, device) == [("5", 2), ("0", 0)]
