"""Every route of the simulator, which controls only the device's side. Source: wire.md 8."""

import itertools
import re
import threading
from dataclasses import replace

import pytest
from asgi_requests import check_off_the_loop
from device_resources import action, control, sensor, setting
from invalid_bodies import WRONG_TYPES
from resource_paths import SWITCH, TEMPERATURE

from mirror_sdk.wire.simulator import SimulatorClock, SimulatorDeviceList
from mirror_server.devices.interface import ConnectionStatus, Registration
from mirror_server.extensions.simulator.control import SimulatorControl
from mirror_server.service.keys import Scope
from mirror_server.store import maintenance

DEVICES = "/sim/v1/devices"
CLOCK = "/sim/v1/clock"
FLAGS = {"observable": False, "auto_observable": False, "writable": False, "executable": False}
BODIES = {
    f"POST {DEVICES}": {"endpoint_name": "new"},
    f"PATCH {DEVICES}/{{}}": {"online": True},
    f"PUT {DEVICES}/{{}}/resources{SWITCH}": {"value": "5"},
    f"POST {CLOCK}": {"advance_seconds": 1},
}
WITHOUT_BODY = [
    f"GET {DEVICES}",
    f"GET {CLOCK}",
    f"DELETE {DEVICES}/{{}}/resources{SWITCH}",
    *(f"{method} {DEVICES}/{{}}/registration" for method in ("POST", "PUT", "DELETE")),
]


@pytest.fixture
def server(simulated_server):
    return simulated_server


@pytest.fixture
def device(server, key):
    return server.add_device(key, "light-1", control(SWITCH))


@pytest.fixture
def states(server, key):
    def read():
        body = server.call(key, "GET", DEVICES).json
        SimulatorDeviceList.model_validate(body, extra="forbid", strict=True)
        return {state["endpoint_name"]: state for state in body["data"]}

    return read


def test_added_device_is_registered_and_returned_unchanged(server, key, states):
    body = {
        "endpoint_name": "sensor-1",
        "endpoint_type": "Sensor",
        "queue_mode": True,
        "resources": [sensor(TEMPERATURE, auto_observable=True), action("/3/0/4"), setting(SWITCH, "é")],
    }
    answer = server.call(key, "POST", DEVICES, json=body)
    assert (answer.status_code, set(answer.json)) == (201, {"id"})
    behavior = {"online": True, "registered": True, "answer": "normal", "latency_seconds": 0}
    resources = [{"value": "", **FLAGS, **resource} for resource in body["resources"]]
    assert states() == {"sensor-1": {**body, **behavior, "id": answer.json["id"], "resources": resources}}
    directory = server.call(key, "GET", f"/v3/devices/{answer.json['id']}").json
    assert (directory["endpoint_name"], directory["state"], directory["queue_mode"]) == ("sensor-1", "registered", True)
    assert server.call(key, "POST", DEVICES, json={"endpoint_name": "bare"}).status_code == 201
    bare = states()["bare"]
    assert (bare["endpoint_type"], bare["queue_mode"], bare["resources"]) == ("default", False, [])


def test_invalid_device_is_400_and_not_added(server, key, device, states, check_error):
    cases = [
        ({}, "endpoint_name"),
        ({"endpoint_name": "light-1"}, "endpoint_name"),
        ({"endpoint_name": "x", "endpoint_type": "y" * 65}, "endpoint_type"),
        ({"endpoint_name": "x", "queue_mode": "perhaps"}, "queue_mode"),
        ({"endpoint_name": "x", "resources": [{}]}, "resources.0.path"),
        ({"endpoint_name": "x", "resources": [{"path": "/1", "value": 1}]}, "resources.0.value"),
        ({"endpoint_name": "x", "resources": [{"path": "/1"}, {"path": "/1"}]}, "resources"),
        ({"endpoint_name": "x", "resources": [{"path": "3303"}]}, "resources.0.path"),
    ]
    for body, field in cases:
        check_error(server.call(key, "POST", DEVICES, json=body), 400, field)
    # No resource can be both executed and observed.
    for flag in ("observable", "auto_observable"):
        resources = [{"path": TEMPERATURE}, {"path": "/3/0/4", "executable": True, flag: True}]
        answer = server.call(key, "POST", DEVICES, json={"endpoint_name": "both", "resources": resources})
        check_error(answer, 400, "resources.1.executable")
        assert "set executable to false, or set both observable" in answer.json["message"]
    assert list(states()) == ["light-1"]


def test_patch_changes_only_named_fields(server, key, device, states, check_error):
    before = states()["light-1"]
    for patch in [{"online": False}, {"answer": "reject"}, {"latency_seconds": 0.2}, {}, {"answer": "silent"}]:
        answer = server.call(key, "PATCH", f"{DEVICES}/{device}", json=patch)
        assert (answer.status_code, answer.get_data()) == (204, b"")
        before |= patch
        assert states()["light-1"] == before
    for wrong in ({"online": "maybe"}, {"answer": "loud"}, {"latency_seconds": -0.1}, {"latency_seconds": 3601}):
        body = {"online": True, "answer": "reject", **wrong}
        check_error(server.call(key, "PATCH", f"{DEVICES}/{device}", json=body), 400, *wrong)
        assert states()["light-1"] == before


def test_flags_change_with_or_without_a_value(server, key, device, states):
    server.call(key, "PUT", f"{DEVICES}/{device}/resources{SWITCH}", json={"writable": False})
    resource = {"path": SWITCH, "value": "0", **FLAGS, "observable": True}
    assert states()["light-1"]["resources"] == [resource]
    server.submit(key, device, "w", "PUT", SWITCH, value="1")
    assert server.responses(key) == {"w": (400, "METHOD_NOT_ALLOWED")}
    server.set_value(key, device, "5", SWITCH, observable=False, executable=True)
    assert states()["light-1"]["resources"] == [resource | {"value": "5", "observable": False, "executable": True}]


def test_executable_and_observable_resource_is_rejected(server, key, device, states, check_error):
    server.set_value(key, device, "", "/3/0/4", executable=True)
    before = states()
    for path in ("/3/0/4", SWITCH, "/3/0/5"):
        for flag in ("observable", "auto_observable"):
            body = {"value": "9", flag: True} | ({} if path == "/3/0/4" else {"executable": True})
            field = flag if path == "/3/0/4" else "executable"
            check_error(server.call(key, "PUT", f"{DEVICES}/{device}/resources{path}", json=body), 400, field)
    assert states() == before


def test_invalid_resource_path_is_400_with_an_example(server, key, device, check_error):
    for path in ("/x", "/65536", "/1/2/3/4/5", "/01"):
        url = f"{DEVICES}/{device}/resources{path}"
        for answer in (server.call(key, "PUT", url, json={"value": "1"}), server.call(key, "DELETE", url)):
            assert re.search("/3303/0/5700|to 65535", check_error(answer, 400, "path").message)
    check_error(server.call(key, "DELETE", f"{DEVICES}/{device}/resources{TEMPERATURE}"), 400, "path")


def test_registration_update_and_deregistration(server, key, device, states, check_error):
    url = f"{DEVICES}/{device}/registration"
    server.registration(key, device, "PUT")
    server.registration(key, device, "DELETE")
    assert states()["light-1"]["registered"] is False
    assert server.call(key, "GET", f"/v3/devices/{device}").json["state"] == "deregistered"
    for method in ("PUT", "DELETE"):
        check_error(server.call(key, method, url), 400, "registered")
    server.registration(key, device, "POST")
    assert states()["light-1"]["registered"] is True
    server.patch(key, device, online=False)
    for method in ("POST", "PUT", "DELETE"):
        check_error(server.call(key, method, url), 400, "online")
    assert sorted(server.kinds(key)) == ["de-registrations", "reg-updates", "registrations", "registrations"]


def test_response_waits_until_effects_are_on_disk(server, key, device):
    server.subscribe(key, device, SWITCH)
    busy = threading.Event()
    # Simulate a slow disk.
    server.services.database.submit(lambda _: busy.wait(0.3))
    url = f"{DEVICES}/{device}/resources{SWITCH}"
    assert server.call(key, "PUT", url, json={"value": "7"}, settled=False).status_code == 204
    (resource,) = server.call(key, "GET", f"/v3/devices/{device}/echo").json["resources"]
    assert resource["reported"]["value"] == "Nw=="
    notifications = server.call(key, "GET", "/v2/notification/pull?after=0&hold=0").json["notifications"]
    assert notifications[-1]["payload"] == "Nw=="


def test_manual_clock_is_returned_and_advanced(server, key, check_error):
    returned = server.call(key, "GET", CLOCK).json
    SimulatorClock.model_validate(returned, extra="forbid")
    assert returned == {"now": "2026-01-05T08:00:00.000Z", "manual": True}
    for body in [{}, *({"advance_seconds": value} for value in (0, -1, "x", None, 31_622_401))]:
        check_error(server.call(key, "POST", CLOCK, json=body), 400, "advance_seconds")
    advanced = server.call(key, "POST", CLOCK, json={"advance_seconds": 3600.25})
    SimulatorClock.model_validate(advanced.json, extra="forbid")
    assert advanced.json["now"] == "2026-01-05T09:00:00.250Z"
    assert server.call(key, "GET", CLOCK).json == advanced.json


def test_system_clock_is_not_advanced(new_server, check_error):
    live = new_server(simulate=0, manual_clock=False)
    key = live.key()
    assert "--clock manual" in check_error(live.call(key, "POST", CLOCK, json={"advance_seconds": 1}), 400).message
    assert live.call(key, "GET", CLOCK).json["manual"] is False


def test_without_simulation_every_route_is_404_with_option(new_server, check_error):
    plain = new_server()
    key = plain.key()
    bodies = {("POST", DEVICES): {"endpoint_name": "x"}, ("POST", CLOCK): {"advance_seconds": 1}}
    rules = [rule for rule in plain.app.url_map.iter_rules() if rule.rule.startswith("/sim/")]
    assert len(rules) > 5
    for rule in rules:
        path = re.sub("<[^>]*>", "nobody", re.sub("<path:[^>]*>", "3303/0/5700", rule.rule))
        for method in rule.methods - {"HEAD", "OPTIONS"}:
            body = bodies.get((method, path), {} if method in {"PUT", "PATCH"} else None)
            assert "--simulate" in check_error(plain.call(key, method, path, json=body), 404).message


@pytest.mark.parametrize("delayed", ["before", "after"])
def test_change_not_stored_in_time_is_503(server, key, device, check_error, monkeypatch, delayed):
    database, backend = server.services.database, server.services.part(SimulatorControl).backend
    go_on = threading.Event()
    set_value = backend.set_value

    def set_and_hold(*arguments, **flags):
        set_value(*arguments, **flags)
        database.submit_durable(lambda _: go_on.wait(60))

    monkeypatch.setattr("mirror_server.extensions.simulator.control._STORE_SECONDS", 0.05)
    if delayed == "before":
        database.submit_durable(lambda _: go_on.wait(60))
    else:
        monkeypatch.setattr(backend, "set_value", set_and_hold)
    url = f"{DEVICES}/{device}/resources{TEMPERATURE}"
    answer = server.call(key, "PUT", url, settled=False, json={"value": "22"})
    go_on.set()
    assert "0.05 s" in check_error(answer, 503).message
    assert database.settle(60)


def send(server, key, route, device, **options):
    method, path = route.format(device).split()
    return server.call(key, method, path, **options)


def test_tables_contain_every_route(server):
    there = {
        f"{method} {re.sub('<[^>]*>', '{}', rule.rule.replace('/<path:path>', SWITCH))}"
        for rule in server.app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
        if rule.endpoint.startswith("simulator.")
    }
    assert there == {*BODIES, *WITHOUT_BODY}


def test_routes_require_scope_admin(server, key, device, check_error):
    plain = server.key(*(set(Scope) - {Scope.ADMIN}))
    for route in (*BODIES, *WITHOUT_BODY):
        check_error(send(server, None, route, device), 401)
        assert "--scope admin" in check_error(send(server, plain, route, device), 403).message
        assert send(server, key, route, device, json=BODIES.get(route)).status_code < 300, route


def test_unknown_device_is_404_with_its_name(server, key, check_error):
    for route in (*BODIES, *WITHOUT_BODY):
        if "{}" in route:
            error = check_error(send(server, key, route, "nobody", json=BODIES.get(route)), 404)
            assert (error.reason, "nobody" in error.message) == ("DEVICE_NOT_FOUND", True)


def test_unknown_member_is_400_with_its_path(server, key, device, states, check_error):
    before = states()
    for route, body in BODIES.items():
        error = check_error(send(server, key, route, device, json={**body, "surprise": 1}), 400, "surprise")
        assert "unknown" in error.fields[0].message
    other = {"endpoint_name": "x", "resources": [{"path": "/1", "obs": 1}]}
    check_error(server.call(key, "POST", DEVICES, json=other), 400, "resources.0.obs")
    assert states() == before


def test_member_of_wrong_type_is_400(server, key, device, check_error):
    for (route, body), wrong in itertools.product(BODIES.items(), WRONG_TYPES):
        for name in body:
            answer = send(server, key, route, device, json={**body, name: wrong})
            assert answer.status_code < 500, (route, name, answer.get_data())
            assert answer.status_code < 400 or check_error(answer, answer.status_code).fields


@pytest.mark.anyio
async def test_loop_serves_other_requests_while_devices_are_listed(server, bridge, key, device):
    await check_off_the_loop(server, bridge, key, DEVICES)


def test_device_has_connection_while_simulated(server, key, device):
    def connection():
        backends = server.services.backends
        return backends.describe(device), backends.is_reachable(device)

    assert connection() == (ConnectionStatus("simulated"), True)
    server.settings = replace(server.settings, extensions=())
    server.restart()
    assert connection() == (None, False)


def test_change_is_503_while_nothing_can_be_stored(server, key, device, disk, states):
    before = states()
    disk.break_down()
    answer = server.call(key, "PATCH", f"{DEVICES}/{device}", json={"online": False}, settled=False)
    assert (answer.status_code, answer.json["reason"]) == (503, "STORAGE_FAILED")
    assert states() == before
    disk.mend()
    assert server.call(key, "PATCH", f"{DEVICES}/{device}", json={"online": False}).status_code == 204


def test_erasure_of_device_deletes_its_document(server, device):
    rows = server.services.database.write(
        lambda session: maintenance.erase_device(session, device, server.services.database.storages)
    )
    assert (rows["devices"], rows["simulated_devices"]) == (1, 1)


def test_name_of_real_device_is_rejected(server, key, check_error):
    server.services.devices.registered(Registration("thermometer", "", False, 60, (), "lwm2m")).result(60)
    for _ in range(2):
        answer = server.call(key, "POST", DEVICES, json={"endpoint_name": "thermometer"})
        assert "a real device" in check_error(answer, 400, "endpoint_name").message
        # Nor after that one has left.
        server.advance(key, 60)
