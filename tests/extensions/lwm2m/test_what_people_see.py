"""What is told of real devices to people: how each is connected, what goes on with all of them, and the log."""

from __future__ import annotations

import logging
from itertools import chain
from typing import Any

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

from devices_on_loopback import connection, until
from resource_paths import LEVEL, TEMPERATURE

from mirror_server.extensions.lwm2m.device.device import RegistrationRejected

BEGIN = "2026-01-05T08:00:00.000Z"


def metrics(server: Any) -> dict[str, float]:
    """What is counted of real devices, as Prometheus writes it."""
    found: dict[str, float] = {}
    for each in chain(*server.services.measurements()):
        name = f"{each.name.removeprefix('mirror_')}{'_total' * each.is_count}"
        if not each.labels:
            found[name] = each.value
        for values, number in each.value.items() if each.labels else ():
            told = ",".join(f'{label}="{value}"' for label, value in zip(each.labels, values, strict=True))
            found[f"{name}{{{told}}}"] = number
    return {name: number for name, number in found.items() if name.startswith(("lwm2m_", "coap_"))}


def test_how_a_real_device_is_connected(real, key, device_side, register):
    device, _ = register(lifetime_seconds=300, version="1.1", queue_mode=True)
    until(lambda: connection(real, key)["reachable"])
    found = connection(real, key)
    assert found.pop("binding") in {"U", "UQ"}
    times = {"registration_expires_at": "2026-01-05T08:05:00.000Z", "last_contact_at": BEGIN}
    how = {"protocol": "coap", "lwm2m_version": "1.1", "reachable": True, "lifetime_seconds": 300}
    assert found == {"address": f"127.0.0.1:{device.port}", **how, **times}
    real.advance(key, 94)
    assert not connection(real, key)["reachable"], "it sleeps"
    device_side.run(device.update())
    until(lambda: connection(real, key)["reachable"])
    assert connection(real, key)["last_contact_at"] == "2026-01-05T08:01:34.000Z"
    device_side.run(device.deregister())
    assert not connection(real, key)["reachable"]


def test_registrations_and_messages_are_counted(real, key, device_side, register, ask):
    assert metrics(real)["lwm2m_devices"] == 0
    device, mine = register()
    device_side.run(device.update())
    ask(mine, "GET", TEMPERATURE)
    real.subscribe(key, mine)
    until(lambda: real.observed(key))
    device_side.call(device.set_value, TEMPERATURE, 22.0)
    until(lambda: len(real.observed(key)) == 2)
    found = metrics(real)
    assert found["lwm2m_devices"] == 1
    assert found['lwm2m_registrations_total{outcome="registered"}'] == 1
    assert found['lwm2m_registrations_total{outcome="updated"}'] == 1
    assert found['lwm2m_notifications_total{outcome="taken"}'] == 1
    assert found['coap_messages_total{direction="received",kind="request"}'] >= 2
    assert found['coap_messages_total{direction="sent",kind="request"}'] >= 2
    assert found['coap_messages_total{direction="received",kind="notification"}'] == 1
    assert found["coap_retransmissions_total"] == 0
    device_side.run(device.deregister())
    found = metrics(real)
    assert found["lwm2m_devices"] == 0
    assert found['lwm2m_registrations_total{outcome="deregistered"}'] == 1


def test_a_registration_that_is_refused_is_counted_and_told_in_a_line_that_can_be_seen(real, key, register, caplog):
    with pytest.raises(RegistrationRejected, match=r"4\.00"):
        register("sen\nsor\x1b[31m")
    # A test before may have left the level at which requests are logged, too.
    (line,) = [record.getMessage() for record in caplog.records if record.name.endswith("registrar")]
    assert line.startswith("registration from 127.0.0.1:")
    assert line.isprintable()
    assert "rejected: 4.00" in line
    assert "sor" in line
    assert metrics(real)['lwm2m_registrations_total{outcome="refused"}'] == 1


def test_a_server_without_real_devices_counts_none(new_server):
    server = new_server()
    assert metrics(server) == {}


def test_the_log_has_a_line_for_a_registration_and_one_for_a_failed_exchange(register, ask, caplog):
    with caplog.at_level(logging.INFO, "mirror_server"):
        first, mine = register("twin-ä")
        second, _ = register("twin-ä")
        ask(mine, "PUT", LEVEL, value="13")
    begun, taken, failed = [record.getMessage() for record in caplog.records if mine in record.getMessage()]
    assert begun.startswith(f"device {mine} (twin-ä) registered from 127.0.0.1:{first.port}, LwM2M 1.0")
    assert f"from 127.0.0.1:{second.port} in place of its registration from 127.0.0.1:{first.port}, LwM2M" in taken
    assert LEVEL in failed
    assert "4.00" in failed
