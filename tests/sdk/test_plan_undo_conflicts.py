"""Undoing a plan does not overwrite later changes by others."""

import re

import pytest
from client_test_data import DIMMER, add_lights, all_to, levels
from resource_paths import LEVEL

from mirror_sdk import WriteRejected


@pytest.fixture
def other_client(new_client):
    return new_client()


@pytest.fixture
def lights(client, simulator):
    return add_lights(simulator, 9, client, [DIMMER])


@pytest.fixture
def applied(client, lights):
    plan = client.plan(all_to(lights, 50))
    assert set(plan.apply()["status"]) == {"success"}
    return plan


def checks(plan, lights):
    return plan.frame.set_index("device_id").loc[lights, "check"].tolist()


def test_undo_rejects_resources_that_were_changed_later(
    client, simulator, new_client, other_client, lights, applied, tmp_path
):
    applied.save(tmp_path / "plan.json")
    simulator.advance(1)
    # Written and changed by the device itself; the same value written, restored and restored without effect.
    for light, written in ((0, [77]), (1, [50]), (2, [77, 50]), (3, [77])):
        for level in written:
            other_client.write_value(lights[light], LEVEL, level)
    simulator.set_response_mode(lights[3], "reject")
    with pytest.raises(WriteRejected):
        other_client.write_value(lights[3], LEVEL, 50)
    simulator.set_response_mode(lights[3], "normal")
    for light, level in ((4, 88), (5, 50), (6, 10)):
        simulator.set_value(lights[light], LEVEL, level)
        other_client.read_value(lights[light], LEVEL)
    found = ["changed", "ok", "ok", "changed", "changed", "ok", "already_so", "ok", "ok"]
    assert checks(new_client().plans.load(tmp_path / "plan.json").undo(), lights) == found
    undo = applied.undo()
    assert checks(undo, lights) == found
    time = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    for light, level, how in ((0, 77, "written"), (3, 50, "write failed"), (4, 88, "reported")):
        row = undo.frame.set_index("device_id").loc[lights[light]]
        assert row["decision"] == "refuse"
        assert re.search(rf": {level} \({how} at {time}\); to overwrite this change", row["reason"])
    assert set(undo.apply()["status"]) == {"success"}
    assert levels(client, lights) == [77, 10, 10, 77, 88, 10, 10, 10, 10]


def test_undo_rejects_a_resource_written_before_it_is_applied(client, other_client, lights, applied, tmp_path):
    undo = applied.undo()
    undo.save(tmp_path / "undo.json")
    other_client.write_value(lights[2], LEVEL, 77)
    loaded = client.plans.load(tmp_path / "undo.json")
    for plan in (undo, loaded):
        result = plan.apply(concurrency=1).set_index("device_id")
        assert result.loc[lights, "status"].tolist() == [*["success"] * 2, "failure", *["success"] * 6]
        assert result.loc[lights[2], "category"] == "DESIRED_CHANGED"
        assert checks(plan, lights) == [*["ok"] * 2, "changed", *["ok"] * 6]
        assert levels(client, lights) == [10, 10, 77, *[10] * 6]


def test_plans_are_undone_in_reverse_order_even_if_the_device_rounds(client, simulator):
    set_point = "/3308/0/5900"
    heater = simulator.add_device("heater", [{"path": set_point, "value": "19", "writable": True}])
    first = client.plan([(heater, set_point, 21.3)], read_first=True)
    first.apply()
    simulator.set_value(heater, set_point, "21.299999237060547")
    client.read_value(heater, set_point)
    second = client.plan([(heater, set_point, 25)])
    second.apply()
    assert checks(first.undo(), [heater]) == ["changed"]
    second.undo().apply()
    first.undo().apply()
    assert client.read_value(heater, set_point) == 19


def test_undo_of_an_undo_restores_the_plan(client, simulator, lights, applied):
    simulator.advance(1)
    undo = applied.undo()
    undo.apply()
    simulator.advance(1)
    again = undo.undo()
    assert checks(again, lights) == ["ok"] * 9
    again.apply()
    assert levels(client, lights) == [50] * 9
    assert checks(applied.undo(), lights) == ["ok"] * 9
