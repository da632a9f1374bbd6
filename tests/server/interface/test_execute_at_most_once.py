"""The server never sends an execute again that may have reached its device. Source: wire.md 2."""

import pytest
from device_resources import action, setting
from resource_paths import REBOOT, SWITCH

from mirror_server.devices.interface import DeviceResponse, Outcome
from mirror_server.store import commands

RESOURCES = (action(REBOOT), setting(SWITCH))
ATTEMPT_SECONDS = 120


@pytest.fixture
def device(server, key):
    return server.add_device(key, "boiler", *RESOURCES)


@pytest.fixture
def sleeper(server, key):
    """A device in queue mode, which listens for some seconds after it made contact."""
    return server.add_device(key, "sleeper", *RESOURCES, queue_mode=True)


def test_execute_outstanding_at_restart_is_not_sent_again(server, key, device):
    server.patch(key, device, latency_seconds=30)
    server.submit(key, device, "x", "POST", REBOOT)
    server.submit(key, device, "w", "PUT", SWITCH, value="1")
    server.restart()
    assert server.responses(key) == {"x": (504, "TIMEOUT")}
    server.advance(key, 60)
    assert server.responses(key) == {"x": (504, "TIMEOUT"), "w": (200, None)}


def test_execute_that_was_never_sent_survives_a_restart(server, key, device):
    server.patch(key, device, online=False)
    server.submit(key, device, "x", "POST", REBOOT)
    server.restart()
    assert server.responses(key) == {}
    server.patch(key, device, online=True)
    assert server.responses(key) == {"x": (200, None)}


def test_execute_has_no_retries_by_default_in_queue_mode(server, key, sleeper):
    server.patch(key, sleeper, answer="silent")
    server.submit(key, sleeper, "execute", "POST", REBOOT)
    server.submit(key, sleeper, "write", "PUT", SWITCH, value="1")
    server.advance(key, ATTEMPT_SECONDS)
    assert server.responses(key) == {"execute": (504, "TIMEOUT")}


def test_execute_is_retried_as_often_as_requested(server, key, device):
    server.patch(key, device, answer="silent")
    body = {"method": "POST", "uri": REBOOT}
    server.call(key, "POST", f"/v2/device-requests/{device}?async-id=x&retry=2", json=body)
    server.advance(key, 60)
    server.restart()
    assert server.responses(key) == {}
    server.advance(key, 2 * ATTEMPT_SECONDS - 1)
    assert server.responses(key) == {}
    server.advance(key, 1)
    assert server.responses(key) == {"x": (504, "TIMEOUT")}


def test_connection_lost_in_an_attempt_fails_it_and_leaves_the_outcome_of_an_execute_unknown(server, key, device):
    server.patch(key, device, latency_seconds=10)
    for method, path, more in (("POST", REBOOT, {}), ("PUT", SWITCH, {"value": "1"})):
        server.submit(key, device, method, method, path, **more)
        server.patch(key, device, online=False)
        server.patch(key, device, online=True)
    assert server.responses(key) == {"POST": (504, "TIMEOUT"), "PUT": (503, "NOT_CONNECTED")}


def test_execute_is_stored_as_sent_before_it_is_sent(server, key, device, monkeypatch):
    backends, attempts_stored = server.services.backends, []
    send = backends.send

    def check_stored_and_send(device_id, *arguments):
        with server.services.database.read() as session:
            attempts_stored.extend(command.attempts for command in commands.waiting(session, device_id))
        send(device_id, *arguments)

    monkeypatch.setattr(backends, "send", check_stored_and_send)
    server.submit(key, device, "x", "POST", REBOOT)
    assert server.responses(key) == {"x": (200, None)}
    assert attempts_stored == [1]


def test_unsent_command_counts_no_attempt(server, key, device):
    server.patch(key, device, online=False)
    server.submit(key, device, "x", "POST", REBOOT, expiry_seconds=60)

    def fail_to_send(session):
        (command,) = commands.waiting(session, device)
        assert commands.begin_attempt(session, command.command_id, server.now)
        server.services.commands.finish(session, [(command, DeviceResponse(Outcome.NOT_SENT))])

    server.services.database.write(fail_to_send)
    server.advance(key, 60)
    assert server.responses(key) == {"x": (429, "REQUEST_EXPIRED")}
