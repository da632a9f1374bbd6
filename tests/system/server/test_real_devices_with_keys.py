"""Real devices over DTLS, through the whole server."""

from __future__ import annotations

from typing import Any

import pytest
from devices_on_loopback import DeviceSide, listed, until
from resource_paths import TEMPERATURE

from mirror_server.config import ListenAddress
from mirror_server.extensions.lwm2m import device_keys
from mirror_server.extensions.lwm2m.device.coap_socket import PreSharedKey


@pytest.fixture
def secured(new_server: Any, device_side: DeviceSide) -> Any:
    return new_server(coaps=ListenAddress("127.0.0.1", device_side.port))


def new_key(server: Any) -> PreSharedKey:
    key = device_keys.add(server.services.database, "sensor-1", None, server.now)
    return PreSharedKey(key.identity.encode(), key.secret)


def answered(server: Any, key: str, device: str, async_id: str, method: str, path: str, **body: Any) -> Any:
    server.submit(key, device, async_id, method, path, **body)
    return until(lambda: server.responses(key).get(async_id))


def test_a_device_with_its_key_is_as_any_other(secured, device_side):
    key = secured.key()
    device = device_side.device(key=new_key(secured))
    device_side.run(device.register())
    mine = listed(secured, key)["id"]
    assert answered(secured, key, mine, "read", "GET", TEMPERATURE) == (200, None)
    assert answered(secured, key, mine, "write", "PUT", "/3311/0/5851", value="55") == (200, None)
    secured.subscribe(key, mine)
    until(lambda: secured.observed(key) == [(mine, "21.5")])
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    until(lambda: secured.observed(key)[-1] == (mine, "22.5"))
    assert secured.call(key, "GET", f"/v3/devices/{mine}/connection").json["protocol"] == "coaps"


def test_after_a_restart_a_device_comes_again_and_its_commands_have_waited(secured, device_side):
    key = secured.key()
    device = device_side.device(key=new_key(secured))
    device_side.run(device.register())
    mine = listed(secured, key)["id"]
    connection = f"/v3/devices/{mine}/connection"
    secured.subscribe(key, mine)
    until(lambda: secured.observed(key) == [(mine, "21.5")])
    assert secured.call(key, "GET", connection).json["reachable"]
    secured.restart()
    # Its session went with the process.
    secured.submit(key, mine, "read", "GET", TEMPERATURE)
    assert not secured.call(key, "GET", connection).json["reachable"]
    device_side.run(device.wake(from_new_port=True))
    until(lambda: secured.call(key, "GET", connection).json["reachable"])
    assert until(lambda: secured.responses(key).get("read")) == (200, None)
    device_side.call(device.set_value, TEMPERATURE, 23.5)
    until(lambda: secured.observed(key)[-1] == (mine, "23.5"))
    assert secured.observed(key) == [(mine, "21.5"), (mine, "23.5")]
