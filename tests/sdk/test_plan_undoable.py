"""Undoable writes of a plan, reported before it is applied, and reads that make writes undoable."""

import re
from datetime import timedelta

import pytest
from client_test_data import add_lights, all_to, levels
from device_objects import SNAPSHOT_AT
from device_objects import device as device_object
from device_objects import resource as state
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from resource_paths import LEVEL, SWITCH

from mirror_sdk import AccessDenied, CallTimeout
from mirror_sdk.client_groups import async_planner, planner
from mirror_sdk.plan.checks import Check, TargetDevice, check_all
from mirror_sdk.plan.requested_writes import RequestedWrite
from mirror_sdk.plan.saved_plan import load, save
from mirror_sdk.values import SENML_JSON, encode
from mirror_sdk.wire.directory import Device
from mirror_server.service.keys import Scope

COLOR = "/3311/0/5706"
OWN = "/10250/0/1"
PATHS = (LEVEL, SWITCH, COLOR, OWN)
RESOURCES = [{"path": path, "value": "10", "writable": True} for path in PATHS]


@pytest.fixture
def lights(simulator):
    return add_lights(simulator, 3, resources=RESOURCES)


def undoable(plan):
    return plan.frame["undoable"].tolist()


def test_the_plan_table_marks_writes_that_cannot_be_undone(client, simulator, lights):
    client.read_value(lights[0], LEVEL)
    simulator.set_value(lights[2], LEVEL, "1000")
    client.read_value(lights[2], LEVEL)
    plan = client.plan(all_to(lights))
    assert undoable(plan) == [True, False, False]
    assert plan.frame["reason"].isna().tolist() == [True, False, False]
    assert "this write cannot be undone: the mirror knows no earlier value" in plan.frame["reason"][1]
    assert re.search("this write cannot be undone: .*from 0 to 100", plan.frame["reason"][2])
    assert "2 cannot be undone" in repr(plan)
    plan.apply()
    back = plan.undo().frame.set_index("device_id")["decision"]
    assert [back[device_id] for device_id in lights] == ["write", "refuse", "refuse"]


def test_read_first_reads_unknown_values(client, lights):
    plan = client.plan(all_to(lights), read_first=True)
    assert undoable(plan) == [True] * 3
    assert plan.frame["current_num"].tolist() == [10.0] * 3
    assert client.requests.list() == []
    assert all(client.get_device(device_id)[LEVEL].desired is None for device_id in lights)
    plan.apply()
    plan.undo().apply()
    assert levels(client, lights) == [10] * 3
    assert client.plan(all_to(lights, 10), read_first=True).frame["check"].tolist() == ["already_so"] * 3


def test_read_first_reads_only_unknown_values(client, simulator, lights):
    client.read_value(lights[0], LEVEL)
    client.write_value(lights[1], LEVEL, 20)
    simulator.set_value(lights[0], LEVEL, 11)
    simulator.set_value(lights[1], LEVEL, 21)
    writes = [*all_to(lights), (lights[0], LEVEL, 40), ("nobody", LEVEL, 1), (lights[2], SWITCH, "bright")]
    plan = client.plan(writes, read_first=True)
    assert plan.frame["current_num"].tolist()[:3] == [10.0, 20.0, 10.0]
    assert client.get_device(lights[2])[SWITCH].reported is None


def test_read_first_reads_after_a_write_of_unknown_effect(client, simulator, lights):
    client.read_value(lights[0], LEVEL)
    simulator.set_online(lights[0], False)
    request = client.requests.begin_write(lights[0], LEVEL, 20, expiry_seconds=200)
    simulator.set_response_mode(lights[0], "silent")
    simulator.set_online(lights[0], True)
    simulator.advance(timedelta(seconds=301))
    assert request.exception(10).category == "TIMEOUT"
    simulator.set_response_mode(lights[0], "normal")
    simulator.set_value(lights[0], LEVEL, 20)
    assert client.plan(all_to(lights[:1])).frame["current_num"].tolist() == [10.0]
    assert client.plan(all_to(lights[:1]), read_first=True).frame["current_num"].tolist() == [20.0]


def test_read_first_does_not_read_sleeping_devices(client, simulator):
    sleeper = simulator.add_device("sleeper", RESOURCES, queue_mode=True)
    simulator.advance(11)
    plan = client.plan(all_to([sleeper]), read_first=True)
    assert undoable(plan) == [False]
    assert client.requests.list() == []


@pytest.mark.parametrize(("is_online", "failure"), [(True, "(REJECTED)"), (False, "(no response)")])
def test_failed_read_delays_the_plan_briefly_and_is_named(client, simulator, lights, monkeypatch, is_online, failure):
    for module in (async_planner, planner):
        monkeypatch.setattr(module, "_LATE_SECONDS", 0.2)
        monkeypatch.setattr(module, "_POLL_SECONDS", 0.1)
    simulator.set_response_mode(lights[1], "reject")
    simulator.set_online(lights[1], is_online)
    plan = client.plan(all_to(lights), read_first=True)
    assert undoable(plan) == [True, False, True]
    assert f"a read of its value failed {failure}" in plan.frame["reason"][1]


def test_timeout_of_a_plan_includes_its_reads(client, simulator, lights):
    simulator.set_online(lights[1], False)
    # If everything before the reads takes all of the time, the test tries a longer timeout.
    for timeout in (1, 5, 25):
        with pytest.raises(CallTimeout, match=f"took longer than timeout={timeout} s") as caught:
            client.plan(all_to(lights), read_first=True, timeout=timeout)
        if "before the plan" in str(caught.value):
            return
    pytest.fail(f"it never came to the reads: {caught.value}")


def test_key_without_write_scope_plans_without_reads(new_client, lights):
    reader = new_client(Scope.SUBSCRIBE, Scope.READ)
    plan = reader.plan(all_to(lights))
    assert undoable(plan) == [False] * 3
    with pytest.raises(AccessDenied):
        new_client(Scope.SUBSCRIBE).plan(all_to(lights), read_first=True)


REQUESTED = {LEVEL: 40, SWITCH: True, COLOR: "#ffffff", OWN: "else"}
BEFORE = st.one_of(st.sampled_from(["0", "1", "10", "100", "101", "-3", "1e3", "nan", "", "true", "bright"]), st.text())


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.tuples(*(BEFORE for _ in PATHS)))
def test_undo_rejects_exactly_the_rows_that_are_not_undoable(client, simulator, texts):
    device_id = simulator.add_device(f"any-{len(simulator.list_devices())}", RESOURCES)
    for path, text in zip(PATHS, texts, strict=True):
        simulator.set_value(device_id, path, text)
    plan = client.plan([(device_id, path, value) for path, value in REQUESTED.items()], read_first=True)
    sent = plan.frame[plan.frame["decision"] == "write"].set_index("path")["undoable"]
    plan.apply(canary=0)
    back = plan.undo().frame.set_index("path")["decision"]
    assert {path: back[path] != "refuse" for path in sent.index} == sent.to_dict()


def check_one(requested, before):
    """Check a write to a device that reported the instances of a multiple resource before."""
    payload, _ = encode(before, requested.path, SENML_JSON)
    mirrored = device_object(state(requested.path, payload, content_type=SENML_JSON))
    body = {
        "id": "015f00",
        "endpoint_name": "a",
        "state": "registered",
        "created_at": SNAPSHOT_AT,
        "updated_at": SNAPSHOT_AT,
    }
    devices = {"015f00": TargetDevice(Device.model_validate(body), SNAPSHOT_AT, mirrored.resources)}
    (planned,) = check_all([requested], devices, {})
    return planned


def test_undo_restores_all_instances_of_a_multiple_resource(tmp_path):
    before, new_value = {0: 3800, 1: 5000}, {0: 3900}
    planned = check_one(RequestedWrite("015f00", "/10250/0/8", new_value), before)
    assert planned.undoable
    assert planned.undo == RequestedWrite("015f00", "/10250/0/8", before, SENML_JSON)
    save(tmp_path / "plan.json", "https://mirror.example", [planned], [])
    (loaded,), _ = load(tmp_path / "plan.json", "https://mirror.example")
    assert (loaded.requested.python, loaded.undo) == (new_value, planned.undo)


def test_json_text_of_a_multiple_resource_is_not_written():
    for text, check in (('{"0": 3800, "1": 5000}', Check.ALREADY_SO), ('{"0": 3900}', Check.WRONG_TYPE)):
        assert check_one(RequestedWrite("015f00", OWN, text), {0: 3800, 1: 5000}).check is check
