"""Plans that leave alone what somebody else wrote since it was looked at."""

import io
import json

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from mirror_sdk import ValueRefused

LEVEL = "/3311/0/5851"
RESOURCES = [{"path": LEVEL, "value": "10", "observable": True, "writable": True}]


@pytest.fixture
def lights(bench):
    return [bench.add_device(f"light-{number}", RESOURCES, endpoint_type="Light") for number in range(5)]


@pytest.fixture
def somebody_else(new_client):
    return new_client()


def statuses(result):
    return dict(zip(result["device_id"], result["status"], strict=True))


def level(client, device):
    return client.get_device(device)[LEVEL].desired_value


def test_what_was_written_before_the_plan_is_refused_in_it(client, somebody_else, lights):
    seen = client.snapshot()
    somebody_else.write_value(lights[1], LEVEL, 55)
    plan = client.plan(seen, value=40, if_match=True)
    told = plan.frame.set_index("device_id").loc[lights]
    assert told["check"].tolist() == ["ok", "changed", "ok", "ok", "ok"]
    assert told["decision"].tolist() == ["write", "refuse", "write", "write", "write"]
    assert told["current_num"].iloc[1] == 55
    assert "55" in told["reason"].iloc[1]
    assert set(plan.apply()["status"]) == {"success"}
    assert [level(client, light) for light in lights] == [40, 55, 40, 40, 40]


def test_what_was_written_after_the_plan_is_refused_and_the_rest_goes_on(client, somebody_else, lights):
    plan = client.plan(client.snapshot(), value=40, if_match=True)
    ordered = plan.frame["device_id"].tolist()
    # The first of all, which was to be the canary, among them.
    for device in (ordered[0], ordered[3]):
        somebody_else.write_value(device, LEVEL, 55)
    result = plan.apply(max_failures=0, concurrency=1)
    assert plan.stopped_because is None
    assert [statuses(result)[device] for device in ordered] == ["failure", "success", "success", "failure", "success"]
    refused = result[result["status"] == "failure"]
    assert refused["category"].tolist() == ["DESIRED_CHANGED"] * 2
    assert refused["value_num"].tolist() == [55, 55]
    assert refused["reason"].str.contains("desired value").all()
    assert result.loc[result["status"] == "success", "reason"].isna().all()
    assert [level(client, device) for device in ordered] == [55, 40, 40, 55, 40]
    frame = plan.frame.set_index("device_id").loc[ordered]
    assert frame["check"].tolist() == ["changed", "ok", "ok", "changed", "ok"]
    assert frame["current_num"].dropna().tolist() == [55, 55]
    assert "2 refused" in repr(plan)
    assert "55" in frame["reason"].iloc[0]


def test_the_next_plan_is_made_of_what_is_there_then(client, somebody_else, lights):
    plan = client.plan(client.snapshot(), value=40, if_match=True)
    somebody_else.write_value(lights[0], LEVEL, 55)
    plan.apply()
    again = client.plan(client.snapshot(), value=41, if_match=True)
    assert set(again.apply()["status"]) == {"success"}
    assert {level(client, light) for light in lights} == {41}


def test_without_it_the_last_writer_wins(client, somebody_else, lights):
    seen = client.snapshot()
    somebody_else.write_value(lights[0], LEVEL, 55)
    assert set(client.plan(seen, value=40).apply()["status"]) == {"success"}
    assert level(client, lights[0]) == 40


def test_what_is_so_already_is_left_alone_whoever_wrote_it(client, somebody_else, lights):
    seen = client.snapshot(devices=lights[:1])
    somebody_else.write_value(lights[0], LEVEL, 40)
    assert client.plan(seen, value=40, if_match=True).frame["check"].tolist() == ["already_so"]


def test_of_all_canaries_overtaken_another_is_tried_first(client, somebody_else, bench, lights):
    plan = client.plan(client.snapshot(), value=40, if_match=True)
    ordered = plan.frame["device_id"].tolist()
    somebody_else.write_value(ordered[0], LEVEL, 55)
    bench.set_answer(ordered[1], "reject")
    result = statuses(plan.apply(concurrency=1))
    assert [result[device] for device in ordered] == ["failure", "failure", "queued", "queued", "queued"]
    assert "first write" in plan.stopped_because


def test_a_saved_plan_keeps_what_was_seen(client, somebody_else, lights, tmp_path):
    file = tmp_path / "plan.json"
    client.plan(client.snapshot(devices=lights[:2]), value=40, if_match=True).save(file)
    assert [write["if_match"] for write in json.loads(file.read_text())["writes"]] == [0, 0]
    somebody_else.write_value(lights[0], LEVEL, 55)
    plan = client.load_plan(file)
    assert statuses(plan.apply()) == {lights[0]: "failure", lights[1]: "success"}
    plan.save(file)
    again = client.load_plan(file)
    assert sorted(again.frame["check"]) == ["changed", "ok"]
    assert again.apply()["status"].tolist() == ["success"]
    assert level(client, lights[0]) == 55


def test_a_plan_applied_twice_sends_each_write_once(client, somebody_else, lights):
    plan = client.plan(client.snapshot(), value=40, if_match=True)
    assert set(plan.apply()["status"]) == {"success"}
    somebody_else.write_value(lights[0], LEVEL, 55)
    assert set(plan.apply()["status"]) == {"success"}
    assert level(client, lights[0]) == 55


def test_an_undo_of_it_takes_back_what_it_wrote(client, somebody_else, lights):
    for light in lights:
        client.read_value(light, LEVEL)
    plan = client.plan(client.snapshot(), value=40, if_match=True)
    somebody_else.write_value(lights[0], LEVEL, 55)
    plan.apply()
    undo = plan.undo()
    assert set(undo.frame["device_id"]) == set(lights[1:])
    undo.apply()
    assert [level(client, light) for light in lights] == [55, 10, 10, 10, 10]


OTHER_WAYS = {
    "csv": lambda frame: pd.read_csv(io.StringIO(frame.to_csv(index=False))),
    "polars": pl.from_pandas,
    "polars to pandas": lambda frame: pl.from_pandas(frame).to_pandas(),
    "arrow": pa.Table.from_pandas,
    "types of arrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
}


@pytest.mark.parametrize("way", OTHER_WAYS.values(), ids=OTHER_WAYS)
def test_revisions_are_those_that_were_seen_whatever_the_table_went_through(client, somebody_else, lights, way):
    client.write_value(lights[0], LEVEL, 30)
    client.write_value(lights[1], LEVEL, 30)
    seen = way(client.snapshot(paths=[LEVEL]))
    somebody_else.write_value(lights[0], LEVEL, 31)
    somebody_else.write_value(lights[2], LEVEL, 31)
    found = client.plan(seen, value=40, if_match=True).frame.set_index("device_id")["check"]
    assert found.astype(object).to_dict() == {
        light: "changed" if light in (lights[0], lights[2]) else "ok" for light in lights
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame.drop(columns="desired_revision"), "lacks desired_revision"),
        (lambda frame: frame.assign(desired_revision=pd.NA), "told no revisions"),
        (lambda frame: frame.assign(desired_revision=-1), "is no revision"),
        (lambda frame: frame.assign(desired_revision="17"), "'17', not a revision"),
        (lambda frame: frame.assign(desired_revision=17.5), "17.5, not a revision"),
        (lambda frame: frame.assign(desired_revision=2.0**53), "not a revision, as after a text file"),
    ],
)
def test_a_table_that_has_not_seen_is_refused(client, lights, change, said):
    client.write_value(lights[0], LEVEL, 30)
    seen = client.snapshot(devices=lights[:1])
    with pytest.raises(ValueRefused, match=said):
        client.plan(change(seen), value=40, if_match=True)
    with pytest.raises(ValueRefused, match="go with a table"):
        client.plan([(lights[0], LEVEL, 40)], if_match=True)
    with pytest.raises(ValueRefused, match="a row for each resource"):
        client.plan(seen.mirror.wide(), if_match=True)


def test_a_table_with_values_of_its_own_has_seen_too(client, somebody_else, lights):
    seen = client.snapshot().assign(value=40)
    somebody_else.write_value(lights[0], LEVEL, 55)
    assert sorted(client.plan(seen, if_match=True).frame["check"]) == ["changed", "ok", "ok", "ok", "ok"]
    assert set(client.plan(seen).frame["check"]) == {"ok"}
