"""What is told of real devices to people: how each is connected, what goes on with all of them, and the log."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

from devices_on_loopback import DeviceSide, until

from mirror_server.devices.lwm2m_client.device import RegistrationRefused
from mirror_server.service.keys import Scope

TEMPERATURE, LEVEL = "/3303/0/5700", "/3311/0/5851"
BEGIN = "2026-01-05T08:00:00.000Z"


def id_of(server: Any, key: str, name: str = "sensor-1") -> str:
    listed = server.call(key, "GET", "/v3/devices").json["data"]
    (found,) = [device["id"] for device in listed if device["endpoint_name"] == name]
    return str(found)


def connection(server: Any, key: str, name: str = "sensor-1") -> Any:
    answer = server.call(key, "GET", f"/v3/devices/{id_of(server, key, name)}/connection")
    assert answer.status_code == 200
    return answer.json


def metrics(server: Any, key: str) -> dict[str, float]:
    text = server.call(key, "GET", "/metrics").get_data(as_text=True)
    return {name: float(value) for name, value in re.findall(r"^(mirror_\S+) (\S+)$", text, re.MULTILINE)}


def test_how_a_real_device_is_connected(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    device = device_side.device(lifetime_seconds=300, version="1.1", queue_mode=True)
    device_side.run(device.register())
    until(lambda: connection(real, key)["reachable"])
    found = connection(real, key)
    assert found == {
        "object": "device-connection",
        "device_id": id_of(real, key),
        "protocol": "coap",
        "lwm2m_version": "1.1",
        "binding": found["binding"],
        "address": f"127.0.0.1:{device.port}",
        "reachable": True,
        "lifetime_seconds": 300,
        "registration_expires_at": "2026-01-05T08:05:00.000Z",
        "last_contact_at": BEGIN,
    }
    assert found["binding"] in {"U", "UQ"}
    assert "address" not in connection(real, real.key(Scope.READ))
    real.advance(key, 94)
    assert not connection(real, key)["reachable"], "it sleeps"
    device_side.run(device.update())
    until(lambda: connection(real, key)["reachable"])
    assert connection(real, key)["last_contact_at"] == "2026-01-05T08:01:34.000Z"
    device_side.run(device.deregister())
    assert not connection(real, key)["reachable"]


def test_a_simulated_device_beside_it_is_told_apart(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    real.add_device(key, "lamp")
    device_side.run(device_side.device().register())
    assert connection(real, key, "lamp")["protocol"] == "simulated"
    assert connection(real, key)["protocol"] == "coap"


def test_a_device_that_comes_by_another_port_is_told_there(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    device = device_side.device(queue_mode=True)
    device_side.run(device.register())
    before = connection(real, key)["address"]
    device_side.call(device.sleep)
    device_side.run(device.wake(from_new_port=True))
    after = connection(real, key)["address"]
    assert after == f"127.0.0.1:{device.port}"
    assert after != before


def test_registrations_and_messages_are_counted(real: Any, device_side: DeviceSide) -> None:
    key = real.key()
    assert metrics(real, key)["mirror_lwm2m_devices"] == 0
    device = device_side.device()
    device_side.run(device.register())
    device_side.run(device.update())
    mine = id_of(real, key)
    real.place(key, mine, "read", "GET", TEMPERATURE)
    until(lambda: "read" in real.responses(key))
    real.subscribe(key, mine)
    until(lambda: real.observed(key))
    device_side.call(device.set_value, TEMPERATURE, 22.0)
    until(lambda: len(real.observed(key)) == 2)
    found = metrics(real, key)
    assert found["mirror_lwm2m_devices"] == 1
    assert found['mirror_lwm2m_registrations_total{outcome="registered"}'] == 1
    assert found['mirror_lwm2m_registrations_total{outcome="updated"}'] == 1
    assert found['mirror_lwm2m_notifications_total{outcome="taken"}'] == 1
    assert found['mirror_coap_messages_total{direction="received",kind="request"}'] >= 2
    assert found['mirror_coap_messages_total{direction="sent",kind="request"}'] >= 2
    assert found['mirror_coap_messages_total{direction="received",kind="notification"}'] == 1
    assert found["mirror_coap_retransmissions_total"] == 0
    device_side.run(device.deregister())
    found = metrics(real, key)
    assert found["mirror_lwm2m_devices"] == 0
    assert found['mirror_lwm2m_registrations_total{outcome="deregistered"}'] == 1


def test_a_registration_that_is_refused_is_counted_and_told_in_a_line_that_can_be_seen(
    real: Any, device_side: DeviceSide, caplog: pytest.LogCaptureFixture
) -> None:
    key = real.key()
    device = device_side.device("sen\nsor\x1b[31m")
    with pytest.raises(RegistrationRefused, match=r"4\.00"):
        device_side.run(device.register())
    # A test before may have left the level at which requests are logged, too.
    (line,) = [record.getMessage() for record in caplog.records if record.name.endswith("registrar")]
    assert line.startswith("registration from 127.0.0.1:")
    assert line.isprintable()
    assert "refused: 4.00" in line
    assert "sor" in line
    assert metrics(real, key)['mirror_lwm2m_registrations_total{outcome="refused"}'] == 1


def test_a_server_without_real_devices_counts_none(server: Any, key: str) -> None:
    assert not [name for name in metrics(server, key) if name.startswith(("mirror_lwm2m", "mirror_coap"))]


def test_the_log_has_a_line_a_registration(
    real: Any, device_side: DeviceSide, caplog: pytest.LogCaptureFixture
) -> None:
    key = real.key()
    device = device_side.device("sensor-ä")
    with caplog.at_level(logging.INFO, "mirror_server"):
        device_side.run(device.register())
    mine = id_of(real, key, "sensor-ä")
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"device {mine} (sensor-ä) registered from 127.0.0.1:{device.port}, LwM2M 1.0")


def test_two_devices_of_one_name_are_seen_in_the_log(
    real: Any, device_side: DeviceSide, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = device_side.device("twin"), device_side.device("twin")
    with caplog.at_level(logging.INFO, "mirror_server"):
        device_side.run(first.register())
        device_side.run(second.register())
    begun, taken = [record.getMessage() for record in caplog.records if "registered from" in record.getMessage()]
    assert "in place of" not in begun
    assert f"from 127.0.0.1:{second.port} in place of its registration from 127.0.0.1:{first.port}, LwM2M" in taken


def test_the_log_has_a_line_a_failed_exchange(
    real: Any, device_side: DeviceSide, caplog: pytest.LogCaptureFixture
) -> None:
    key = real.key()
    device_side.run(device_side.device().register())
    mine = id_of(real, key)
    with caplog.at_level(logging.INFO, "mirror_server"):
        real.place(key, mine, "refused", "PUT", LEVEL, value="13")
        until(lambda: "refused" in real.responses(key))
    lines = [record.getMessage() for record in caplog.records if mine in record.getMessage()]
    assert [LEVEL in line and "4.00" in line for line in lines] == [True]
