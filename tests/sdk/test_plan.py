"""Plans: what they find, what they send, and the way back, with either client against a real server."""

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
from patience import once, until

from mirror_sdk import AccessDenied, ValueRefused, show_progress
from mirror_sdk.frames import REQUESTS_SCHEMA
from mirror_sdk.plan import PLAN_SCHEMA
from mirror_server.service.keys import Scope

LEVEL = "/3311/0/5851"
SWITCH = "/3311/0/5850"
TEMPERATURE = "/3303/0/5700"
RESOURCES = [
    {"path": LEVEL, "value": "10", "writable": True, "observable": True},
    {"path": SWITCH, "value": "0", "writable": True, "observable": True},
    {"path": TEMPERATURE, "value": "21.5", "observable": True},
]


@pytest.fixture
def lights(client, bench):
    """Four lights whose level was read once."""
    ids = [bench.add_device(f"light-{number}", RESOURCES, endpoint_type="Light") for number in range(4)]
    for device_id in ids:
        assert client.read_value(device_id, LEVEL) == 10
    return ids


def all_to(lights, level):
    return [(device_id, LEVEL, level) for device_id in lights]


def levels(client, lights):
    return [client.read_value(device_id, LEVEL) for device_id in lights]


def statuses(frame):
    return frame["status"].tolist()


def test_a_plan_is_looked_at_and_nothing_is_sent(client, lights):
    plan = client.plan(all_to(lights, 40))
    assert list(plan.frame.columns) == PLAN_SCHEMA.names
    assert plan.frame["decision"].tolist() == ["write"] * 4
    assert plan.frame["current_num"].tolist() == [10.0] * 4
    assert plan.frame["wanted_num"].tolist() == [40.0] * 4
    assert "4 to write; nothing was sent, apply() sends" in repr(plan)
    assert "light-0" in plan._repr_html_()
    assert statuses(plan.result) == ["queued"] * 4
    assert client.list_device_requests() == []
    assert all(client.get_device(device_id)[LEVEL].desired is None for device_id in lights)


@pytest.mark.both_clients
def test_an_applied_plan_is_a_ledger(client, lights):
    result = client.plan(all_to(lights, 40)).apply()
    assert list(result.columns) == REQUESTS_SCHEMA.names
    assert statuses(result) == ["success"] * 4
    assert result["asked_num"].tolist() == [40.0] * 4
    assert result["accepted_at"].notna().all()
    assert result.attrs["mirror"]["complete"] is True
    assert result.attrs["mirror"]["stopped_because"] is None
    assert levels(client, lights) == [40] * 4


def test_every_check_is_told_in_its_row(client, bench, lights):
    bench.deregister(lights[1])
    bench.set_online(lights[2], False)
    client.begin_write(lights[2], LEVEL, 5)
    client.begin_write(lights[2], SWITCH, True)
    sleeper = bench.add_device("sleeper", RESOURCES, queue_mode=True)
    wanted = [
        (lights[0], LEVEL, 10),
        (lights[0], SWITCH, True),
        (lights[0], TEMPERATURE, 3.0),
        (lights[0], "/3306/0/5850", True),
        (lights[1], LEVEL, 20),
        (lights[2], LEVEL, 6),
        (lights[2], SWITCH, True),
        (lights[3], LEVEL, "bright"),
        (lights[3], SWITCH, 1),
        ("0" * 32, LEVEL, 1),
        (sleeper, LEVEL, 1),
        (sleeper, LEVEL, 1),
        (sleeper, SWITCH, True),
        (sleeper, SWITCH, False),
    ]
    frame = client.plan([*wanted, (lights[3], LEVEL, None), (lights[3], TEMPERATURE, float("nan"))]).frame
    found = list(zip(frame["check"], frame["decision"], strict=True))
    assert found == [
        ("already_so", "skip"),
        ("ok", "write"),
        ("not_writable", "refuse"),
        ("unknown_resource", "refuse"),
        ("offline", "skip"),
        ("pending", "write"),
        ("pending", "skip"),
        ("wrong_type", "refuse"),
        ("wrong_type", "refuse"),
        ("unknown_device", "refuse"),
        ("ok", "write"),
        ("duplicate", "skip"),
        ("duplicate", "refuse"),
        ("duplicate", "refuse"),
    ]
    reasons = frame["reason"]
    assert "reported at 2026-" in reasons[0]
    assert "cannot be written" in reasons[2]
    assert "include_offline=True" in reasons[4]
    assert "a write of 5 is under way" in reasons[5]
    assert "takes a whole number" in reasons[7]
    assert "next contact" in reasons[10]


def test_what_is_out_of_range_is_refused(client, lights):
    frame = client.plan(all_to(lights[:1], 101)).frame
    assert frame["check"].tolist() == ["out_of_range"]
    assert "from 0 to 100" in frame["reason"][0]


def test_a_number_of_numpy_is_out_of_range_as_any_other(client, lights):
    plan = client.plan([(lights[0], LEVEL, np.int64(400)), (lights[1], LEVEL, np.int8(40))])
    assert plan.frame["check"].tolist() == ["out_of_range", "ok"]


def test_an_array_is_refused_also_beside_a_number(client, lights):
    plan = client.plan([(lights[0], LEVEL, 40), (lights[0], LEVEL, np.array([1, 2]))])
    assert plan.frame["check"].tolist() == ["duplicate", "wrong_type"]


def test_a_content_type_that_is_a_number_is_refused_in_its_row(client, lights):
    table = {"device_id": lights[:3], "path": LEVEL, "value": 40, "content_type": ["text/plain", 4711, "0"]}
    plan = client.plan(pd.DataFrame(table))
    assert plan.frame["check"].tolist() == ["ok", "wrong_type", "wrong_type"]
    assert plan.frame["decision"].tolist() == ["write", "refuse", "refuse"]
    assert "'text/plain'" in plan.frame["reason"][2]
    assert statuses(plan.apply(expiry_seconds=np.int64(30))) == ["success"]


def test_the_values_before_are_those_of_all_that_may_be_sent(client, bench, lights):
    bench.deregister(lights[1])
    plan = client.plan([*all_to(lights[:2], 40), (lights[2], LEVEL, 10), (lights[3], SWITCH, True)])
    assert plan.values_before() == [(lights[0], LEVEL, 10), (lights[1], LEVEL, 10)]


def test_wanted_values_come_as_tables_too(client, lights):
    long = pd.DataFrame({"device_id": pd.Categorical(lights), "path": LEVEL, "value": [1, 2, 3, pd.NA]})
    assert client.plan(long).frame["wanted_num"].tolist() == [1.0, 2.0, 3.0]
    # As ``mirror plan --undo`` writes it.
    file = pd.DataFrame({"device": lights, "path": LEVEL, "value": [1, 2, 3, 4]})
    assert client.plan(file).frame["device_id"].tolist() == list(lights)
    wide = client.state_frame(paths=[LEVEL]).mirror.wide()
    wide[LEVEL] = [5, 6, 7, 8]
    assert client.plan(wide).frame["wanted_num"].tolist() == [5.0, 6.0, 7.0, 8.0]
    state = client.state_frame(paths=[LEVEL])
    assert len(client.plan(state.assign(value=state["reported_num"] + 1)).frame) == 4


CSV = """device,path,value
light-0,/3311/0/5851,40
light-1,/3311/0/5851,abc
light-2,/3311/0/5850,on
light-3,/3311/0/5851,"5,5"
"""


def test_a_bad_cell_of_a_csv_refuses_its_row_alone(client, lights):
    read = pd.read_csv(io.StringIO(CSV))
    typed = pd.read_csv(io.StringIO(CSV), dtype=str).rename(columns={"value": "text"})
    for table in (read, typed, pl.from_pandas(read), pa.Table.from_pandas(read)):
        frame = client.plan(table).frame
        assert frame["check"].tolist() == ["ok", "wrong_type", "ok", "wrong_type"]
        assert (frame["wanted_num"][0], frame["wanted_bool"][2]) == (40, True)
        column = "text" if table is typed else "value"
        assert frame["reason"][1].startswith(f"row 1, column {column}: /3311/0/5851 (Light Control · Dimmer, integer)")
        assert "write it like 50" in frame["reason"][1]
        assert "a comma is no decimal point" in frame["reason"][3]


def test_a_bad_cell_of_a_wide_table_refuses_its_row_alone(client, lights):
    file = "device_id,/3311/0/5851\nlight-0,40\nlight-1,abc\n"
    frame = client.plan(pd.read_csv(io.StringIO(file), index_col="device_id")).frame
    assert frame["check"].tolist() == ["ok", "wrong_type"]
    assert frame["reason"][1].startswith("device_id light-1, column /3311/0/5851: ")


@pytest.mark.parametrize(
    "wanted",
    [
        pd.DataFrame({"device_id": ["d"], "value": [1]}),
        pd.DataFrame({LEVEL: [1]}),
        [("d", LEVEL)],
        ["d"],
        pd.DataFrame([["d", LEVEL, 1, 2]], columns=["device_id", "path", "value", "value"]),
        pd.DataFrame([[1, 2]], columns=[LEVEL, LEVEL], index=pd.Index(["d"], name="device_id")),
    ],
)
def test_what_is_nothing_to_write_is_refused_with_the_cure(client, wanted):
    with pytest.raises(ValueRefused, match="device_id, path and value"):
        client.plan(wanted)


def test_a_path_without_its_slash_is_refused_with_the_cure(client, bench):
    device = bench.add_device("light-a", [{"path": LEVEL, "value": "1", "writable": True}])
    (reason,) = client.plan([(device, LEVEL[1:], 2)]).frame["reason"]
    assert "is not a resource path; write it like /3303/0/5700" in reason


def test_no_write_at_all_is_a_plan_too(client):
    plan = client.plan([])
    assert len(plan) == 0
    assert "nothing is wanted" in repr(plan)
    assert list(plan.frame.columns) == PLAN_SCHEMA.names
    assert plan.frame["decision"].cat.categories.tolist() == ["write", "skip", "refuse"]
    assert list(plan.apply().columns) == REQUESTS_SCHEMA.names


@pytest.mark.both_clients
def test_the_first_write_has_to_succeed_before_any_other_is_sent(client, bench, lights):
    bench.set_answer(lights[0], "reject")
    plan = client.plan(all_to(lights, 40))
    result = plan.apply()
    assert statuses(result) == ["failure", "queued", "queued", "queued"]
    assert result["category"][0] == "REJECTED"
    assert "the first write, to /3311/0/5851 of light-0, is failure" in repr(plan)
    assert result.attrs["mirror"]["stopped_because"] in repr(plan)
    # Taken up again, it goes on with the next one.
    assert statuses(plan.apply()) == ["failure", "success", "success", "success"]


@pytest.mark.both_clients
def test_too_many_failures_end_it_and_the_rest_can_be_taken_up(client, bench, lights):
    for device_id in lights[:3]:
        bench.set_answer(device_id, "reject")
    plan = client.plan(all_to(lights, 40))
    assert statuses(plan.apply(canary=0, concurrency=1, max_failures=1)) == ["failure", "failure", "queued", "queued"]
    assert "max_failures is 1" in repr(plan)
    assert statuses(plan.apply(canary=0, max_failures=None)) == ["failure", "failure", "failure", "success"]


def test_devices_that_are_away_are_written_to_on_request(client, bench, lights):
    bench.deregister(lights[0])
    plan = client.plan(all_to(lights[:2], 40))
    assert statuses(plan.apply()) == ["queued", "success"]
    with once(lambda: "pending" in statuses(plan.result), lambda: bench.register(lights[0])):
        assert statuses(plan.apply(include_offline=True)) == ["success", "success"]


@pytest.mark.both_clients
def test_a_plan_can_be_stopped_and_taken_up_again(client, bench, lights):
    bench.set_online(lights[1], False)
    plan = client.plan(all_to(lights, 40))
    applied = []
    thread = threading.Thread(target=lambda: applied.append(plan.apply(concurrency=1)))
    thread.start()
    while thread.is_alive() and statuses(plan.result)[1] != "pending":
        thread.join(0.01)
    with pytest.raises(ValueRefused, match="being applied already"):
        plan.apply()
    plan.stop()
    thread.join(60)
    assert statuses(applied[0]) == ["success", "pending", "queued", "queued"]
    assert applied[0].attrs["mirror"]["complete"] is False
    assert "stopped" in repr(plan)
    bench.set_online(lights[1], True)
    assert statuses(plan.apply()) == ["success"] * 4
    assert levels(client, lights) == [40] * 4


@pytest.mark.both_clients
def test_a_wait_shorter_than_the_expiry_leaves_a_write_pending_that_is_not_sent_twice(client, bench, lights):
    bench.set_online(lights[1], False)
    plan = client.plan(all_to(lights, 40))
    all_but_one = ["success", "pending", "success", "success"]
    plan.apply(expiry_seconds=3600, timeout=0.5)
    until(lambda: statuses(plan.apply(expiry_seconds=3600, timeout=0)) == all_but_one)
    assert statuses(plan.apply(expiry_seconds=3600, timeout=0)) == all_but_one
    assert len(client.list_device_requests(lights[1])) == 1
    bench.advance(timedelta(minutes=50))
    bench.set_online(lights[1], True)
    assert statuses(plan.apply(expiry_seconds=3600)) == ["success"] * 4


def test_a_write_that_expires_is_a_failure(client, bench, lights):
    bench.set_online(lights[0], False)
    with once(lambda: client.list_device_requests(lights[0]), lambda: bench.advance(timedelta(seconds=61))):
        result = client.plan(all_to(lights[:1], 40)).apply()
    assert statuses(result) == ["failure"]
    assert result["category"].tolist() == ["REQUEST_EXPIRED"]


def test_undo_writes_what_was_there_before_where_something_may_have_happened(client, bench, lights):
    assert client.read_value(lights[1], LEVEL) == 10
    bench.set_answer(lights[2], "reject")
    plan = client.plan([*all_to(lights, 40), (lights[0], SWITCH, True)])
    plan.apply()
    undo = plan.undo()
    frame = undo.frame.set_index(["device_id", "path"])
    assert set(frame.index) == {(lights[0], LEVEL), (lights[1], LEVEL), (lights[3], LEVEL), (lights[0], SWITCH)}
    assert frame.loc[(lights[0], LEVEL), "wanted_num"] == 10
    assert frame.loc[(lights[0], SWITCH), "check"] == "no_earlier_value"
    assert statuses(undo.apply()) == ["success"] * 3
    assert levels(client, [lights[0], lights[1], lights[3]]) == [10] * 3


def test_a_write_whose_effect_is_not_known_is_undone_and_does_not_count_as_undone_already(client, bench, lights):
    bench.set_answer(lights[0], "silent")
    plan = client.plan(all_to(lights[:1], 40))
    with once(lambda: client.list_device_requests(lights[0]), lambda: bench.advance(timedelta(seconds=301))):
        result = plan.apply(expiry_seconds=300)
    assert result["category"].tolist() == ["TIMEOUT"]
    bench.set_answer(lights[0], "normal")
    undo = plan.undo()
    assert undo.frame["decision"].tolist() == ["write"]
    assert statuses(undo.apply()) == ["success"]
    assert levels(client, lights[:1]) == [10]


@pytest.mark.both_clients
def test_a_key_that_may_not_write_ends_it_at_once(client, new_client, mirror, lights):
    reader = new_client(Scope.READ)
    plan = reader.plan(all_to(lights, 40))
    with pytest.raises(AccessDenied):
        plan.apply()
    assert statuses(plan.result) == ["queued"] * 4


@pytest.mark.parametrize(
    "arguments",
    [
        {"concurrency": 0},
        {"concurrency": 1.5},
        {"canary": -1},
        {"canary": "1"},
        {"max_failures": -1},
        {"max_failures": float("nan")},
        {"expiry_seconds": 0},
        {"expiry_seconds": 1.5},
        {"expiry_seconds": 10**9},
        {"timeout": -0.5},
    ],
)
def test_limits_that_are_none_are_refused_by_name(client, lights, arguments):
    plan = client.plan(all_to(lights, 40))
    with pytest.raises(ValueRefused, match=next(iter(arguments))):
        plan.apply(**arguments)
    assert statuses(plan.result) == ["queued"] * 4


def test_progress_is_shown_on_request_and_silent_otherwise(client, lights, capsys):
    client.plan(all_to(lights, 40)).apply()
    assert capsys.readouterr().err == ""
    show_progress(True)
    try:
        client.plan(all_to(lights, 50)).apply()
    finally:
        show_progress(None)
    assert "writes" in capsys.readouterr().err


def test_without_a_standard_error_there_is_no_progress(client, lights, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert statuses(client.plan(all_to(lights, 40)).apply()) == ["success"] * 4


def test_a_value_written_since_it_was_reported_counts_as_the_present_one(client, lights):
    client.plan(all_to(lights, 40)).apply()
    again = client.plan(all_to(lights, 40)).frame
    assert again["check"].tolist() == ["already_so"] * 4
    assert again["reason"].str.startswith("written at ").all()
    back = client.plan(all_to(lights, 10)).frame
    assert back["check"].tolist() == ["ok"] * 4
    assert back["current_num"].tolist() == [40.0] * 4


def test_a_saved_plan_is_taken_up_by_another_client_and_nothing_is_written_twice(client, bench, lights, tmp_path):
    bench.set_online(lights[2], False)
    plan = client.plan([*all_to(lights, 40), (lights[0], SWITCH, "on")])
    plan.save(tmp_path / "plan.json")
    plan.apply(canary=0, timeout=0.5)
    until(lambda: statuses(plan.apply(canary=0, timeout=0)) == ["success", "success", "pending", "success"])
    for device_id in lights:
        bench.set_value(device_id, LEVEL, 7)
    loaded = client.load_plan(tmp_path / "plan.json")
    assert loaded.frame.equals(plan.frame)
    assert statuses(loaded.result) == ["queued"] * 4
    bench.set_online(lights[2], True)
    again = loaded.apply()
    assert statuses(again) == ["success"] * 4
    assert again["async_id"].tolist() == plan.result["async_id"].tolist()
    # What was written before was not written again.
    assert levels(client, lights) == [7, 7, 40, 7]
    assert loaded.undo().frame["wanted_num"].tolist() == [10.0] * 4


def test_what_is_no_saved_plan_is_refused(client, new_client, lights, tmp_path):
    (tmp_path / "other.json").write_text('{"version": 1}')
    with pytest.raises(ValueRefused, match="holds no plan"):
        client.load_plan(tmp_path / "other.json")
    with pytest.raises(FileNotFoundError):
        client.load_plan(tmp_path / "missing.json")
    client.plan(all_to(lights, 40)).save(tmp_path / "plan.json")
    moved = (tmp_path / "plan.json").read_text().replace("mirror.localhost", "elsewhere.localhost")
    (tmp_path / "plan.json").write_text(moved)
    with pytest.raises(ValueRefused, match=r"is a plan for http://elsewhere\.localhost"):
        client.load_plan(tmp_path / "plan.json")


@pytest.mark.parametrize(
    ("place", "member", "value", "said"),
    [
        ((), "version", 4, "version"),
        ((), "version", "1", "version"),
        ((), "version", "nothing", "version"),
        ((), "canary", 1, "canary"),
        (("writes", 0), "async_id", "not an id", "writes.0.async_id"),
        (("writes", 0), "async_id", "", "writes.0.async_id"),
        (("writes", 0), "async_id", "that of the other", "writes: async_id"),
        (("writes", 1), "path", "/3311/0/5851/../5850", "writes.1: .*is not a resource path"),
        (("writes", 1), "path", "/3311/0/70000", "writes.1: .*is not a resource path"),
        (("writes", 1), "device_id", "", "writes.1: .*device"),
        (("writes", 1), "device_id", "..", "writes.1: .*device"),
        (("writes", 1), "wanted", None, "writes.1: wanted"),
        (("writes", 1, "wanted"), "payload", "no base64!", "writes.1.wanted.payload"),
        (("writes", 1), "decision", "send", "writes.1.decision"),
        (("writes", 1), "expiry_seconds", 0, "writes.1.expiry_seconds"),
        (("writes", 1), "expiry_seconds", 10**9, "writes.1.expiry_seconds"),
        (("writes", 1), "sleeps", "deeply", "writes.1.sleeps"),
        (("writes", 1), "retries", 2, "writes.1.retries"),
        (("writes", 1, "wanted"), "unit", "K", "writes.1.wanted.unit"),
    ],
)
def test_a_saved_plan_is_checked_member_by_member(client, lights, tmp_path, place, member, value, said):
    file = tmp_path / "plan.json"
    client.plan(all_to(lights, 40)).save(file)
    content = json.loads(file.read_text())
    changed = content
    for name in place:
        changed = changed[name]
    changed[member] = content["writes"][1]["async_id"] if value == "that of the other" else value
    if value == "nothing":
        del changed[member]
    file.write_text(json.dumps(content))
    with pytest.raises(ValueRefused, match=rf"holds no plan \({said}"):
        client.load_plan(file)
    assert client.list_device_requests() == []


def test_a_plan_with_refused_writes_is_loaded_as_it_was_saved(client, lights, tmp_path):
    plan = client.plan(
        [("nobody", LEVEL, 40), (lights[0], "no path", 40), (lights[0], LEVEL, "dim"), (lights[1], LEVEL, 40)]
    )
    plan.save(tmp_path / "plan.json")
    assert client.load_plan(tmp_path / "plan.json").frame.equals(plan.frame)
