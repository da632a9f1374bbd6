"""The bench and what survives a restart. Source: wire.md 8."""

import pytest

from mirror_sdk.wire.bench import BenchClock, BenchDeviceList

SWITCH = "/3311/0/5850"
LIGHT = ({"path": SWITCH, "value": "0", "observable": True, "writable": True},)


def simulated(server, key):
    body = server.call(key, "GET", "/sim/v1/devices").json
    BenchDeviceList.model_validate(body, extra="forbid")
    return {device["endpoint_name"]: device for device in body["data"]}


def test_a_write_shows_in_the_device(server, key):
    device = server.add_device(key, "light-1", *LIGHT)
    server.place(key, device, "w", "PUT", SWITCH, value="1")
    state = simulated(server, key)["light-1"]
    assert state["resources"][0] == {
        "path": SWITCH,
        "value": "1",
        "observable": True,
        "auto_observable": False,
        "writable": True,
        "executable": False,
    }
    assert (state["id"], state["online"], state["registered"], state["answer"]) == (device, True, True, "normal")


def test_behaviour_is_set_and_shown(server, key):
    device = server.add_device(key, "light-1", *LIGHT)
    server.patch(key, device, online=False, answer="silent", latency_seconds=0.2)
    state = simulated(server, key)["light-1"]
    assert (state["online"], state["answer"], state["latency_seconds"]) == (False, "silent", 0.2)


def test_what_the_bench_cannot_do_is_refused(server, key):
    device = server.add_device(key, "light-1", *LIGHT)
    for method, path, body, code, field in [
        ("PATCH", "/sim/v1/devices/nobody", {"online": False}, 404, None),
        ("PATCH", f"/sim/v1/devices/{device}", {"answer": "loud"}, 400, "answer"),
        ("PATCH", f"/sim/v1/devices/{device}", {"latency_seconds": -1}, 400, "latency_seconds"),
        ("POST", "/sim/v1/devices", {"endpoint_name": "light-1"}, 400, "endpoint_name"),
        ("POST", "/sim/v1/devices", {"endpoint_name": ""}, 400, "endpoint_name"),
        ("POST", "/sim/v1/devices", {"endpoint_name": "x", "resources": [{"path": "x"}]}, 400, "resources.0.path"),
        ("DELETE", f"/sim/v1/devices/{device}/resources/9/9/9", None, 400, "path"),
        ("PUT", f"/sim/v1/devices/{device}/resources/x", {"value": "1"}, 400, "path"),
        ("POST", "/sim/v1/clock", {"advance_seconds": 0}, 400, "advance_seconds"),
        ("POST", "/sim/v1/clock", {}, 400, "advance_seconds"),
    ]:
        answer = server.call(key, method, path, json=body)
        assert answer.status_code == code, (method, path, answer.get_data())
        assert [entry["name"] for entry in answer.json["fields"]] == ([field] if field else [])
    server.registration(key, device, "DELETE")
    assert server.call(key, "PUT", f"/sim/v1/devices/{device}/registration").status_code == 400


def test_the_clock_is_shown_and_advanced(server, key):
    shown = server.call(key, "GET", "/sim/v1/clock").json
    BenchClock.model_validate(shown, extra="forbid")
    assert shown == {"now": "2026-01-05T08:00:00.000Z", "manual": True}
    advanced = server.call(key, "POST", "/sim/v1/clock", json={"advance_seconds": 0.5}).json
    assert advanced["now"] == "2026-01-05T08:00:00.500Z"


def test_the_system_clock_cannot_be_advanced(server, tmp_path):
    (tmp_path / "live").mkdir()
    live = type(server)(tmp_path / "live", manual_clock=False)
    try:
        key = live.key()
        answer = live.call(key, "POST", "/sim/v1/clock", json={"advance_seconds": 1})
        assert answer.status_code == 400
        assert "--clock manual" in answer.json["message"]
        assert live.call(key, "GET", "/sim/v1/clock").json["manual"] is False
    finally:
        live.services.close()


def test_without_simulation_there_is_no_bench(server, tmp_path):
    (tmp_path / "plain").mkdir()
    plain = type(server)(tmp_path / "plain", simulate=None)
    try:
        answer = plain.call(plain.key(), "GET", "/sim/v1/devices")
        assert answer.status_code == 404
        assert "--simulate" in answer.json["message"]
    finally:
        plain.services.close()


def test_a_restart_keeps_devices_clock_keys_rules_subscriptions_and_the_log(server, key):
    server.advance(key, 60)
    device = server.add_device(key, "light-1", *LIGHT)
    rules = [{"endpoint-type": "Lock"}]
    server.call(key, "PUT", "/v2/subscriptions", json=rules)
    server.call(key, "PUT", f"/v2/subscriptions/{device}{SWITCH}")
    server.place(key, device, "w", "PUT", SWITCH, value="1")
    before = [entry["uid"] for _, entry in server.log(key)]
    state = server.resource(key, device, SWITCH)
    server.restart()
    assert server.call(key, "GET", "/sim/v1/clock").json["now"] == "2026-01-05T08:01:00.000Z"
    assert simulated(server, key)["light-1"]["resources"][0]["value"] == "1"
    assert server.call(key, "GET", "/v2/subscriptions").json == rules
    assert {entry["uid"] for _, entry in server.log(key)} >= set(before)
    assert len(before) == 4
    after = server.resource(key, device, SWITCH)
    assert (after["subscribed"], after["desired"]) == (True, state["desired"])
    server.set_value(key, device, "0", SWITCH)
    assert server.observed(key)[-1] == (device, "0")


@pytest.mark.parametrize("online_again", [True, False])
def test_after_a_restart_queued_commands_are_delivered_or_expire(server, key, online_again):
    device = server.add_device(key, "light-1", *LIGHT)
    server.patch(key, device, online=False)
    server.place(key, device, "w", "PUT", SWITCH, value="1", expiry_seconds=60)
    server.restart()
    assert server.resource(key, device, SWITCH)["desired"]["status"] == 0
    if online_again:
        server.patch(key, device, online=True)
    server.advance(key, 60)
    assert server.responses(key) == {"w": (200, None) if online_again else (429, "REQUEST_EXPIRED")}
    assert server.resource(key, device, SWITCH)["desired"]["status"] == (1 if online_again else 2)


def test_a_command_that_was_under_way_at_a_restart_is_delivered_again(server, key):
    device = server.add_device(key, "light-1", *LIGHT)
    server.patch(key, device, latency_seconds=30)
    server.place(key, device, "w", "PUT", SWITCH, value="1")
    server.restart()
    assert server.responses(key) == {}
    server.advance(key, 60)
    assert server.responses(key) == {"w": (200, None)}
