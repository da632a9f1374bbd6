"""Every route of the bench, and that it plays the device's side alone. Source: wire.md 8."""

import json
import re
import threading

import pytest

from mirror_sdk.wire.bench import BenchClock, BenchDeviceList
from mirror_server.clock import SystemClock
from mirror_server.devices.simulator.kinds import KINDS
from mirror_server.store import settings

BENCH = "/sim/v1/devices"
CLOCK = "/sim/v1/clock"
SWITCH, TEMPERATURE = "/3311/0/5850", "/3303/0/5700"
FLAGS = {"observable": False, "auto_observable": False, "writable": False, "executable": False}


@pytest.fixture
def device(server, key):
    return server.add_device(key, "light-1", {"path": SWITCH, "value": "0", "observable": True, "writable": True})


@pytest.fixture
def states(server, key):
    def ask():
        body = server.call(key, "GET", BENCH).json
        BenchDeviceList.model_validate(body, extra="forbid", strict=True)
        return {state["endpoint_name"]: state for state in body["data"]}

    return ask


def test_an_added_device_is_registered_at_once_and_shown_as_it_was_given(server, key, states):
    body = {
        "endpoint_name": "sensor-1",
        "endpoint_type": "Sensor",
        "queue_mode": True,
        "resources": [
            {"path": TEMPERATURE, "value": "21.5", "observable": True, "auto_observable": True},
            {"path": "/3/0/4", "executable": True},
            {"path": SWITCH, "value": "é", "writable": True},
        ],
    }
    answer = server.call(key, "POST", BENCH, json=body)
    assert (answer.status_code, set(answer.json)) == (201, {"id"})
    assert states() == {
        "sensor-1": {
            "id": answer.json["id"],
            "endpoint_name": "sensor-1",
            "endpoint_type": "Sensor",
            "queue_mode": True,
            "online": True,
            "registered": True,
            "answer": "normal",
            "latency_seconds": 0,
            "resources": [
                {"path": TEMPERATURE, "value": "21.5", **FLAGS, "observable": True, "auto_observable": True},
                {"path": "/3/0/4", "value": "", **FLAGS, "executable": True},
                {"path": SWITCH, "value": "é", **FLAGS, "writable": True},
            ],
        }
    }
    directory = server.call(key, "GET", f"/v3/devices/{answer.json['id']}").json
    assert (directory["endpoint_name"], directory["state"], directory["queue_mode"]) == ("sensor-1", "registered", True)


def test_a_device_without_anything_given(server, key, states):
    assert server.call(key, "POST", BENCH, json={"endpoint_name": "bare"}).status_code == 201
    state = states()["bare"]
    assert (state["endpoint_type"], state["queue_mode"], state["resources"]) == ("default", False, [])


def test_a_device_that_cannot_be_is_refused_and_not_there(server, key, device, states, refused):
    cases = [
        ({}, "endpoint_name"),
        ({"endpoint_name": ""}, "endpoint_name"),
        ({"endpoint_name": "x" * 65}, "endpoint_name"),
        ({"endpoint_name": "light-1"}, "endpoint_name"),
        ({"endpoint_name": "x", "endpoint_type": "y" * 65}, "endpoint_type"),
        ({"endpoint_name": "x", "queue_mode": "perhaps"}, "queue_mode"),
        ({"endpoint_name": "x", "resources": [{}]}, "resources.0.path"),
        ({"endpoint_name": "x", "resources": [{"path": "3303"}]}, "resources.0.path"),
        ({"endpoint_name": "x", "resources": [{"path": "/1", "value": 1}]}, "resources.0.value"),
        ({"endpoint_name": "x", "resources": [{"path": "/1"}, {"path": "/1"}]}, "resources"),
    ]
    for body, field in cases:
        refused(server.call(key, "POST", BENCH, json=body), 400, field)
        assert list(states()) == ["light-1"]


def test_a_patch_changes_what_it_names_alone(server, key, device, states):
    before = states()["light-1"]
    for patch in [{"online": False}, {"answer": "reject"}, {"latency_seconds": 0.2}, {}, {"answer": "silent"}]:
        answer = server.call(key, "PATCH", f"{BENCH}/{device}", json=patch)
        assert (answer.status_code, answer.get_data()) == (204, b"")
        before |= patch
        assert states()["light-1"] == before


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"online": "maybe"}, "online"),
        ({"answer": "loud"}, "answer"),
        ({"latency_seconds": -0.1}, "latency_seconds"),
        ({"latency_seconds": 3601}, "latency_seconds"),
    ],
)
def test_a_patch_that_cannot_be_is_refused_whole(server, key, device, states, refused, patch, field):
    before = states()
    body = {"online": False, "answer": "reject", **patch}
    refused(server.call(key, "PATCH", f"{BENCH}/{device}", json=body), 400, field)
    assert states() == before


def test_a_value_of_the_device_is_its_own(server, key, device, states):
    before = server.kinds(key)
    server.set_value(key, device, "1", SWITCH)
    assert states()["light-1"]["resources"][0]["value"] == "1"
    assert server.resource(key, device, SWITCH)["reported"] == {}
    assert server.kinds(key) == before


def test_flags_change_with_or_without_a_value(server, key, device, states):
    url = f"{BENCH}/{device}/resources{SWITCH}"
    assert server.call(key, "PUT", url, json={"writable": False}).status_code == 204
    resource = {"path": SWITCH, "value": "0", **FLAGS, "observable": True}
    assert states()["light-1"]["resources"] == [resource]
    server.place(key, device, "w", "PUT", SWITCH, value="1")
    assert server.responses(key) == {"w": (400, "METHOD_NOT_ALLOWED")}
    server.set_value(key, device, "5", SWITCH, observable=False, executable=True)
    assert states()["light-1"]["resources"] == [resource | {"value": "5", "observable": False, "executable": True}]
    server.set_value(key, device, "6", SWITCH, observable=True, executable=False)
    assert states()["light-1"]["resources"] == [resource | {"value": "6"}]


OBSERVED = [{"observable": True}, {"auto_observable": True}, {"observable": True, "auto_observable": True}]


@pytest.mark.parametrize("observed", OBSERVED)
def test_a_new_device_has_nothing_to_execute_and_to_observe_at_once(server, key, states, refused, observed):
    resources = [{"path": TEMPERATURE, "observable": True}, {"path": "/3/0/4", "executable": True, **observed}]
    answer = server.call(key, "POST", BENCH, json={"endpoint_name": "both", "resources": resources})
    refused(answer, 400, "resources.1.executable")
    assert "set executable to false, or observable" in answer.json["message"]
    assert "both" not in states()


@pytest.mark.parametrize("observed", OBSERVED)
@pytest.mark.parametrize("path", ["/3/0/4", SWITCH, "/3/0/5"])
def test_no_resource_becomes_one_to_execute_and_to_observe(server, key, device, states, refused, path, observed):
    server.set_value(key, device, "", "/3/0/4", executable=True)
    before = states()
    body = {"value": "9", "executable": True, **observed} if path != "/3/0/4" else {"value": "9", **observed}
    field = "executable" if path != "/3/0/4" else next(iter(observed))
    refused(server.call(key, "PUT", f"{BENCH}/{device}/resources{path}", json=body), 400, field)
    assert states() == before


def test_one_that_was_both_in_an_earlier_version_stays_so_until_it_is_told(server, key, device, states, refused):
    def make_both(session):
        documents = settings.simulated_devices(session)
        stored = json.loads(documents[device])
        stored["resources"][SWITCH]["executable"] = True
        settings.put_simulated_devices(session, {device: json.dumps(stored)})

    server.services.database.write(make_both)
    server.restart()
    both = {"path": SWITCH, "value": "0", **FLAGS, "writable": True, "observable": True, "executable": True}
    assert states()["light-1"]["resources"] == [both]
    server.set_value(key, device, "5", SWITCH, writable=False)
    assert states()["light-1"]["resources"] == [both | {"value": "5", "writable": False}]
    # Of its value, which it does not have, it says from its next update on that it cannot be observed.
    subscription = f"/v2/subscriptions/{device}{SWITCH}"
    assert server.call(key, "PUT", f"{BENCH}/{device}/registration").status_code == 204
    refused(server.call(key, "PUT", subscription), 400, "path")
    url = f"{BENCH}/{device}/resources{SWITCH}"
    refused(server.call(key, "PUT", url, json={"observable": True}), 400, "observable")
    assert server.call(key, "PUT", url, json={"executable": False}).status_code == 204
    assert server.call(key, "PUT", f"{BENCH}/{device}/registration").status_code == 204
    assert server.call(key, "PUT", subscription).status_code == 200
    assert states()["light-1"]["resources"] == [both | {"value": "5", "writable": False, "executable": False}]


def test_no_kind_of_device_has_one():
    assert not [
        (kind.name, rule.path)
        for kind in KINDS
        for rule in kind.rules.values()
        if rule.executable and (rule.observable or rule.auto_observable)
    ]


def test_a_new_resource_is_learnt_at_the_registration_update(server, key, device, states):
    server.set_value(key, device, "21.5", observable=True)
    assert [resource["path"] for resource in states()["light-1"]["resources"]] == [SWITCH, TEMPERATURE]
    assert [entry["uri"] for entry in server.call(key, "GET", f"/v2/endpoints/{device}").json] == [SWITCH]
    server.registration(key, device, "PUT")
    uris = {entry["uri"] for entry in server.call(key, "GET", f"/v2/endpoints/{device}").json}
    assert uris == {SWITCH, TEMPERATURE}
    assert server.resource(key, device)["reported"] == {}


def test_a_removed_resource_stays_in_the_mirror(server, key, device, states, refused):
    server.place(key, device, "r", "GET", SWITCH)
    url = f"{BENCH}/{device}/resources{SWITCH}"
    assert server.call(key, "DELETE", url).status_code == 204
    assert states()["light-1"]["resources"] == []
    refused(server.call(key, "DELETE", url), 400, "path")
    server.registration(key, device, "PUT")
    assert server.call(key, "GET", f"/v2/endpoints/{device}").json == []
    assert server.resource(key, device, SWITCH)["reported"]["value"] == "MA=="
    server.place(key, device, "gone", "GET", SWITCH)
    assert server.responses(key)["gone"] == (404, "RESOURCE_NOT_FOUND")


@pytest.mark.parametrize("path", ["/x", "/65536", "/1/2/3/4/5", "/01"])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_what_is_no_resource_path_is_refused(server, key, device, refused, method, path):
    body = {"value": "1"} if method == "PUT" else None
    told = refused(server.call(key, method, f"{BENCH}/{device}/resources{path}", json=body), 400, "path")
    assert re.search("/3303/0/5700|to 65535", told.message)


def test_registration_update_and_deregistration(server, key, device, states):
    server.registration(key, device, "PUT")
    server.registration(key, device, "DELETE")
    assert states()["light-1"]["registered"] is False
    assert server.call(key, "GET", f"/v3/devices/{device}").json["state"] == "deregistered"
    server.registration(key, device, "POST")
    assert states()["light-1"]["registered"] is True
    assert sorted(server.kinds(key)) == ["de-registrations", "reg-updates", "registrations", "registrations"]


def test_what_a_device_cannot_do_now_is_refused(server, key, device, refused):
    url = f"{BENCH}/{device}/registration"
    server.registration(key, device, "DELETE")
    for method in ["PUT", "DELETE"]:
        refused(server.call(key, method, url), 400, "registered")
    server.patch(key, device, online=False)
    for method in ["POST", "PUT", "DELETE"]:
        refused(server.call(key, method, url), 400, "online")


def test_a_device_that_comes_back_makes_contact_at_once(server, key, device, states):
    server.patch(key, device, online=False)
    server.place(key, device, "w", "PUT", SWITCH, value="1")
    assert server.responses(key) == {}
    server.patch(key, device, online=True)
    assert server.resource(key, device, SWITCH)["desired"]["status"] == 1
    taken = {"path": SWITCH, "value": "1", **FLAGS, "observable": True, "writable": True}
    assert states()["light-1"]["resources"] == [taken]
    assert server.responses(key) == {"w": (200, None)}


@pytest.mark.parametrize(
    ("behaviour", "seconds", "outcome"),
    [
        ({"answer": "reject"}, 0, (400, "REJECTED")),
        ({"answer": "silent"}, 120, (504, "TIMEOUT")),
        ({"latency_seconds": 119}, 119, (200, None)),
        ({"latency_seconds": 121}, 120, (504, "TIMEOUT")),
    ],
)
def test_a_behaviour_is_what_applications_see(server, key, device, behaviour, seconds, outcome):
    server.patch(key, device, **behaviour)
    server.place(key, device, "r", "GET", SWITCH)
    if seconds:
        server.advance(key, seconds - 1)
        assert server.responses(key) == {}
        server.advance(key, 1)
    assert server.responses(key) == {"r": outcome}


def test_a_bench_answer_is_given_when_what_it_causes_is_on_disk(server, key, device):
    server.subscribe(key, device, SWITCH)
    busy = threading.Event()
    # As if the disk were slow: whoever does not wait for it answers before.
    server.services.database.submit(lambda _: busy.wait(0.3))
    url = f"{BENCH}/{device}/resources{SWITCH}"
    # Past Server.call, which lets everything settle by itself.
    answer = server.app.test_client().put(url, json={"value": "7"}, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 204
    (shown,) = server.call(key, "GET", f"/v3/devices/{device}/echo").json["resources"]
    assert shown["reported"]["value"] == "Nw=="
    told = server.call(key, "GET", "/v2/notification/pull?after=0&hold=0").json["notifications"]
    assert told[-1]["payload"] == "Nw=="


def test_the_manual_clock_is_shown_and_advanced(server, key):
    shown = server.call(key, "GET", CLOCK).json
    BenchClock.model_validate(shown, extra="forbid")
    assert shown == {"now": "2026-01-05T08:00:00.000Z", "manual": True}
    advanced = server.call(key, "POST", CLOCK, json={"advance_seconds": 3600.25})
    BenchClock.model_validate(advanced.json, extra="forbid")
    assert advanced.json["now"] == "2026-01-05T09:00:00.250Z"
    assert server.call(key, "GET", CLOCK).json == advanced.json


@pytest.mark.parametrize("body", [{}, *({"advance_seconds": given} for given in (0, -1, "x", None, 31_622_401))])
def test_an_advance_that_cannot_be_is_refused(server, key, refused, body):
    refused(server.call(key, "POST", CLOCK, json=body), 400, "advance_seconds")
    assert server.call(key, "GET", CLOCK).json["now"] == "2026-01-05T08:00:00.000Z"


def test_the_system_clock_is_not_advanced(new_server, refused):
    live = new_server(manual_clock=False)
    key = live.key()
    body = refused(live.call(key, "POST", CLOCK, json={"advance_seconds": 1}), 400)
    assert "--clock manual" in body.message
    shown = live.call(key, "GET", CLOCK).json
    assert shown["manual"] is False
    assert isinstance(live.services.clock, SystemClock)


def test_without_simulation_every_route_of_the_bench_is_404_that_says_how_to_get_it(new_server, refused):
    plain = new_server(simulate=None)
    key = plain.key()
    bodies = {("POST", BENCH): {"endpoint_name": "x"}, ("POST", CLOCK): {"advance_seconds": 1}}
    tried = 0
    for rule in plain.app.url_map.iter_rules():
        path = re.sub("<[^>]*>", "nobody", re.sub("<path:[^>]*>", "3303/0/5700", rule.rule))
        if path.startswith("/sim/"):
            for method in rule.methods - {"HEAD", "OPTIONS"}:
                body = bodies.get((method, path), {} if method in {"PUT", "PATCH"} else None)
                answer = plain.call(key, method, path, json=body)
                assert "--simulate" in refused(answer, 404).message
                tried += 1
    assert tried == 10


def test_the_fleet_of_a_seed_is_the_same_everywhere(new_server):
    one, same, other = (new_server(simulate=5, seed=seed) for seed in (1, 1, 2))
    fleets = [running.call(running.key(), "GET", BENCH).json["data"] for running in (one, same, other)]
    assert len(fleets[0]) == 5
    assert fleets[0] == fleets[1]
    assert fleets[0] != fleets[2]


def test_a_restart_keeps_the_devices_their_behaviour_and_the_clock(server, key, device, states):
    server.advance(key, 90)
    server.set_value(key, device, "7", TEMPERATURE, auto_observable=True)
    server.patch(key, device, online=False, answer="reject", latency_seconds=3)
    before = states()
    clock = server.call(key, "GET", CLOCK).json
    server.restart()
    assert states() == before
    assert server.call(key, "GET", CLOCK).json == clock


@pytest.mark.parametrize("held", ["before", "after"])
def test_write_to_a_device_that_is_not_stored_in_time_is_503(server, key, device, refused, monkeypatch, held):
    database, simulator = server.services.database, server.services.bench.simulator
    go_on = threading.Event()
    set_value = simulator.set_value

    def hold():
        database.insist(lambda _: go_on.wait(60))

    def set_and_hold(*arguments, **flags):
        set_value(*arguments, **flags)
        hold()

    monkeypatch.setattr("mirror_server.service.bench._STORE_SECONDS", 0.05)
    if held == "before":
        hold()
    else:
        monkeypatch.setattr(simulator, "set_value", set_and_hold)
    try:
        url = f"/sim/v1/devices/{device}/resources/3303/0/5700"
        answer = server.call(key, "PUT", url, settled=False, json={"value": "22"})
    finally:
        go_on.set()
    assert "0.05 s" in refused(answer, 503).message
    assert database.settle(60)
