"""Undoing a plan leaves alone what was changed after the plan wrote it."""

import pytest

from mirror_sdk import WriteRejected

LEVEL = "/3311/0/5851"
RESOURCES = [{"path": LEVEL, "value": "10", "observable": True, "writable": True}]


@pytest.fixture
def lights(client, bench):
    devices = [bench.add_device(f"light-{number}", RESOURCES, endpoint_type="Light") for number in range(3)]
    for device in devices:
        client.read_value(device, LEVEL)
    return devices


@pytest.fixture
def somebody_else(new_client):
    return new_client()


@pytest.fixture
def applied(client, lights):
    plan = client.plan([(device, LEVEL, 50) for device in lights])
    assert set(plan.apply()["status"]) == {"success"}
    return plan


def checks(plan, lights):
    return plan.frame.set_index("device_id").loc[lights, "check"].tolist()


def test_undo_leaves_a_later_write_alone_and_undoes_the_others(client, somebody_else, lights, applied):
    somebody_else.write_value(lights[1], LEVEL, 77)
    undo = applied.undo()
    assert checks(undo, lights) == ["ok", "changed", "ok"]
    row = undo.frame.set_index("device_id").loc[lights[1]]
    assert (row["decision"], row["current_num"]) == ("refuse", 77)
    assert "77" in row["reason"]
    assert set(undo.apply()["status"]) == {"success"}
    assert [client.read_value(device, LEVEL) for device in lights] == [10, 77, 10]


def test_undo_leaves_a_write_alone_that_comes_before_it_is_applied(client, somebody_else, lights, applied):
    undo = applied.undo()
    somebody_else.write_value(lights[2], LEVEL, 77)
    result = undo.apply(concurrency=1).set_index("device_id")
    assert result.loc[lights, "status"].tolist() == ["success", "success", "failure"]
    assert result.loc[lights[2], "category"] == "DESIRED_CHANGED"
    assert checks(undo, lights) == ["ok", "ok", "changed"]
    assert [client.read_value(device, LEVEL) for device in lights] == [10, 10, 77]


def test_plans_are_undone_in_reverse_order_also_where_the_device_rounds(client, bench):
    set_point = "/3308/0/5900"
    heater = bench.add_device("heater", [{"path": set_point, "value": "19", "writable": True}])
    first = client.plan([(heater, set_point, 21.3)], read_first=True)
    first.apply()
    bench.set_value(heater, set_point, "21.299999237060547")
    client.read_value(heater, set_point)
    second = client.plan([(heater, set_point, 25)])
    second.apply()
    assert checks(first.undo(), [heater]) == ["changed"]
    second.undo().apply()
    first.undo().apply()
    assert client.read_value(heater, set_point) == 19


def test_undo_overwrites_the_same_value_written_or_restored_by_somebody_else(
    client, bench, somebody_else, lights, applied
):
    bench.advance(1)
    somebody_else.write_value(lights[0], LEVEL, 50)
    for level in (77, 50):
        somebody_else.write_value(lights[1], LEVEL, level)
    somebody_else.write_value(lights[2], LEVEL, 77)
    bench.set_answer(lights[2], "reject")
    with pytest.raises(WriteRejected):
        somebody_else.write_value(lights[2], LEVEL, 50)
    # Nobody restored the last one: that failed.
    assert checks(applied.undo(), lights) == ["ok", "ok", "changed"]


def test_undo_leaves_a_value_alone_that_the_device_changed_itself(client, bench, lights, applied):
    bench.advance(1)
    for device, level in zip(lights, (77, 50, 10), strict=True):
        bench.set_value(device, LEVEL, level)
        client.read_value(device, LEVEL)
    undo = applied.undo()
    assert checks(undo, lights) == ["changed", "ok", "already_so"]
    assert "77" in undo.frame.set_index("device_id").loc[lights[0], "reason"]
    undo.apply()
    assert [client.read_value(device, LEVEL) for device in lights] == [77, 10, 10]


def test_undo_of_a_saved_plan_leaves_later_changes_alone(
    client, bench, new_client, somebody_else, lights, applied, tmp_path
):
    applied.save(tmp_path / "plan.json")
    bench.advance(1)
    somebody_else.write_value(lights[0], LEVEL, 77)
    bench.set_value(lights[1], LEVEL, 88)
    somebody_else.read_value(lights[1], LEVEL)
    undo = new_client().load_plan(tmp_path / "plan.json").undo()
    assert checks(undo, lights) == ["changed", "changed", "ok"]
    undo.apply()
    assert [client.read_value(device, LEVEL) for device in lights] == [77, 88, 10]


def test_a_saved_undo_leaves_later_writes_alone(client, somebody_else, lights, applied, tmp_path):
    applied.undo().save(tmp_path / "undo.json")
    somebody_else.write_value(lights[0], LEVEL, 77)
    undo = client.load_plan(tmp_path / "undo.json")
    undo.apply()
    assert checks(undo, lights) == ["changed", "ok", "ok"]
    assert client.read_value(lights[0], LEVEL) == 77


def test_undoing_twice_goes_back_and_forth(client, bench, lights, applied):
    bench.advance(1)
    undo = applied.undo()
    undo.apply()
    bench.advance(1)
    again = undo.undo()
    assert checks(again, lights) == ["ok"] * 3
    again.apply()
    assert [client.read_value(device, LEVEL) for device in lights] == [50] * 3
    assert checks(applied.undo(), lights) == ["ok"] * 3
