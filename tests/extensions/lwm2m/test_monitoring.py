"""Monitoring of real devices: connection status, metrics and log."""

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
    """Return the metrics of real devices by their Prometheus names."""
    found: dict[str, float] = {}
    for each in chain(*server.services.measurements()):
        name = f"{each.name.removeprefix('mirror_')}{'_total' * each.is_count}"
        if not each.labels:
            found[name] = each.value
        for values, number in each.value.items() if each.labels else ():
            labels = ",".join(f'{label}="{value}"' for label, value in zip(each.labels, values, strict=True))
            found[f"{name}{{{labels}}}"] = number
    return {name: number for name, number in found.items() if name.startswith(("lwm2m_", "coap_"))}


def test_connection_status_of_real_device(real, key, device_side, register):
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


def test_registrations_and_messages_are_counted(real, key, device_side, register, command):
    assert metrics(real)["lwm2m_devices"] == 0
    device, device_id = register()
    device_side.run(device.update())
    command(device_id, "GET", TEMPERATURE)
    real.subscribe(key, device_id)
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


def test_rejected_registration_is_counted_and_logged_in_printable_form(real, key, register, caplog):
    with pytest.raises(RegistrationRejected, match=r"4\.00"):
        register("sen\nsor\x1b[31m")
    # A previous test may have set a level at which requests are logged, too.
    (line,) = [record.getMessage() for record in caplog.records if record.name.endswith("registration_handler")]
    assert line.startswith("registration from 127.0.0.1:")
    assert line.isprintable()
    assert "rejected: 4.00" in line
    assert "sor" in line
    assert metrics(real)['lwm2m_registrations_total{outcome="refused"}'] == 1


def test_server_without_coap_has_no_lwm2m_metrics(new_server):
    server = new_server()
    assert metrics(server) == {}


def test_registrations_and_failed_exchanges_are_logged(register, command, caplog):
    with caplog.at_level(logging.INFO, "mirror_server"):
        first, device_id = register("twin-ä")
        second, _ = register("twin-ä")
        command(device_id, "PUT", LEVEL, value="13")
    registered, replaced, failed = [
        record.getMessage() for record in caplog.records if device_id in record.getMessage()
    ]
    assert registered.startswith(f"device {device_id} (twin-ä) registered from 127.0.0.1:{first.port}, LwM2M 1.0")
    assert f"from 127.0.0.1:{second.port} in place of its registration from 127.0.0.1:{first.port}, LwM2M" in replaced
    assert LEVEL in failed
    assert "4.00" in failed
