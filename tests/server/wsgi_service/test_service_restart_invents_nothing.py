"""A restart of the service makes no event, and times of a resource never go back.

Source: specification 6; wire.md 3.
"""

import pytest

from mirror_server.clock import SystemClock

TEMPERATURE, DOOR = "/3303/0/5700", "/3200/0/5500"
RULES = "/v2/subscriptions"


@pytest.fixture
def device(server, key):
    return server.add_device(
        key,
        "sensor-1",
        {"path": TEMPERATURE, "value": "21.5", "observable": True},
        {"path": DOOR, "value": "0", "observable": True, "auto_observable": True},
    )


@pytest.fixture
def settled(server, key):
    """All that shows of a device, and the log of the application."""

    def look(device_id):
        body = server.call(key, "GET", f"/v3/devices/{device_id}/echo").json
        resources = sorted(body["resources"], key=lambda resource: resource["resource_path"])
        return resources, server.call(key, "GET", f"/v3/devices/{device_id}").json, server.log(key)

    return look


def timestamps(server, key, path=TEMPERATURE):
    return [entry["timestamp"] for kind, entry in server.log(key) if kind == "notifications" and entry["path"] == path]


@pytest.mark.parametrize("later", [0, 60])
def test_a_restart_changes_nothing_that_shows(server, key, device, settled, restart_later, later):
    server.call(key, "PUT", f"{RULES}?apply=now", json=[{}])
    server.set_value(key, device, "22")
    server.set_value(key, device, "1", DOOR)
    server.place(key, device, "r", "GET", TEMPERATURE)
    before = settled(device)
    assert len(server.observed(key)) == 4
    for _ in range(3):
        restart_later(later)
        assert settled(device) == before
    server.set_value(key, device, "23")
    assert server.observed(key)[-1] == (device, "23")


@pytest.mark.parametrize("later", [0, 3600, 5 * 3600])
def test_a_fleet_goes_on_as_if_it_had_never_been_away(new_server, later):
    def run(is_restarted):
        server = new_server(simulate=12)
        key = server.key()
        server.call(key, "PUT", f"{RULES}?apply=now", json=[{}])
        server.advance(key, 1800)
        if is_restarted:
            server.restart()
        server.advance(key, later + 1800)
        log = server.log(key)
        for _, entry in log:
            entry.pop("uid")
        devices = server.call(key, "GET", "/v3/devices").json["data"]
        echoes = [server.call(key, "GET", f"/v3/devices/{each['id']}/echo").json["resources"] for each in devices]
        return log, devices, [sorted(echo, key=lambda resource: resource["resource_path"]) for echo in echoes]

    assert run(is_restarted=True) == run(is_restarted=False)


def test_a_change_while_the_service_was_away_is_told_once(server, key, device):
    server.call(key, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    server.patch(key, device, online=False)
    server.set_value(key, device, "22")
    server.restart()
    assert server.observed(key) == [(device, "21.5")]
    server.patch(key, device, online=True)
    server.restart()
    assert server.observed(key) == [(device, "21.5"), (device, "22")]


def test_an_auto_observed_value_that_was_never_sent_is_not_sent_by_a_restart(server, key, device):
    server.restart()
    assert server.resource(key, device, DOOR)["reported"] == {}
    server.set_value(key, device, "1", DOOR)
    assert server.resource(key, device, DOOR)["reported"]["origin"] == "auto_observation"


def test_another_process_that_takes_over_invents_nothing(server, key, device, settled):
    server.call(key, "PUT", f"{RULES}?apply=now", json=[{}])
    server.set_value(key, device, "22")
    before = settled(device)
    server.services.give_up_duty()
    server.services.take_duty()
    assert settled(device) == before
    server.set_value(key, device, "23")
    assert server.observed(key)[-1] == (device, "23")


@pytest.fixture
def system_clock(new_server, monkeypatch):
    """A server by the clock of the system, which says what it is told; and that clock."""
    now = [1_800_000_000_000]
    monkeypatch.setattr(SystemClock, "now", lambda _: now[0])
    return new_server(manual_clock=False), now


def test_on_the_clock_of_the_system_a_restart_invents_nothing_either(system_clock):
    server, now = system_clock
    key = server.key()
    device = server.add_device(key, "sensor-1")
    now[0] += 5000
    server.call(key, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    before = server.resource(key, device), server.log(key)
    now[0] += 5000
    server.restart()
    assert (server.resource(key, device), server.log(key)) == before


@pytest.mark.parametrize("is_restarted", [False, True])
def test_times_of_a_resource_do_not_go_back_with_the_clock(system_clock, is_restarted):
    server, now = system_clock
    key, other = server.key(), server.key()
    device = server.add_device(key, "sensor-1")
    server.call(key, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    begin_at = now[0]
    now[0] += 5000
    server.set_value(key, device, "22")
    now[0] -= 3_600_000
    if is_restarted:
        server.restart()
    server.set_value(key, device, "23")
    server.call(other, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    server.services.database.settle(10)
    now[0] += 7_200_000
    server.set_value(key, device, "24")
    assert [value for _, value in server.observed(key)] == ["21.5", "22", "23", "24"]
    assert timestamps(server, key) == [begin_at, begin_at + 5000, begin_at + 5000, now[0]]
    assert timestamps(server, other) == [begin_at + 5000, now[0]]


def test_a_change_that_a_read_brought_first_is_still_told(server, key, device):
    other = server.key()
    server.call(key, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    server.place(key, device, "rules", "PUT", f"{TEMPERATURE}?pmin=60")
    server.advance(key, 10)
    server.set_value(key, device, "25")
    server.place(key, device, "r", "GET", TEMPERATURE)
    server.call(other, "PUT", f"{RULES}/{device}{TEMPERATURE}")
    assert server.observed(other) == [(device, "25")]
    assert server.observed(key) == [(device, "21.5"), (device, "25")]
