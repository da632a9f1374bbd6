"""What came first within one millisecond: device objects, tables, drift, explanations and plans. Source: wire.md 1."""

import json
from datetime import UTC, datetime, timedelta
from itertools import product

import httpx
import pandas as pd
import pyarrow as pa
import pytest
from changed_answers import answer_with

from mirror_sdk.device import DeviceObject
from mirror_sdk.frames import DriftKind, drift_frame, read_parquet, state_frame
from mirror_sdk.wire import device_object as wire
from mirror_sdk.wire.snapshot import ARROW, NDJSON

LEVEL, POWER = "/3311/0/5851", "/3311/0/5850"
AT = datetime(2026, 1, 5, 12, tzinfo=UTC)
BEFORE, AFTER = AT - timedelta(seconds=1), AT + timedelta(seconds=1)
REVISIONS = ["reported_revision", "desired_revision"]


@pytest.fixture
def light(bench):
    """A light on a clock that stands still."""
    level = {"path": LEVEL, "value": "94", "observable": True, "writable": True}
    return bench.add_device("light-01", [level, {"path": POWER, "value": "1", "writable": True}])


@pytest.fixture
def settle(mirror):
    return lambda: mirror.services.database.settle(10)


def device_of(reported, desired, *, status=1, value=b"94", wanted=b"40"):
    """A device object with a resource of (time, revision) of what is reported and of what is desired."""
    parts = {"resource_path": LEVEL, "subscribed": False, "reported": {}, "desired": {}}
    if reported is not None:
        at, revision = reported
        parts["reported"] = {"value": value, "content_type": "text/plain", "reported_at": at, "revision": revision}
    if desired is not None:
        at, revision = desired
        parts["desired"] = {"value": wanted, "status": status, "desired_at": at, "revision": revision}
    body = {"device_id": "d1", "endpoint_name": "d", "created_at": AFTER, "resources": [parts]}
    return DeviceObject.from_wire(wire.DeviceObject.model_validate(body))


ORDER = {
    "the revisions, in one millisecond": ((AT, 7), (AT, 9), False),
    "the revisions, the other way round": ((AT, 9), (AT, 7), True),
    "the revisions, where a clock went back": ((BEFORE, 9), (AT, 7), True),
    "the revisions, where a clock went ahead": ((AFTER, 7), (AT, 9), False),
    "the revisions, where there are no times": ((None, 9), (None, 7), True),
    "the times, without revisions": ((AFTER, None), (AT, None), True),
    "the times, without revisions, the other way round": ((BEFORE, None), (AT, None), False),
    "the times, where one part alone has a revision": ((AFTER, None), (AT, 9), True),
    "the times, where both have the same": ((BEFORE, 7), (AT, 7), False),
    "nothing, without revisions in one millisecond": ((AT, None), (AT, None), None),
    "nothing, where one part alone has a revision": ((AT, None), (AT, 9), None),
    "nothing, without a time": ((None, None), (AT, None), None),
    "nothing, where nothing was reported": (None, (AT, 9), None),
    "nothing, where nothing was written": ((AT, 9), None, None),
}


@pytest.mark.parametrize("told_by", ORDER)
def test_what_tells_whether_a_value_was_reported_since(told_by):
    reported, desired, expected = ORDER[told_by]
    assert device_of(reported, desired)[LEVEL].is_reported_since is expected


def test_the_drift_of_a_table_knows_the_order_as_a_device_object_does():
    parts = [None, *product([BEFORE, AT, None], [7, 9, None])]
    for reported, desired in product(parts, parts):
        device = device_of(reported, desired)
        kinds = drift_frame(state_frame([device], taken_at=AFTER), unconfirmed=True)["kind"].tolist()
        if desired is None:
            assert kinds == []
        elif reported is None:
            assert kinds == ["never_reported"]
        else:
            assert kinds == ["reverted" if device[LEVEL].is_reported_since else "unconfirmed"], (reported, desired)


@pytest.mark.parametrize(
    ("status", "value", "kind"),
    [
        (0, b"94", "pending"),
        (0, b"40", "pending"),
        (1, b"40", None),
        (1, b"94", "unconfirmed"),
        (1, b"bright", "unconfirmed"),
        (2, b"94", "failed"),
        (2, b"40", None),
    ],
)
def test_an_older_report_accuses_nobody(status, value, kind):
    state = state_frame([device_of((AT, 7), (AT, 9), status=status, value=value)], taken_at=AFTER)
    asked_for = drift_frame(state, unconfirmed=True)
    assert asked_for["kind"].tolist() == ([] if kind is None else [kind])
    assert drift_frame(state)["kind"].tolist() == ([] if kind in {None, "unconfirmed"} else [kind])
    if kind == "unconfirmed":
        assert (asked_for["since"].iloc[0], asked_for["age"].iloc[0]) == (pd.Timestamp(AT), pd.Timedelta(seconds=1))


def test_a_later_report_of_another_type_is_a_mismatch():
    state = state_frame([device_of((AT, 9), (AT, 7), value=b"bright")], taken_at=AFTER)
    assert drift_frame(state)["kind"].tolist() == ["type_mismatch"]


def test_opaque_values_have_an_order_too():
    device = device_of((AT, 7), (AT, 9), value=b"\xff", wanted=b"\xfe")
    assert drift_frame(state_frame([device], taken_at=AFTER), unconfirmed=True).empty
    state = state_frame([device], taken_at=AFTER, raw=True)
    assert drift_frame(state, unconfirmed=True)["kind"].tolist() == ["unconfirmed"]


def test_a_table_without_revisions_accuses_nobody_of_what_bears_the_same_time():
    """One of an earlier version, from a file for example."""
    parts = [((AT, 9), (AT, 7), []), ((AFTER, 9), (AT, 7), ["reverted"]), ((BEFORE, 7), (AT, 9), [])]
    for reported, desired, kinds in parts:
        state = state_frame([device_of(reported, desired)], taken_at=AFTER)
        assert drift_frame(state.drop(columns=REVISIONS))["kind"].tolist() == kinds
    whole = state_frame([device_of((AT, 9), (AT, 7))], taken_at=AFTER)
    for tables in ([whole.drop(columns=REVISIONS), whole], [whole, whole.drop(columns=REVISIONS)]):
        together = pd.concat(tables, ignore_index=True)
        together.attrs = whole.attrs
        assert sorted(drift_frame(together, unconfirmed=True)["kind"]) == ["reverted", "unconfirmed"]


# Against the server


def kinds(client, light, **options):
    """The kinds of drift of each of the tables a client gives; they are the same."""
    tables = [client.snapshot(), client.state_frame([light]), client.get_device(light).to_frame(raw=True)]
    found = [table.mirror.drift(**options)["kind"].tolist() for table in tables]
    assert found[0] == found[1] == found[2]
    return found[0]


def test_a_value_that_was_read_before_it_was_written_is_no_drift(client, light):
    assert client.read_value(light, LEVEL) == 94
    client.write_value(light, LEVEL, 40)
    resource = client.get_device(light)[LEVEL]
    assert resource.reported.reported_at == resource.desired.desired_at
    assert kinds(client, light) == []
    assert kinds(client, light, unconfirmed=True) == ["unconfirmed"]
    client.read_value(light, LEVEL)
    assert kinds(client, light, unconfirmed=True) == []


def test_it_is_the_same_the_second_time(client, light):
    for value in (40, 41):
        client.read_value(light, LEVEL)
        client.write_value(light, LEVEL, value)
        assert kinds(client, light) == []
        assert kinds(client, light, unconfirmed=True) == ["unconfirmed"]


def test_another_value_that_was_read_after_it_was_written_is_reverted(client, bench, light):
    client.write_value(light, LEVEL, 40)
    assert kinds(client, light) == ["never_reported"]
    bench.set_value(light, LEVEL, 5)
    client.read_value(light, LEVEL)
    assert kinds(client, light) == ["reverted"]


def test_what_is_observed_while_the_write_is_under_way_is_no_drift_of_it(client, bench, light, settle):
    client.subscribe(light, LEVEL)
    settle()
    bench.set_latency_seconds(light, 10)
    request = client.begin_write(light, LEVEL, 40)
    settle()
    bench.set_value(light, LEVEL, 7)
    settle()
    during = client.get_device(light)[LEVEL]
    assert (during.reported.value.python, during.is_reported_since) == (7, True)
    assert kinds(client, light) == ["pending"]
    bench.advance(10)
    request.result(timeout=60)
    settle()
    after = client.get_device(light)[LEVEL]
    # The device tells its subscriber of the new value when it has answered the write.
    assert (after.reported.value.python, after.is_reported_since) == (40, True)
    assert kinds(client, light, unconfirmed=True) == []
    bench.set_value(light, LEVEL, 8)
    settle()
    assert kinds(client, light) == ["reverted"]


def test_the_write_of_another_application_counts_likewise(client, new_client, light):
    client.read_value(light, LEVEL)
    client.write_value(light, LEVEL, 40)
    client.read_value(light, LEVEL)
    new_client().write_value(light, LEVEL, 50)
    assert kinds(client, light) == []
    assert kinds(client, light, unconfirmed=True) == ["unconfirmed"]


def test_a_table_in_a_file_tells_the_same(client, light, tmp_path):
    client.write_value(light, LEVEL, 40)
    client.write_value(light, POWER, True)
    for path in (LEVEL, POWER):
        client.read_value(light, path)
    client.write_value(light, POWER, False)
    state = client.snapshot()
    state.to_parquet(tmp_path / "state.parquet")
    dataset = client.snapshot_dataset(tmp_path / "fleet").to_frame()
    for kept in (read_parquet(tmp_path / "state.parquet"), dataset):
        assert kept[REVISIONS].equals(state[REVISIONS])
        assert kept.mirror.drift().empty
        assert kept.mirror.drift(unconfirmed=True)["path"].tolist() == [POWER]


def test_a_table_of_an_earlier_version_is_taken_as_a_whole_when_it_is_refreshed(client, light):
    client.read_value(light, LEVEL)
    client.write_value(light, LEVEL, 40)
    earlier = client.snapshot().drop(columns=REVISIONS)
    pd.testing.assert_frame_equal(earlier.mirror.refresh(client), client.snapshot())
    without_origins = client.snapshot(raw=True).drop(columns="reported_origin")
    pd.testing.assert_frame_equal(without_origins.mirror.refresh(client), client.snapshot(raw=True))


def test_an_explanation_tells_that_the_report_is_older(client, bench, light):
    client.read_value(light, LEVEL)
    client.write_value(light, LEVEL, 40)
    told = str(client.explain(light, LEVEL))
    assert "The device took 40; the last report, 94, is older: read it, or subscribe, to confirm." in told
    assert "another value since" not in told
    client.read_value(light, LEVEL)
    assert "The device has reported it since." in str(client.explain(light, LEVEL))
    bench.set_value(light, LEVEL, 5)
    client.read_value(light, LEVEL)
    assert "another value since" in str(client.explain(light, LEVEL))


def test_a_plan_goes_by_what_came_last(client, bench, light):
    """A write and a read of another value within one millisecond: the device has the other value."""
    client.write_value(light, LEVEL, 40)
    bench.set_value(light, LEVEL, 5)
    client.read_value(light, LEVEL)
    (again, other) = client.plan([(light, LEVEL, 40), (light, POWER, True)]).planned
    assert (again.finding.check.value, again.before.python) == ("ok", 5)
    assert other.finding.check.value == "ok"
    client.write_value(light, LEVEL, 40)
    (planned,) = client.plan([(light, LEVEL, 40)]).planned
    assert (planned.finding.check.value, planned.before.python) == ("already_so", 40)


def test_undo_goes_back_to_what_was_written_last(client, light):
    client.read_value(light, LEVEL)
    client.write_value(light, LEVEL, 40)
    plan = client.plan([(light, LEVEL, 70)])
    plan.apply()
    assert plan.undo().frame["wanted_num"].tolist() == [40.0]


# Services of other versions


def without_revisions(request, answer):
    """The answers of a service that knows nothing of revisions of values."""
    if answer.status_code != 200 or "echo" not in request.url.path:
        return answer
    kind = answer.headers["Content-Type"]
    if kind == ARROW:
        return stream(answer, stripped_of_columns(answer.content))
    lines = [json.dumps(stripped(json.loads(line))).encode() for line in answer.content.splitlines()]
    return answer_with(answer, b"\n".join(lines) + (b"\n" if kind == NDJSON else b""))


def stream(answer, content):
    return httpx.Response(answer.status_code, headers={"Content-Type": ARROW}, content=content)


def stripped(body):
    for resource in body.get("resources", []):
        for part in (resource["reported"], resource["desired"]):
            part.pop("revision", None)
    return body


def stripped_of_columns(content):
    sink = pa.BufferOutputStream()
    with pa.ipc.open_stream(content) as batches:
        schema = older(batches.schema)
        with pa.ipc.new_stream(sink, schema) as writer:
            while (found := next_of(batches)) is not None:
                batch, metadata = found
                rows = pa.RecordBatch.from_pylist(batch.to_pylist(), schema=schema)
                writer.write_batch(rows, custom_metadata=metadata)
    return sink.getvalue().to_pybytes()


def next_of(batches):
    try:
        return batches.read_next_batch_with_custom_metadata()
    except StopIteration:
        return None


def older(schema):
    return pa.schema([_older_field(field) for field in schema])


def _older_field(field):
    if not pa.types.is_list(field.type):
        return field
    kept = [one for one in field.type.value_type if not one.name.endswith("_revision")]
    assert len(kept) == field.type.value_type.num_fields - 1
    return field.with_type(pa.list_(pa.struct(kept)))


def no_arrow(request, answer):
    if request.headers["Accept"] == ARROW:
        return httpx.Response(406, json={"object": "error", "code": 406, "type": "not_acceptable", "message": ""})
    return without_revisions(request, answer)


@pytest.mark.parametrize("change", [without_revisions, no_arrow])
def test_an_older_service_is_read_and_nobody_is_accused(client_over, plain, bench, light, change):
    plain.read_value(light, LEVEL)
    plain.write_value(light, LEVEL, 40)
    other = client_over(change)
    state = other.snapshot()
    assert state[REVISIONS].isna().all(axis=None)
    assert kinds(other, light) == []
    assert kinds(other, light, unconfirmed=True) == ["unconfirmed"]
    assert "may be older, which their times do not tell" in str(other.explain(light, LEVEL))
    bench.set_value(light, LEVEL, 5)
    bench.advance(1)
    plain.read_value(light, LEVEL)
    assert kinds(other, light) == ["reverted"]
    assert "another value since" in str(other.explain(light, LEVEL))


def test_an_older_client_finds_all_its_columns_in_the_stream(client_over, light):
    schemas = []

    def note(request, answer):
        if request.url.path == "/v3/device-echo":
            with pa.ipc.open_stream(answer.content) as batches:
                schemas.append(batches.schema)
        return answer

    client_over(note).snapshot()
    (schema,) = schemas
    # What it compares: the names and types of the columns, and of what their lists hold, further ones apart.
    for field in older(schema):
        assert schema.field(field.name).type.id == field.type.id
    assert older(schema).names == ["device_id", "endpoint_name", "resources", "desired"]


@pytest.mark.parametrize("revision", [-1, 2**63])
@pytest.mark.parametrize("part", ["reported", "desired"])
def test_a_number_that_is_none_is_refused(part, revision):
    body = {"value": "OTQ=", "revision": revision}
    with pytest.raises(ValueError, match="revision"):
        {"reported": wire.Reported, "desired": wire.Desired}[part].model_validate(body)


def test_each_kind_of_drift_has_its_place():
    assert [kind.value for kind in DriftKind] == [
        "pending",
        "failed",
        "reverted",
        "unconfirmed",
        "never_reported",
        "type_mismatch",
    ]
