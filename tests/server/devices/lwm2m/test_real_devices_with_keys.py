"""Real devices over DTLS, through the whole server."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("DTLSSocket", reason="coaps needs the extra lwm2m-dtls")

from devices_on_loopback import DeviceSide, until

from mirror_server.config import ListenAddress
from mirror_server.devices.lwm2m.exchange import NoAnswer, Unreachable
from mirror_server.devices.lwm2m_client.coap_socket import PreSharedKey, Transmission
from mirror_server.devices.lwm2m_client.device import RegistrationRefused
from mirror_server.service import device_keys

TEMPERATURE = "/3303/0/5700"
IMPATIENT = Transmission(ack_timeout_seconds=0.4, max_retransmit=1, handshake_seconds=2)


@pytest.fixture
def secured(new_server: Any, device_side: DeviceSide) -> Any:
    return new_server(coaps=ListenAddress("127.0.0.1", device_side.port))


def new_key(server: Any, name: str = "sensor-1") -> PreSharedKey:
    key = device_keys.add(server.services.database, name, None, server.now)
    return PreSharedKey(key.identity.encode(), key.secret)


def device_id(server: Any, key: str, name: str = "sensor-1") -> str:
    listed = server.call(key, "GET", "/v3/devices").json["data"]
    found: str = next(each["id"] for each in listed if each["endpoint_name"] == name)
    return found


def answered(server: Any, key: str, device: str, async_id: str, method: str, path: str, **body: Any) -> Any:
    server.place(key, device, async_id, method, path, **body)
    return until(lambda: server.responses(key).get(async_id))


def test_a_device_with_its_key_is_as_any_other(secured: Any, device_side: DeviceSide) -> None:
    key = secured.key()
    device = device_side.device(key=new_key(secured))
    device_side.run(device.register())
    mine = device_id(secured, key)
    assert answered(secured, key, mine, "read", "GET", TEMPERATURE) == (200, None)
    assert answered(secured, key, mine, "write", "PUT", "/3311/0/5851", value="55") == (200, None)
    secured.subscribe(key, mine)
    until(lambda: secured.observed(key) == [(mine, "21.5")])
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    until(lambda: secured.observed(key)[-1] == (mine, "22.5"))
    assert secured.call(key, "GET", f"/v3/devices/{mine}/connection").json["protocol"] == "coaps"


def test_a_wrong_key_stays_out(secured: Any, device_side: DeviceSide) -> None:
    key = secured.key()
    identity = new_key(secured).identity
    device = device_side.device(key=PreSharedKey(identity, b"wrong" * 3), transmission=IMPATIENT)
    with pytest.raises((NoAnswer, Unreachable)):
        device_side.run(device.register())
    assert secured.call(key, "GET", "/v3/devices").json["data"] == []


def test_a_key_registers_its_own_name_alone(secured: Any, device_side: DeviceSide) -> None:
    device = device_side.device("sensor-2", key=new_key(secured, "sensor-1"))
    with pytest.raises(RegistrationRefused) as caught:
        device_side.run(device.register())
    assert caught.value.code == "4.03"


def test_after_a_restart_a_device_comes_again_and_its_commands_have_waited(
    secured: Any, device_side: DeviceSide
) -> None:
    key = secured.key()
    device = device_side.device(key=new_key(secured))
    device_side.run(device.register())
    mine = device_id(secured, key)
    secured.subscribe(key, mine)
    until(lambda: secured.observed(key) == [(mine, "21.5")])
    secured.restart()
    # Its session went with the process.
    secured.place(key, mine, "read", "GET", TEMPERATURE)
    assert secured.call(key, "GET", f"/v3/devices/{mine}/connection").json["reachable"] is False
    device_side.run(device.wake(from_new_port=True))
    assert until(lambda: secured.responses(key).get("read")) == (200, None)
    device_side.call(device.set_value, TEMPERATURE, 23.5)
    until(lambda: secured.observed(key)[-1] == (mine, "23.5"))
    assert secured.observed(key) == [(mine, "21.5"), (mine, "23.5")]


def test_a_revoked_key_is_out_in_the_middle_of_its_session(secured: Any, device_side: DeviceSide) -> None:
    key = secured.key()
    device = device_side.device(key=new_key(secured), transmission=IMPATIENT)
    device_side.run(device.register())
    mine = device_id(secured, key)
    device_keys.revoke(secured.services.database, "sensor-1")

    def is_out() -> bool:
        try:
            device_side.run(device.update())
        except (RegistrationRefused, NoAnswer, Unreachable):
            return True
        return False

    until(is_out)
    secured.place(key, mine, "read", "GET", TEMPERATURE)
    until(lambda: secured.call(key, "GET", f"/v3/devices/{mine}/connection").json["reachable"] is False)
    assert "read" not in secured.responses(key)
