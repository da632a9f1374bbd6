"""The fleet as of an earlier instant: the snapshot as it was then, as far as a history tells. Source: wire.md 10."""

import json
from datetime import UTC, datetime
from functools import partial

import pyarrow as pa
import pytest
from simulated_resources import control, sensor

from mirror_sdk.errors import BadRequest, NoHistory
from mirror_sdk.snapshot.reading import of_older_service
from mirror_sdk.wire.device_object import DeviceObject
from mirror_sdk.wire.errors import FieldError
from mirror_sdk.wire.history import BeforeHistory
from mirror_sdk.wire.snapshot import ARROW, COMPRESSIONS, END_KEY, NDJSON, SnapshotEnd
from mirror_server.arrow import past, stream
from mirror_server.devices.link import Content, Observation
from mirror_server.service.keys import Scope
from mirror_server.store import keys as stored_keys

SNAPSHOT = "/v3/device-echo"
TEMPERATURE = "/3303/0/5700"
LEVEL = control("/3311/0/5851", "10")
NOT_KEPT = {"subscribed", "subscribed_at", "expires_at", "reported_expires_at"}


@pytest.fixture
def server(new_server):
    return new_server(keep_history_seconds=7 * 86_400)


@pytest.fixture
def device(server, key):
    """A device that tells what it measures; at once, so that nothing comes late."""
    device_id = server.add_device(key, "a", sensor(TEMPERATURE), LEVEL)
    server.subscribe(key, device_id)
    return device_id


def instant(at):
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ask(server, key, query="", accept=NDJSON, *, buffered=True):
    return server.call(key, "GET", f"{SNAPSHOT}?{query}", headers={"Accept": accept}, buffered=buffered)


def lines_of(server, key, query=""):
    answer = ask(server, key, query)
    assert (answer.status_code, answer.mimetype) == (200, NDJSON), answer.get_data()
    *lines, end = [json.loads(line) for line in answer.get_data().splitlines()]
    end = SnapshotEnd.model_validate(end, extra="forbid")
    assert end.device_count == len(lines)
    for line in lines:
        DeviceObject.model_validate(line, extra="forbid")
    return lines, end


def arrow_of(server, key, query=""):
    answer = ask(server, key, query, ARROW)
    assert (answer.status_code, answer.mimetype) == (200, ARROW), answer.get_data()
    rows, metadata = [], None
    with pa.ipc.open_stream(answer.get_data()) as batches:
        assert batches.schema == stream.SCHEMA
        while metadata is None or END_KEY not in metadata:
            batch, metadata = batches.read_next_batch_with_custom_metadata()
            rows += batch.to_pylist()
        assert batch.num_rows == 0
    end = SnapshotEnd.model_validate_json(metadata[END_KEY], extra="forbid")
    assert end.device_count == len(rows)
    return rows, end


def as_of(server, key, at, query="", read=lines_of):
    """The devices at an instant; the end says which instant it is, and nothing that goes on from there."""
    devices, end = read(server, key, f"as_of={instant(at)}&{query}")
    assert (instant(at), None, None) == (end.to_wire()["taken_at"], end.revision, end.seq)
    return devices


def kept(devices):
    """Of a snapshot's devices what a history tells: the resources of which something was known, by path."""
    told = {}
    for device in devices:
        for resource in device["resources"]:
            values = {
                part: {name: value for name, value in resource[part].items() if name not in NOT_KEPT}
                for part in ("reported", "desired")
            }
            # What is known of a write that had not ended is when it was issued, not as which change of the mirror.
            if values["desired"].get("status") == 0:
                values["desired"].pop("revision", None)
            if any(values.values()):
                told[device["endpoint_name"], resource["resource_path"]] = values
    return told


def kept_of_rows(rows):
    """The same of the rows of an Arrow stream."""
    told = {}
    for row in rows:
        desired = {row["resources"][one["resource"]]["path"]: one for one in row["desired"]}
        for resource in row["resources"]:
            values = {**resource, **desired.get(resource["path"], {})}
            if values.get("desired_status") == 0:
                del values["desired_revision"]
            left_out = {*NOT_KEPT, "path", "resource"}
            values = {name: value for name, value in values.items() if value is not None and name not in left_out}
            if values:
                told[row["endpoint_name"], resource["path"]] = values
    return told


MOMENTS = [
    # Of a value that is read its device tells since when it has it: that, too, is now.
    lambda server, key, one: (server.set_value(key, one, "21.6"), server.place(key, one, "read", "GET", TEMPERATURE)),
    lambda server, key, one: server.set_value(key, one, "22"),
    lambda server, key, one: server.add_device(key, "b", sensor(TEMPERATURE, "5")),
    lambda server, key, one: server.place(key, one, "write", "PUT", LEVEL["path"], value="20"),
    lambda server, key, one: server.patch(key, one, answer="reject"),
    lambda server, key, one: server.place(key, one, "rejected", "PUT", LEVEL["path"], value="30"),
    lambda server, key, one: server.patch(key, one, answer="normal", online=False),
    lambda server, key, one: server.place(key, one, "waits", "PUT", LEVEL["path"], value="40", expiry_seconds=200),
    lambda server, key, one: None,
    lambda server, key, one: server.place(key, one, "later", "PUT", LEVEL["path"], value="50", expiry_seconds=3000),
    lambda server, key, one: server.advance(key, 300),
    lambda server, key, one: server.patch(key, one, online=True),
    lambda server, key, one: server.set_value(key, one, "23"),
    lambda server, key, one: server.registration(key, one, "DELETE"),
]


@pytest.fixture
def past_of_a_fleet(server, key, device):
    """Instants, each with the snapshot that was taken then, in both forms."""
    taken = {server.now: (lines_of(server, key)[0], arrow_of(server, key)[0])}
    for happen in MOMENTS:
        server.advance(key, 60)
        happen(server, key, device)
        taken[server.now] = (lines_of(server, key)[0], arrow_of(server, key)[0])
    server.advance(key, 60)
    return taken


def test_at_every_instant_it_is_the_snapshot_that_was_taken_then(server, key, past_of_a_fleet):
    for at, (devices, rows) in past_of_a_fleet.items():
        assert kept(as_of(server, key, at)) == kept(devices), instant(at)
        assert kept_of_rows(as_of(server, key, at, read=arrow_of)) == kept_of_rows(rows), instant(at)
    for compression in COMPRESSIONS:
        found = as_of(server, key, at, f"compression={compression}", arrow_of)
        assert {resource["subscribed"] for row in found for resource in row["resources"]} == {None}
        assert kept_of_rows(found) == kept_of_rows(rows)
    server.restart()
    for at, (devices, _) in past_of_a_fleet.items():
        assert kept(as_of(server, key, at + 59_999)) == kept(devices), instant(at)


def test_device_without_values_is_there_from_its_registration_on(server, key, device):
    server.advance(key, 60)
    before = server.now
    server.advance(key, 60)
    server.add_device(key, "later", {"path": TEMPERATURE, "value": "1"})
    for read in (lines_of, arrow_of):
        (one,) = as_of(server, key, before, read=read)
        assert (one["device_id"], one["endpoint_name"]) == (device, "a")
        told = {each["endpoint_name"]: each["resources"] for each in as_of(server, key, server.now, read=read)}
        assert told["later"] == []
        assert len(told["a"]) == 1


def test_reported_at_is_the_devices_time_and_never_after_the_instant(server, key, device):
    measured_at = server.now
    server.advance(key, 3600)
    late = Observation(device, TEMPERATURE, Content(b"23"), measured_at + 60_000)
    for _ in range(2):
        # The second time is what a registration repeats: the same value with the same time.
        server.services.devices.observed([late]).result(60)
        server.advance(key, 3600)
    ((line,), (row,)) = (
        as_of(server, key, measured_at + 120_000, f"path={TEMPERATURE}", read) for read in (lines_of, arrow_of)
    )
    assert line["resources"][0]["reported"]["reported_at"] == instant(measured_at + 60_000)
    assert row["resources"][0]["reported_at"].timestamp() * 1000 == measured_at + 60_000


def test_devices_and_resources_are_selected(server, key, past_of_a_fleet):
    *_, at = past_of_a_fleet
    for read, name in ((lines_of, "resource_path"), (arrow_of, "path")):
        assert [one["endpoint_name"] for one in as_of(server, key, at, "endpoint_name=b", read)] == ["b"]
        assert as_of(server, key, at, "id=nobody", read) == []
        some = as_of(server, key, at, f"path={TEMPERATURE}&path=/9*", read)
        assert {each[name] for one in some for each in one["resources"]} == {TEMPERATURE}


def test_only_the_issuer_sees_why_a_write_failed(server, key, other, device):
    server.patch(key, device, answer="reject")
    server.place(key, device, "mine", "PUT", LEVEL["path"], value="30")
    reader = server.key(Scope.READ)
    server.advance(key, 60)
    for asking, expected in ((key, "REJECTED"), (other, None), (reader, None), (key, "REJECTED")):
        (one,) = as_of(server, asking, server.now, f"path={LEVEL['path']}")
        assert one["resources"][0]["desired"]["status"] == 2
        assert one["resources"][0]["desired"].get("category") == expected
    for asking in (key, reader):
        assert b"REJECTED" not in ask(server, asking, f"as_of={instant(server.now)}", ARROW).get_data()
    assert key.split("_")[1].encode() not in ask(server, reader, f"as_of={instant(server.now)}").get_data()


def test_invalid_parameter_is_400_with_its_name(server, key, device, refused):
    cases = [
        ("as_of=2026-01-05T08:00:00", "as_of", "has no zone"),
        ("as_of=", "as_of", "is no time"),
        ("as_of=2026-01-05T08:00:00Z&as_of=2026-01-05T08:00:00Z", "as_of", "once"),
        ("as_of=2026-01-05T08:00:00Z&changed_after=", "changed_after", "as_of"),
        ("as_of=2026-01-05T08:00:00Z&path=/3*/0", "path", "'*'"),
        ("as_of=2026-01-05T08:00:00Z&from=2026-01-05T08:00:00Z", "from", "path, as_of, changed_after, compression"),
        ("as_of=2026-01-05T08:00:00Z&compression=gzip", "compression", "zstd"),
    ]
    for query, field, word in cases:
        assert word in refused(ask(server, key, query), 400, field).fields[0].message
    now = f"as_of={instant(server.now)}"
    refused(server.call(key, "GET", f"{SNAPSHOT}/ranges?{now}"), 400, "as_of")
    refused(ask(server, key, now, "text/html"), 406)
    assert server.call(key, "HEAD", f"{SNAPSHOT}?{now}").status_code == 405
    assert ask(server, key, now).status_code == 200


def test_instant_in_the_future_is_400_yet_to_come(server, key, device, refused):
    body = refused(ask(server, key, f"as_of={instant(server.now + 1)}"), 400, "as_of")
    assert body.reason == "YET_TO_COME"
    # A client does not take it for the answer of a version that knows no such parameter.
    assert not isinstance(of_older_service(BadRequest(400, body)), NoHistory)
    older = refused(ask(server, key, "asof=2026-01-05T08:00:00Z"), 400, "asof")
    renamed = older.model_copy(update={"fields": [FieldError(name="as_of", message=older.fields[0].message)]})
    assert isinstance(of_older_service(BadRequest(400, renamed)), NoHistory)


def test_instant_before_the_history_is_400_with_the_oldest_one(server, key, device):
    answer = ask(server, key, "as_of=2020-01-01T00:00:00Z")
    body = BeforeHistory.model_validate(answer.json, extra="forbid")
    assert (answer.status_code, body.reason, body.fields[0].name) == (400, "BEFORE_HISTORY", "as_of")
    oldest_at = body.to_wire()["oldest_at"]
    assert oldest_at in body.message
    assert ask(server, key, f"as_of={oldest_at}").status_code == 200


def test_batches_are_bounded_and_hold_whole_devices(server, key, past_of_a_fleet, monkeypatch):
    *_, at = past_of_a_fleet
    whole, lines = as_of(server, key, at, read=arrow_of), as_of(server, key, at)
    for size in (1, 10**9):
        monkeypatch.setattr(past, "_MOST_BYTES", size)
        monkeypatch.setattr("mirror_server.views.snapshots._CHUNK_BYTES", size)
        assert (as_of(server, key, at, read=arrow_of), as_of(server, key, at)) == (whole, lines)


def test_response_breaks_off_without_its_end_when_the_key_is_revoked(server, key, past_of_a_fleet, monkeypatch):
    monkeypatch.setattr(past, "_MOST_BYTES", 1)
    *_, at = past_of_a_fleet
    reader = server.key(Scope.READ)
    whole = ask(server, key, f"as_of={instant(at)}", ARROW).get_data()
    answer = ask(server, reader, f"as_of={instant(at)}", ARROW, buffered=False)
    chunks = iter(answer.response)
    content = next(chunks)
    revoke = partial(stored_keys.revoke, key_id=reader.split("_")[1], at=server.now)
    assert server.services.database.write(revoke)
    content += b"".join(chunks)
    answer.close()
    assert b"snapshot-end" in whole
    assert b"snapshot-end" not in content
