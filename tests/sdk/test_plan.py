"""Plans: checks, writes and undo, with either client against a real server."""

import io
import json
import sys
import threading
from datetime import timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from client_test_data import DIMMER, LAMP, SENSOR, add_lights, all_to, levels, statuses
from resource_paths import LEVEL, SWITCH, TEMPERATURE
from thread_waits import once, until

from mirror_sdk import AccessDenied, InvalidValue, show_progress
from mirror_sdk.frames import REQUESTS_SCHEMA
from mirror_sdk.plan import PLAN_SCHEMA
from mirror_server.service.keys import Scope


@pytest.fixture
def lights(client, simulator):
    """Four lights whose level was read once."""
    return add_lights(simulator, 4, client)


def test_planning_sends_nothing(client, lights):
    plan = client.plan(all_to(lights, 40))
    assert list(plan.frame.columns) == PLAN_SCHEMA.names
    assert plan.frame["decision"].tolist() == ["write"] * 4
    assert plan.frame["current_num"].tolist() == [10.0] * 4
    assert plan.frame["wanted_num"].tolist() == [40.0] * 4
    assert "4 to write; nothing was sent, apply() sends" in repr(plan)
    assert "light-0" in plan._repr_html_()
    assert statuses(plan.result) == ["queued"] * 4
    assert client.requests.list() == []
    nothing = client.plan([])
    assert "no writes" in repr(nothing)
    assert nothing.frame.dtypes.astype(str).equals(plan.frame.dtypes.astype(str))
    assert list(nothing.apply().columns) == REQUESTS_SCHEMA.names


@pytest.mark.both_clients
def test_apply_returns_the_requests_table(client, lights):
    result = client.plan(all_to(lights, 40)).apply()
    assert list(result.columns) == REQUESTS_SCHEMA.names
    assert statuses(result) == ["success"] * 4
    assert result["requested_num"].tolist() == [40.0] * 4
    assert result["accepted_at"].notna().all()
    assert result.attrs["mirror"]["complete"] is True
    assert result.attrs["mirror"]["stopped_because"] is None
    # A value that was written after it was reported counts as the current value.
    again = client.plan(all_to(lights, 40)).frame
    assert again["check"].tolist() == ["already_so"] * 4
    assert again["reason"].str.fullmatch(r"written at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC").all()
    assert levels(client, lights) == [40] * 4


def test_each_check_is_in_its_row_of_the_plan_table(client, simulator, lights):
    simulator.deregister(lights[1])
    simulator.set_online(lights[2], False)
    client.requests.begin_write(lights[2], LEVEL, 5)
    client.requests.begin_write(lights[2], SWITCH, True)
    sleeper = simulator.add_device("sleeper", [DIMMER, LAMP, SENSOR], queue_mode=True)
    expected = [
        ((lights[0], LEVEL, 10), "already_so", "skip", "reported at 2026-"),
        ((lights[0], SWITCH, True), "ok", "write", "this write cannot be undone"),
        ((lights[0], TEMPERATURE, 3.0), "not_writable", "refuse", "cannot be written"),
        ((lights[0], "/3306/0/5850", True), "unknown_resource", "refuse", ""),
        ((lights[0], LEVEL[1:], 2), "unknown_resource", "refuse", "is not a resource path; write it like /3303/0/5700"),
        ((lights[1], LEVEL, 20), "offline", "skip", "include_offline=True"),
        ((lights[2], LEVEL, 6), "pending", "write", "a write of 5 is pending"),
        ((lights[2], SWITCH, True), "pending", "skip", ""),
        ((lights[3], LEVEL, "bright"), "wrong_type", "refuse", "takes a whole number"),
        ((lights[3], SWITCH, 1), "wrong_type", "refuse", ""),
        (("0" * 32, LEVEL, 1), "unknown_device", "refuse", ""),
        ((sleeper, LEVEL, 1), "ok", "write", "next contact"),
        ((sleeper, LEVEL, 1), "duplicate", "skip", ""),
        ((sleeper, SWITCH, True), "duplicate", "refuse", ""),
        ((sleeper, SWITCH, False), "duplicate", "refuse", ""),
    ]
    plan = client.plan(
        [*(row[0] for row in expected), (lights[3], LEVEL, None), (lights[3], TEMPERATURE, float("nan"))]
    )
    frame = plan.frame
    assert list(zip(frame["check"], frame["decision"], strict=True)) == [row[1:3] for row in expected]
    for (*_, words), reason in zip(expected, frame["reason"], strict=True):
        assert words in str(reason)
    assert (lights[1], LEVEL, 10) in plan.values_before()


def test_values_of_wrong_types_are_rejected_in_their_rows(client, lights):
    found = {}
    for value in (101, np.int64(400), np.int8(40), np.array([1, 2])):
        (row,) = client.plan([(lights[0], LEVEL, value)]).frame.to_dict("records")
        found[str(value)] = row["check"]
    assert found == {"101": "out_of_range", "400": "out_of_range", "40": "ok", "[1 2]": "wrong_type"}
    table = {"device_id": lights[:3], "path": LEVEL, "value": 40, "content_type": ["text/plain", 4711, "0"]}
    plan = client.plan(pd.DataFrame(table))
    assert plan.frame["check"].tolist() == ["ok", "wrong_type", "wrong_type"]
    assert "'text/plain'" in plan.frame["reason"][2]
    assert statuses(plan.apply(expiry_seconds=np.int64(30))) == ["success"]


def test_writes_are_read_from_tables(client, lights):
    long = pd.DataFrame({"device_id": pd.Categorical(lights), "path": LEVEL, "value": [1, 2, 3, pd.NA]})
    assert client.plan(long).frame["wanted_num"].tolist() == [1.0, 2.0, 3.0]
    # The format that ``mirror plan --undo`` writes.
    file = pd.DataFrame({"device": lights, "path": LEVEL, "value": [1, 2, 3, 4]})
    assert client.plan(file).frame["device_id"].tolist() == list(lights)
    state = client.state_frame(paths=[LEVEL])
    assert len(client.plan(state.assign(value=state["reported_num"] + 1)).frame) == 4
    wide = state.mirror.wide().astype(object)
    wide[LEVEL] = [5, 6, 7, "abc"]
    frame = client.plan(wide).frame
    assert frame["check"].tolist() == ["ok", "ok", "ok", "wrong_type"]
    assert frame["reason"][3].startswith(f"device_id {frame['device_id'][3]}, column /3311/0/5851: ")


def test_invalid_cell_of_a_csv_rejects_only_its_row(client, lights):
    file = f'device,path,value\nlight-0,{LEVEL},40\nlight-1,{LEVEL},abc\nlight-2,{SWITCH},on\nlight-3,{LEVEL},"5,5"\n'
    read = pd.read_csv(io.StringIO(file))
    typed = pd.read_csv(io.StringIO(file), dtype=str).rename(columns={"value": "text"})
    for table in (read, typed, pl.from_pandas(read), pa.Table.from_pandas(read)):
        frame = client.plan(table).frame
        assert frame["check"].tolist() == ["ok", "wrong_type", "ok", "wrong_type"]
        assert (frame["wanted_num"][0], frame["wanted_bool"][2]) == (40, True)
        column = "text" if table is typed else "value"
        assert frame["reason"][1].startswith(f"row 1, column {column}: /3311/0/5851 (Light Control · Dimmer, integer)")
        assert "write it like 50" in frame["reason"][1]
        assert "a comma is not a decimal point" in frame["reason"][3]


def test_invalid_writes_are_rejected_with_the_cure(client):
    for writes in (
        pd.DataFrame({"device_id": ["d"], "value": [1]}),
        pd.DataFrame({LEVEL: [1]}),
        [("d", LEVEL)],
        ["d"],
        pd.DataFrame([["d", LEVEL, 1, 2]], columns=["device_id", "path", "value", "value"]),
        pd.DataFrame([[1, 2]], columns=[LEVEL, LEVEL], index=pd.Index(["d"], name="device_id")),
    ):
        with pytest.raises(InvalidValue, match="device_id, path and value"):
            client.plan(writes)


@pytest.mark.both_clients
def test_canary_has_to_succeed_before_other_writes_are_sent(client, simulator, lights):
    simulator.set_response_mode(lights[0], "reject")
    plan = client.plan(all_to(lights, 40))
    result = plan.apply()
    assert statuses(result) == ["failure", "queued", "queued", "queued"]
    assert result["category"][0] == "REJECTED"
    assert "the canary write to /3311/0/5851 of light-0 failed" in repr(plan)
    assert result.attrs["mirror"]["stopped_because"] in repr(plan)
    # A second apply continues with the next write.
    assert statuses(plan.apply()) == ["failure", "success", "success", "success"]


@pytest.mark.both_clients
def test_too_many_failures_stop_the_plan_which_can_be_continued(client, simulator, lights):
    for device_id in lights[:3]:
        simulator.set_response_mode(device_id, "reject")
    simulator.deregister(lights[3])
    plan = client.plan(all_to(lights, 40))
    assert statuses(plan.apply(canary=0, concurrency=1, max_failures=1)) == ["failure", "failure", "queued", "queued"]
    assert "max_failures is 1" in repr(plan)
    assert statuses(plan.apply(canary=0, max_failures=None)) == ["failure", "failure", "failure", "queued"]
    # Writes to offline devices are sent on request.
    with once(lambda: "pending" in statuses(plan.result), lambda: simulator.register(lights[3])):
        assert statuses(plan.apply(canary=0, include_offline=True))[3] == "success"


@pytest.mark.both_clients
def test_plan_can_be_stopped_and_continued(client, simulator, lights):
    simulator.set_online(lights[1], False)
    plan = client.plan(all_to(lights, 40))
    applied = []
    thread = threading.Thread(target=lambda: applied.append(plan.apply(concurrency=1)))
    thread.start()
    while thread.is_alive() and statuses(plan.result)[1] != "pending":
        thread.join(0.01)
    with pytest.raises(InvalidValue, match="being applied already"):
        plan.apply()
    plan.stop()
    thread.join(60)
    assert statuses(applied[0]) == ["success", "pending", "queued", "queued"]
    assert applied[0].attrs["mirror"]["complete"] is False
    assert "stopped" in repr(plan)
    simulator.set_online(lights[1], True)
    assert statuses(plan.apply()) == ["success"] * 4
    assert levels(client, lights) == [40] * 4


@pytest.mark.both_clients
def test_short_timeout_leaves_a_write_pending_which_is_not_sent_twice(client, simulator, lights):
    simulator.set_online(lights[1], False)
    plan = client.plan(all_to(lights, 40))
    all_but_one = ["success", "pending", "success", "success"]
    plan.apply(expiry_seconds=3600, timeout=0.5)
    until(lambda: statuses(plan.apply(expiry_seconds=3600, timeout=0)) == all_but_one)
    assert statuses(plan.apply(expiry_seconds=3600, timeout=0)) == all_but_one
    assert len(client.requests.list(lights[1])) == 1
    simulator.advance(timedelta(minutes=50))
    simulator.set_online(lights[1], True)
    assert statuses(plan.apply(expiry_seconds=3600)) == ["success"] * 4


def test_undo_restores_values_wherever_a_write_may_have_had_an_effect(client, simulator, lights):
    assert client.read_value(lights[1], LEVEL) == 10
    simulator.set_response_mode(lights[2], "reject")
    plan = client.plan([*all_to(lights, 40), (lights[0], SWITCH, True)])
    plan.apply()
    undo = plan.undo()
    frame = undo.frame.set_index(["device_id", "path"])
    assert set(frame.index) == {(lights[0], LEVEL), (lights[1], LEVEL), (lights[3], LEVEL), (lights[0], SWITCH)}
    assert frame.loc[(lights[0], LEVEL), "wanted_num"] == 10
    assert frame.loc[(lights[0], SWITCH), "check"] == "no_earlier_value"
    assert statuses(undo.apply()) == ["success"] * 3
    assert levels(client, [lights[0], lights[1], lights[3]]) == [10] * 3


@pytest.mark.parametrize(
    ("is_silent", "seconds", "category", "undone"), [(True, 300, "TIMEOUT", 1), (False, 60, "REQUEST_EXPIRED", 0)]
)
def test_write_with_unknown_effect_is_undone(client, simulator, lights, is_silent, seconds, category, undone):
    simulator.set_response_mode(lights[0], "silent" if is_silent else "normal")
    simulator.set_online(lights[0], is_silent)
    plan = client.plan(all_to(lights[:1], 40))
    with once(lambda: client.requests.list(lights[0]), lambda: simulator.advance(timedelta(seconds=seconds + 1))):
        result = plan.apply(expiry_seconds=seconds)
    assert (statuses(result), result["category"].tolist()) == (["failure"], [category])
    simulator.set_response_mode(lights[0], "normal")
    simulator.set_online(lights[0], True)
    undo = plan.undo()
    assert undo.frame["decision"].tolist() == ["write"] * undone
    assert statuses(undo.apply()) == ["success"] * undone
    assert levels(client, lights[:1]) == [10]


@pytest.mark.both_clients
def test_key_without_write_scope_stops_the_plan_at_once(new_client, lights):
    plan = new_client(Scope.READ).plan(all_to(lights, 40))
    with pytest.raises(AccessDenied):
        plan.apply()
    assert statuses(plan.result) == ["queued"] * 4


def test_invalid_limits_are_rejected_by_name(client, lights):
    plan = client.plan(all_to(lights, 40))
    for name, values in (
        ("concurrency", (0, 1.5)),
        ("canary", (-1, "1")),
        ("max_failures", (-1, float("nan"))),
        ("expiry_seconds", (0, 1.5, 10**9)),
        ("timeout", (-0.5,)),
    ):
        for value in values:
            with pytest.raises(InvalidValue, match=name):
                plan.apply(**{name: value})
    assert statuses(plan.result) == ["queued"] * 4


def test_progress_is_displayed_only_on_request(client, lights, capsys, monkeypatch):
    client.plan(all_to(lights, 40)).apply()
    assert capsys.readouterr().err == ""
    show_progress(True)
    try:
        client.plan(all_to(lights, 50)).apply()
    finally:
        show_progress(None)
    assert "writes" in capsys.readouterr().err
    # A program may have no standard error at all.
    monkeypatch.setattr(sys, "stderr", None)
    assert statuses(client.plan(all_to(lights, 60)).apply()) == ["success"] * 4


def test_saved_plan_is_continued_by_another_client_without_writing_twice(client, simulator, lights, tmp_path):
    simulator.set_online(lights[2], False)
    plan = client.plan([*all_to(lights, 40), (lights[0], SWITCH, "on")])
    plan.save(tmp_path / "plan.json")
    plan.apply(canary=0, timeout=0.5)
    until(lambda: statuses(plan.apply(canary=0, timeout=0)) == ["success", "success", "pending", "success"])
    for device_id in lights:
        simulator.set_value(device_id, LEVEL, 7)
    loaded = client.plans.load(tmp_path / "plan.json")
    assert loaded.frame.equals(plan.frame)
    assert statuses(loaded.result) == ["queued"] * 4
    simulator.set_online(lights[2], True)
    again = loaded.apply()
    assert statuses(again) == ["success"] * 4
    assert again["async_id"].tolist() == plan.result["async_id"].tolist()
    # Earlier writes were not repeated.
    assert levels(client, lights) == [7, 7, 40, 7]
    assert loaded.undo().frame["wanted_num"].tolist() == [10.0] * 4


DAMAGES = [
    ((), "version", 4, "the file has format version 4, .* reads format version 3"),
    ((), "canary", 1, "canary"),
    (("writes", 0), "async_id", "not an id", "writes.0.async_id"),
    (("writes", 0), "async_id", "that of the other", "writes: async_id"),
    (("writes", 1), "path", "/3311/0/5851/../5850", "writes.1: .*is not a resource path"),
    (("writes", 1), "device_id", "..", "writes.1: .*device"),
    (("writes", 1), "wanted", None, "writes.1: wanted"),
    (("writes", 1, "wanted"), "payload", "no base64!", "writes.1.wanted.payload"),
    (("writes", 1), "decision", "send", "writes.1.decision"),
    (("writes", 1), "expiry_seconds", 10**9, "writes.1.expiry_seconds"),
    (("writes", 1), "retries", 2, "writes.1.retries"),
]


def test_each_member_of_a_saved_plan_is_checked(client, lights, tmp_path):
    file = tmp_path / "plan.json"
    client.plan(all_to(lights, 40)).save(file)
    saved_text = file.read_text()
    for position, member, value, said in DAMAGES:
        content = json.loads(saved_text)
        changed = content
        for name in position:
            changed = changed[name]
        changed[member] = content["writes"][1]["async_id"] if value == "that of the other" else value
        file.write_text(json.dumps(content))
        with pytest.raises(InvalidValue, match=rf"contains no valid plan \({said}"):
            client.plans.load(file)
    moved = saved_text.replace("mirror.localhost", "elsewhere.localhost")
    for text, said in (
        ('{"writes": []}', "contains no valid plan"),
        (moved, r"is a plan for http://elsewhere\.localhost"),
    ):
        file.write_text(text)
        with pytest.raises(InvalidValue, match=said):
            client.plans.load(file)
    with pytest.raises(FileNotFoundError):
        client.plans.load(tmp_path / "missing.json")
    assert client.requests.list() == []
