"""Real devices over DTLS and the complete server."""

from __future__ import annotations

from typing import Any

import pytest
from devices_on_loopback import DeviceSide, find_device, until
from resource_paths import TEMPERATURE

from mirror_server.config import ListenAddress
from mirror_server.extensions.lwm2m import device_keys
from mirror_server.extensions.lwm2m.device.coap_socket import PreSharedKey


@pytest.fixture
def dtls_server(new_server: Any, device_side: DeviceSide) -> Any:
    return new_server(coaps=ListenAddress("127.0.0.1", device_side.port))


def new_key(server: Any) -> PreSharedKey:
    key = device_keys.add(server.services.database, "sensor-1", None, server.now)
    return PreSharedKey(key.identity.encode(), key.secret)


def response_of(server: Any, key: str, device: str, async_id: str, method: str, path: str, **body: Any) -> Any:
    server.submit(key, device, async_id, method, path, **body)
    return until(lambda: server.responses(key).get(async_id))


def test_device_with_key_works_like_any_other(dtls_server, device_side):
    key = dtls_server.key()
    device = device_side.device(key=new_key(dtls_server))
    device_side.run(device.register())
    device_id = find_device(dtls_server, key)["id"]
    assert response_of(dtls_server, key, device_id, "read", "GET", TEMPERATURE) == (200, None)
    assert response_of(dtls_server, key, device_id, "write", "PUT", "/3311/0/5851", value="55") == (200, None)
    dtls_server.subscribe(key, device_id)
    until(lambda: dtls_server.observed(key) == [(device_id, "21.5")])
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    until(lambda: dtls_server.observed(key)[-1] == (device_id, "22.5"))
    assert dtls_server.call(key, "GET", f"/v3/devices/{device_id}/connection").json["protocol"] == "coaps"


def test_commands_wait_for_device_to_reconnect_after_restart(dtls_server, device_side):
    key = dtls_server.key()
    device = device_side.device(key=new_key(dtls_server))
    device_side.run(device.register())
    device_id = find_device(dtls_server, key)["id"]
    connection = f"/v3/devices/{device_id}/connection"
    dtls_server.subscribe(key, device_id)
    until(lambda: dtls_server.observed(key) == [(device_id, "21.5")])
    assert dtls_server.call(key, "GET", connection).json["reachable"]
    dtls_server.restart()
    # The session ended with the process.
    dtls_server.submit(key, device_id, "read", "GET", TEMPERATURE)
    assert not dtls_server.call(key, "GET", connection).json["reachable"]
    device_side.run(device.wake(from_new_port=True))
    until(lambda: dtls_server.call(key, "GET", connection).json["reachable"])
    assert until(lambda: dtls_server.responses(key).get("read")) == (200, None)
    device_side.call(device.set_value, TEMPERATURE, 23.5)
    until(lambda: dtls_server.observed(key)[-1] == (device_id, "23.5"))
    assert dtls_server.observed(key) == [(device_id, "21.5"), (device_id, "23.5")]
