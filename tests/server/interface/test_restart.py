"""A restart on the same database continues all work and creates no events.

Source: specification 6; wire.md 2, 3, 4 and 8.
"""

import pytest
from device_resources import control, sensor
from resource_paths import DOOR, SWITCH, TEMPERATURE

from mirror_server.clock import SystemClock
from mirror_server.store import keys as stored_keys

PULL = "/v2/notification/pull"
RULES = "/v2/subscriptions"
DAY = 24 * 3600


@pytest.fixture
def device(server, key):
    """A light with a sensor and the state of its door."""
    return server.add_device(
        key,
        "light-1",
        control(SWITCH),
        sensor(TEMPERATURE),
        sensor(DOOR, "0", auto_observable=True),
        endpoint_type="Light",
    )


def cursor(server, key):
    return int(server.call(key, "GET", f"{PULL}?after=latest&hold=0").headers["Mirror-Cursor"])


def test_log_continues_at_the_next_number_after_a_restart(server, key, device, other, check_error):
    revoked = server.key()
    server.services.database.write(lambda session: stored_keys.revoke(session, revoked.split("_")[1], server.now))
    server.submit(key, device, "a", "GET", SWITCH)
    before = server.log(key)
    assert cursor(server, key) == len(before) == 2
    server.restart()
    assert server.log(key) == before
    server.registration(key, device, "PUT")
    server.restart()
    assert server.kinds(other) == ["reg-updates"]
    check_error(server.call(revoked, "GET", "/v3/devices"), 401)
    server.submit(key, device, "b", "GET", SWITCH)
    response = server.call(key, "GET", f"{PULL}?after=3&hold=0")
    assert [entry["id"] for entry in response.json["async-responses"]] == ["b"]
    assert response.headers["Mirror-Cursor"] == "4"


@pytest.mark.parametrize("seen_again", [True, False])
def test_plain_poll_continues_after_the_last_confirmed_response(server, key, device, seen_again):
    def poll():
        response = server.call(key, "GET", f"{PULL}?hold=0")
        return (
            [entry["id"] for entry in response.json.get("async-responses", [])] if response.status_code == 200 else None
        )

    server.submit(key, device, "a", "GET", SWITCH)
    assert poll() == ["a"]
    server.submit(key, device, "b", "GET", SWITCH)
    assert poll() == ["b"]
    if not seen_again:
        assert poll() is None
    server.restart()
    assert server.channel(key) == {"delivery_mechanism": "LONG_POLLING"}
    server.submit(key, device, "c", "GET", SWITCH)
    assert poll() == (["b", "c"] if seen_again else ["c"])
    assert poll() is None
    server.call(key, "DELETE", PULL)
    server.restart()
    assert server.call(key, "GET", "/v2/notification/channel").status_code == 404


def test_queued_commands_expire_or_are_delivered_in_order_after_a_restart(server, key, device, restart_later):
    server.patch(key, device, online=False)
    server.submit(key, device, "r", "GET", SWITCH, expiry_seconds=60)
    for number in range(3):
        server.submit(key, device, f"w{number}", "PUT", SWITCH, value=str(number))
    restart_later(59)
    assert server.responses(key) == {}
    server.advance(key, 1)
    assert server.responses(key) == {"r": (429, "REQUEST_EXPIRED")}
    assert server.resource(key, device, SWITCH)["desired"]["status"] == 0
    server.patch(key, device, online=True)
    assert list(server.responses(key)) == ["r", "w0", "w1", "w2"]
    assert server.resource(key, device, SWITCH)["desired"]["status"] == 1
    assert server.value_of_device(device, SWITCH) == "2"


def test_in_flight_command_is_sent_again_after_a_restart_under_its_async_id(server, key, device):
    server.patch(key, device, latency_seconds=30)
    assert server.submit(key, device, "w", "PUT", SWITCH, value="1").status_code == 202
    server.restart()
    assert server.responses(key) == {}
    assert server.submit(key, device, "w", "PUT", SWITCH, value="1").status_code == 202
    assert server.submit(key, device, "w", "PUT", SWITCH, value="0").status_code == 409
    server.advance(key, 60)
    assert server.responses(key) == {"w": (200, None)}


@pytest.mark.parametrize("online", [True, False])
def test_command_that_expired_during_downtime_fails_undelivered(server, key, device, restart_later, online):
    server.patch(key, device, online=online, latency_seconds=30)
    server.submit(key, device, "w", "PUT", SWITCH, value="1", expiry_seconds=60)
    server.submit(key, device, "r", "GET", SWITCH, expiry_seconds=7200)
    restart_later(60)
    desired = server.resource(key, device, SWITCH)["desired"]
    assert (desired["status"], desired["desired_at"]) == (2, "2026-01-05T08:01:00.000Z")
    assert server.responses(key) == {"w": (429, "REQUEST_EXPIRED")}
    server.patch(key, device, online=True)
    server.advance(key, 60)
    assert server.responses(key) == {"w": (429, "REQUEST_EXPIRED"), "r": (200, None)}
    assert server.value_of_device(device, SWITCH) == "0"


def test_subscriptions_survive_a_restart(server, key, device, other):
    server.subscribe(key, device, SWITCH)
    server.restart()
    assert server.call(key, "GET", f"/v2/subscriptions/{device}").get_data(as_text=True) == SWITCH
    server.set_value(key, device, "1", SWITCH)
    assert server.observed(key)[-1] == (device, "1")
    assert server.observed(other) == []
    server.subscribe(other, device, SWITCH)
    assert server.observed(other) == [(device, "1")]


def test_pending_subscription_changes_survive_a_restart(server, key, device):
    server.subscribe(key, device)
    server.patch(key, device, online=False)
    server.subscribe(key, device, SWITCH)
    server.subscribe(key, device, method="DELETE")
    server.restart()
    assert server.subscribed(key, device) == []
    server.patch(key, device, online=True)
    assert server.subscribed(key, device) == [SWITCH]
    server.set_value(key, device, "22")
    assert server.resource(key, device)["reported"]["value"] == "MjEuNQ=="
    assert server.observed(key) == [(device, "21.5"), (device, "0")]


def test_due_work_of_the_downtime_is_done_at_startup(server, key, device, restart_later):
    server.patch(key, device, online=False)
    assert cursor(server, key) == 1
    restart_later(DAY + 1)
    assert server.call(key, "GET", f"/v3/devices/{device}").json["state"] == "deregistered"
    response = server.call(key, "GET", f"{PULL}?after=0&hold=0")
    assert response.headers["Mirror-Gap"] == "1-1"
    assert [(kind, entry["ep"]) for kind, (entry,) in response.json.items()] == [("registrations-expired", device)]
    restart_later(182 * DAY)
    assert server.call(key, "GET", f"/v3/devices/{device}/echo").status_code == 404


def test_rules_survive_a_restart(server, key):
    rules = [{"endpoint-type": "Light", "resource-path": [TEMPERATURE]}]
    server.put_rules(key, *rules)
    server.restart()
    assert server.call(key, "GET", RULES).json == rules
    device = server.add_device(key, "light-2", endpoint_type="Light")
    assert server.observed(key) == [(device, "21.5")]


def test_restart_or_new_leader_changes_nothing_visible(server, key, device, restart_later):
    def visible_state():
        """Return all visible state of a device, on both sides, and the log of the application."""
        body = server.call(key, "GET", f"/v3/devices/{device}/echo").json
        resources = sorted(body["resources"], key=lambda resource: resource["resource_path"])
        own = {path: server.value_of_device(device, path) for path in (DOOR, SWITCH, TEMPERATURE)}
        return resources, server.call(key, "GET", "/v3/devices").json, own, server.log(key)

    server.put_rules(key, {})
    server.registration(key, device, "PUT")
    server.set_value(key, device, "22")
    server.set_value(key, device, "1", DOOR)
    server.submit(key, device, "r", "GET", TEMPERATURE)
    server.submit(key, device, "w", "PUT", SWITCH, value="1")
    before = visible_state()
    assert len(server.observed(key)) == 6
    assert before[0][-1]["desired"]["status"] == 1
    assert [resource["subscribed"] for resource in before[0]] == [True] * 3
    for later in (0, 60):
        restart_later(later)
        assert visible_state() == before
    server.services.stop_leading()
    server.services.become_leader()
    assert visible_state() == before
    server.set_value(key, device, "23")
    assert server.observed(key)[-1] == (device, "23")


def test_change_during_downtime_is_reported_once(server, key, device):
    server.subscribe(key, device)
    server.patch(key, device, online=False)
    server.set_value(key, device, "22")
    server.restart()
    assert server.observed(key) == [(device, "21.5")]
    server.patch(key, device, online=True)
    server.restart()
    assert server.observed(key) == [(device, "21.5"), (device, "22")]


def test_restart_does_not_send_an_unsent_auto_observed_value(server, key, device):
    server.restart()
    assert server.resource(key, device, DOOR)["reported"] == {}
    server.set_value(key, device, "1", DOOR)
    assert server.resource(key, device, DOOR)["reported"]["origin"] == "auto_observation"


@pytest.mark.parametrize("is_restarted", [False, True])
def test_times_of_a_resource_do_not_go_back_with_the_clock(new_server, monkeypatch, is_restarted):
    now = [1_800_000_000_000]
    monkeypatch.setattr(SystemClock, "now", lambda _: now[0])
    server = new_server(manual_clock=False)
    key, other = server.key(), server.key()
    device = server.add_device(key, "sensor-1")
    server.subscribe(key, device)
    begin_at = now[0]
    now[0] += 5000
    server.set_value(key, device, "22")
    now[0] -= 3_600_000
    if is_restarted:
        server.restart()
    server.set_value(key, device, "23")
    server.subscribe(other, device)
    now[0] += 7_200_000
    server.set_value(key, device, "24")
    assert [value for _, value in server.observed(key)] == ["21.5", "22", "23", "24"]
    for each, expected in ((key, [0, 5000, 5000, now[0] - begin_at]), (other, [5000, now[0] - begin_at])):
        entries = [entry for kind, entry in server.log(each) if kind == "notifications"]
        assert [entry["timestamp"] - begin_at for entry in entries] == expected
