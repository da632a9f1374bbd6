"""What goes on when a server is closed and opened again on the same file. Source: wire.md 2, 3, 4 and 8."""

import pytest

from mirror_server.store import keys as stored_keys

PULL = "/v2/notification/pull"
SWITCH = "/3311/0/5850"
HOUR = 3600
DAY = 24 * HOUR


@pytest.fixture
def device(server, key):
    resource = {"path": SWITCH, "value": "0", "observable": True, "writable": True}
    return server.add_device(key, "light-1", resource, endpoint_type="Light")


def subscribe(server, key, device_id):
    assert server.call(key, "PUT", f"/v2/subscriptions/{device_id}{SWITCH}").status_code == 200
    assert server.services.database.settle(10)


def cursor(server, key):
    return int(server.call(key, "GET", f"{PULL}?after=latest&hold=0").headers["Mirror-Cursor"])


def test_keys_go_on_and_revoked_ones_stay_revoked(server, key, refused):
    gone = server.key()
    key_id = gone.split("_")[1]
    assert server.services.database.write(lambda session: stored_keys.revoke(session, key_id, server.now))
    server.restart()
    assert server.call(key, "GET", "/v3/devices").status_code == 200
    refused(server.call(gone, "GET", "/v3/devices"), 401)


def test_the_device_object_is_the_same(server, key, device):
    subscribe(server, key, device)
    server.place(key, device, "w", "PUT", SWITCH, value="1")
    before = server.resource(key, device, SWITCH)
    directory = server.call(key, "GET", "/v3/devices").json
    assert (before["subscribed"], before["desired"]["status"]) == (True, 1)
    server.restart()
    assert server.resource(key, device, SWITCH)["desired"] == before["desired"]
    assert server.resource(key, device, SWITCH)["subscribed"] is True
    assert server.call(key, "GET", "/v3/devices").json == directory


def test_the_log_goes_on_at_the_next_number(server, key, device):
    server.place(key, device, "a", "GET", SWITCH)
    before = server.log(key)
    assert cursor(server, key) == len(before) == 2
    server.restart()
    assert server.log(key) == before
    server.place(key, device, "b", "GET", SWITCH)
    answer = server.call(key, "GET", f"{PULL}?after=2&hold=0")
    assert [entry["id"] for entry in answer.json["async-responses"]] == ["b"]
    assert answer.headers["Mirror-Cursor"] == "3"


def test_the_log_of_a_key_that_does_not_ask_again_is_kept_on(server, key, device):
    quiet = server.key()
    server.restart()
    server.registration(key, device, "PUT")
    server.restart()
    server.registration(key, device, "DELETE")
    assert sorted(kind for kind, _ in server.log(quiet)) == ["de-registrations", "reg-updates"]


@pytest.mark.parametrize("seen_again", [True, False])
def test_a_plain_poll_goes_on_where_the_last_answer_surely_arrived(server, key, device, seen_again):
    def poll():
        answer = server.call(key, "GET", f"{PULL}?hold=0")
        return [entry["id"] for entry in answer.json.get("async-responses", [])] if answer.status_code == 200 else None

    server.place(key, device, "a", "GET", SWITCH)
    assert poll() == ["a"]
    server.place(key, device, "b", "GET", SWITCH)
    assert poll() == ["b"]
    if not seen_again:
        assert poll() is None
    server.restart()
    server.place(key, device, "c", "GET", SWITCH)
    assert poll() == (["b", "c"] if seen_again else ["c"])
    assert poll() is None


def test_a_poll_channel_and_its_deletion_outlive_a_restart(server, key, refused):
    server.call(key, "GET", f"{PULL}?hold=0")
    server.restart()
    assert server.channel(key) == {"delivery_mechanism": "LONG_POLLING"}
    server.call(key, "DELETE", PULL)
    server.restart()
    refused(server.call(key, "GET", "/v2/notification/channel"), 404)


def test_a_queued_command_is_delivered_in_order_after_the_restart(server, key, device):
    server.patch(key, device, online=False)
    for number in range(3):
        server.place(key, device, f"w{number}", "PUT", SWITCH, value=str(number))
    server.restart()
    assert server.responses(key) == {}
    assert server.resource(key, device, SWITCH)["desired"]["status"] == 0
    server.patch(key, device, online=True)
    assert list(server.responses(key)) == ["w0", "w1", "w2"]
    assert server.resource(key, device, SWITCH)["desired"]["status"] == 1
    (state,) = server.call(key, "GET", "/sim/v1/devices").json["data"]
    assert state["resources"][0]["value"] == "2"


def test_a_command_under_way_is_delivered_after_the_restart_and_answered_once(server, key, device):
    server.patch(key, device, latency_seconds=30)
    server.place(key, device, "w", "PUT", SWITCH, value="1")
    server.restart()
    server.advance(key, 60)
    assert server.responses(key) == {"w": (200, None)}


def test_an_async_id_stands_for_its_request_after_the_restart_too(server, key, device):
    assert server.place(key, device, "w", "PUT", SWITCH, value="1").status_code == 202
    server.restart()
    assert server.place(key, device, "w", "PUT", SWITCH, value="1").status_code == 202
    assert server.place(key, device, "w", "PUT", SWITCH, value="0").status_code == 409
    assert server.responses(key) == {"w": (200, None)}


@pytest.mark.parametrize("online", [True, False])
def test_a_command_that_expired_while_the_server_was_down_fails_and_is_not_delivered(
    server, key, device, restart_later, online
):
    server.patch(key, device, online=online, latency_seconds=30)
    server.place(key, device, "w", "PUT", SWITCH, value="1", expiry_seconds=60)
    server.place(key, device, "r", "GET", SWITCH, expiry_seconds=7200)
    restart_later(60)
    desired = server.resource(key, device, SWITCH)["desired"]
    assert (desired["status"], desired["desired_at"]) == (2, "2026-01-05T08:01:00.000Z")
    assert server.responses(key) == {"w": (429, "REQUEST_EXPIRED")}
    server.patch(key, device, online=True)
    server.advance(key, 60)
    assert server.responses(key) == {"w": (429, "REQUEST_EXPIRED"), "r": (200, None)}
    (state,) = server.call(key, "GET", "/sim/v1/devices").json["data"]
    assert state["resources"][0]["value"] == "0"


def test_a_command_that_expires_after_the_restart_still_does(server, key, device, restart_later):
    server.patch(key, device, online=False)
    server.place(key, device, "w", "PUT", SWITCH, value="1", expiry_seconds=60)
    restart_later(59)
    assert server.responses(key) == {}
    server.advance(key, 1)
    assert server.responses(key) == {"w": (429, "REQUEST_EXPIRED")}


def test_rules_go_on(server, key):
    rules = [{"endpoint-type": "Light", "resource-path": ["/3311/*"]}]
    server.call(key, "PUT", "/v2/subscriptions", json=rules)
    server.restart()
    assert server.call(key, "GET", "/v2/subscriptions").json == rules
    device = server.add_device(
        key, "light-2", {"path": SWITCH, "value": "1", "observable": True}, endpoint_type="Light"
    )
    assert server.observed(key) == [(device, "1")]


def test_subscriptions_go_on(server, key, device):
    other = server.key()
    subscribe(server, key, device)
    server.restart()
    assert server.call(key, "GET", f"/v2/subscriptions/{device}").get_data(as_text=True) == SWITCH
    server.set_value(key, device, "1", SWITCH)
    assert server.observed(key)[-1] == (device, "1")
    assert server.observed(other) == []
    subscribe(server, other, device)
    assert server.observed(other) == [(device, "1")]


def test_a_subscription_that_waits_goes_on_waiting(server, key, device):
    server.patch(key, device, online=False)
    subscribe(server, key, device)
    server.restart()
    assert server.resource(key, device, SWITCH)["subscribed"] is False
    server.patch(key, device, online=True)
    assert server.resource(key, device, SWITCH)["subscribed"] is True
    assert server.observed(key) == [(device, "0")]


def test_an_ended_subscription_stays_ended(server, key, device):
    subscribe(server, key, device)
    server.patch(key, device, online=False)
    server.call(key, "DELETE", f"/v2/subscriptions/{device}{SWITCH}")
    server.restart()
    server.patch(key, device, online=True)
    reported = server.resource(key, device, SWITCH)["reported"]
    server.set_value(key, device, "1", SWITCH)
    assert server.resource(key, device, SWITCH)["reported"] == reported
    assert server.resource(key, device, SWITCH)["subscribed"] is False


def test_a_registration_that_ended_while_the_server_was_down_is_told(server, key, device, restart_later):
    server.patch(key, device, online=False)
    restart_later(DAY)
    assert server.call(key, "GET", f"/v3/devices/{device}").json["state"] == "deregistered"
    assert ("registrations-expired", device) in [(kind, entry["ep"]) for kind, entry in server.log(key)]


def test_a_device_silent_for_six_months_is_gone_at_the_start(server, key, device, restart_later):
    server.patch(key, device, online=False)
    restart_later(182 * DAY)
    assert server.call(key, "GET", f"/v3/devices/{device}/echo").status_code == 404


def test_the_log_is_trimmed_at_the_start(server, key, device, restart_later):
    server.patch(key, device, online=False)
    assert cursor(server, key) == 1
    restart_later(DAY + 1)
    answer = server.call(key, "GET", f"{PULL}?after=0&hold=0")
    assert answer.headers["Mirror-Gap"] == "1-1"
    assert [(kind, entry["ep"]) for kind, (entry,) in answer.json.items()] == [("registrations-expired", device)]


def test_two_restarts_change_nothing(server, key, device):
    server.place(key, device, "w", "PUT", SWITCH, value="1")
    before = (server.log(key), server.call(key, "GET", "/sim/v1/devices").json)
    for _ in range(2):
        server.restart()
        assert (server.log(key), server.call(key, "GET", "/sim/v1/devices").json) == before
