"""The connection of a device: its address and transport. An extension; source: wire.md 6."""

from devices_in_memory import DevicesInMemory

from mirror_sdk.wire.directory import DeviceConnection
from mirror_server.devices.interface import ConnectionStatus
from mirror_server.service.keys import Scope

ADDRESS = "[2001:db8::1]:40000"
BEGIN = "2026-01-05T08:00:00.000Z"


def connection(server, key, device):
    answer = server.call(key, "GET", f"/v3/devices/{device}/connection")
    assert answer.status_code == 200
    DeviceConnection.model_validate(answer.json, extra="forbid")
    return answer.json


def test_registered_device_has_a_connection(server, key):
    device = server.add_device(key, "lamp")
    assert connection(server, key, device) == {
        "object": "device-connection",
        "device_id": device,
        "protocol": "memory",
        "reachable": True,
        "lifetime_seconds": 86400,
        "registration_expires_at": "2026-01-06T08:00:00.000Z",
        "last_contact_at": BEGIN,
    }


def test_device_that_is_offline_or_left_is_not_reachable(server, key):
    device = server.add_device(key, "lamp")
    server.patch(key, device, online=False)
    server.advance(key, 60)
    found = connection(server, key, device)
    assert (found["reachable"], found["last_contact_at"]) == (False, BEGIN)
    server.patch(key, device, online=True)
    found = connection(server, key, device)
    assert (found["reachable"], found["last_contact_at"]) == (True, "2026-01-05T08:01:00.000Z")
    server.registration(key, device, "DELETE")
    found = connection(server, key, device)
    assert not found["reachable"]
    assert "registration_expires_at" not in found
    server.restart()
    assert connection(server, key, device) == found


def test_device_without_a_connection_has_the_members_of_the_directory(server, key):
    device = server.add_device(key, "lamp")
    server.devices = DevicesInMemory()
    server.restart()
    found = connection(server, key, device)
    assert "protocol" not in found
    assert (found["reachable"], found["lifetime_seconds"]) == (False, 86400)


def test_only_operators_get_the_address_of_a_real_device(server, key, monkeypatch):
    device = server.add_device(key, "lamp")
    monkeypatch.setattr(server.devices, "describe", lambda _: ConnectionStatus("coaps", "1.1", "UQ", ADDRESS))
    response = connection(server, server.key(Scope.READ), device)
    assert (response["protocol"], response["lwm2m_version"], response["binding"]) == ("coaps", "1.1", "UQ")
    assert connection(server, key, device) == response | {"address": ADDRESS}


def test_registration_that_expires_after_the_year_9999_has_the_end_of_that_year(server, key):
    device = server.add_device(key, "lamp")
    statement = "UPDATE devices SET registration_expires_at = :at"
    server.services.database.write(lambda session: session.run(statement, at=10**15))
    assert connection(server, key, device)["registration_expires_at"] == "9999-12-31T23:59:59.999Z"
