"""Plans that do not overwrite later writes of others."""

import io
import json

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from client_test_data import DIMMER, add_lights
from resource_paths import LEVEL

from mirror_sdk import InvalidValue


@pytest.fixture
def lights(simulator):
    return add_lights(simulator, 5, resources=[DIMMER])


@pytest.fixture
def other_client(new_client):
    return new_client()


def statuses(result):
    return dict(zip(result["device_id"], result["status"], strict=True))


def level(client, device):
    return client.get_device(device)[LEVEL].desired_value


def test_if_match_rejects_rows_that_were_written_before_the_plan(client, other_client, lights):
    seen = client.fleet.snapshot()
    other_client.write_value(lights[1], LEVEL, 55)
    other_client.write_value(lights[2], LEVEL, 40)
    # A table with a column of values also contains the current revisions.
    for plan in (client.plan(seen.assign(value=40), if_match=True), client.plan(seen, value=40, if_match=True)):
        rows = plan.frame.set_index("device_id").loc[lights]
        assert rows["check"].tolist() == ["ok", "changed", "already_so", "ok", "ok"]
        assert rows["decision"].tolist() == ["write", "refuse", "skip", "write", "write"]
        assert rows["current_num"].iloc[1] == 55
        assert "55" in rows["reason"].iloc[1]
    assert set(client.plan(seen.assign(value=30)).frame["check"]) == {"ok"}
    assert set(plan.apply()["status"]) == {"success"}
    assert [level(client, light) for light in lights] == [40, 55, 40, 40, 40]


def test_if_match_rejects_rows_that_were_written_after_the_plan(client, other_client, lights):
    for light in lights:
        client.read_value(light, LEVEL)
    plan = client.plan(client.fleet.snapshot(), value=40, if_match=True)
    ordered = plan.frame["device_id"].tolist()
    # Including the first one, the intended canary.
    for device in (ordered[0], ordered[3]):
        other_client.write_value(device, LEVEL, 55)
    result = plan.apply(max_failures=0, concurrency=1)
    assert plan.stopped_because is None
    assert [statuses(result)[device] for device in ordered] == ["failure", "success", "success", "failure", "success"]
    rejected = result[result["status"] == "failure"]
    assert rejected["category"].tolist() == ["DESIRED_CHANGED"] * 2
    assert rejected["value_num"].tolist() == [55, 55]
    assert rejected["reason"].str.contains("desired value").all()
    assert result.loc[result["status"] == "success", "reason"].isna().all()
    assert [level(client, device) for device in ordered] == [55, 40, 40, 55, 40]
    frame = plan.frame.set_index("device_id").loc[ordered]
    assert frame["check"].tolist() == ["changed", "ok", "ok", "changed", "ok"]
    assert "2 rejected" in repr(plan)
    assert "55" in frame["reason"].iloc[0]
    # The undo restores what the plan wrote, and nothing else.
    plan.undo().apply()
    assert [level(client, device) for device in ordered] == [55, 10, 10, 55, 10]


def test_overtaken_canary_is_replaced_by_another(client, other_client, simulator, lights):
    plan = client.plan(client.fleet.snapshot(), value=40, if_match=True)
    ordered = plan.frame["device_id"].tolist()
    other_client.write_value(ordered[0], LEVEL, 55)
    simulator.set_response_mode(ordered[1], "reject")
    result = statuses(plan.apply(concurrency=1))
    assert [result[device] for device in ordered] == ["failure", "failure", "queued", "queued", "queued"]
    assert "the canary write to " in plan.stopped_because
    assert plan.stopped_because.endswith(" failed")


def test_saved_plan_keeps_expected_revisions(client, other_client, lights, tmp_path):
    file = tmp_path / "plan.json"
    client.plan(client.fleet.snapshot(devices=lights[:2]), value=40, if_match=True).save(file)
    assert [write["if_match"] for write in json.loads(file.read_text())["writes"]] == [0, 0]
    other_client.write_value(lights[0], LEVEL, 55)
    plan = client.plans.load(file)
    assert statuses(plan.apply()) == {lights[0]: "failure", lights[1]: "success"}
    plan.save(file)
    again = client.plans.load(file)
    assert sorted(again.frame["check"]) == ["changed", "ok"]
    assert again.apply()["status"].tolist() == ["success"]
    assert level(client, lights[0]) == 55


def test_expected_revisions_survive_conversions_of_the_table(client, other_client, lights):
    client.write_value(lights[0], LEVEL, 30)
    client.write_value(lights[1], LEVEL, 30)
    seen = client.fleet.snapshot(paths=[LEVEL])
    other_client.write_value(lights[0], LEVEL, 31)
    other_client.write_value(lights[2], LEVEL, 31)
    for table in (
        pd.read_csv(io.StringIO(seen.to_csv(index=False))),
        pl.from_pandas(seen),
        pl.from_pandas(seen).to_pandas(),
        pa.Table.from_pandas(seen),
        seen.convert_dtypes(dtype_backend="pyarrow"),
    ):
        found = client.plan(table, value=40, if_match=True).frame.set_index("device_id").loc[lights, "check"]
        assert found.tolist() == ["changed", "ok", "changed", "ok", "ok"]


def test_table_without_revisions_is_rejected(client, lights):
    client.write_value(lights[0], LEVEL, 30)
    seen = client.fleet.snapshot(devices=lights[:1])
    for writes, options, said in (
        (
            seen.drop(columns="desired_revision"),
            {"value": 40},
            "no column desired_revision; pass the result of client.fleet.snapshot",
        ),
        (seen.assign(desired_revision=pd.NA), {"value": 40}, "sent no revisions"),
        (seen.assign(desired_revision=-1), {"value": 40}, "is not a revision"),
        (seen.assign(desired_revision="17"), {"value": 40}, "'17', which is not a revision"),
        (seen.assign(desired_revision=17.5), {"value": 40}, "17.5, which is not a revision"),
        (
            seen.assign(desired_revision=2.0**53),
            {"value": 40},
            "which is not a revision; if you read the table from a text file",
        ),
        ([(lights[0], LEVEL, 40)], {}, "require a table"),
        (seen, {"value": 40, "path": LEVEL}, "of that path; omit path=, or pass a state table of that path"),
        (seen.mirror.wide(), {}, "one row per resource, got a wide table; pass the result of client.fleet.snapshot"),
    ):
        with pytest.raises(InvalidValue, match=said):
            client.plan(writes, **options, if_match=True)
