"""The fleet as of an earlier instant: the snapshot as it was then, as far as a history tells. Source: wire.md 10."""

import base64
import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from mirror_sdk.errors import BadRequest, NoHistory
from mirror_sdk.snapshot.reading import of_older_service
from mirror_sdk.wire.device_object import DeviceObject
from mirror_sdk.wire.errors import FieldError
from mirror_sdk.wire.history import BeforeHistory
from mirror_sdk.wire.snapshot import ARROW, COMPRESSIONS, END_KEY, NDJSON, SnapshotEnd
from mirror_server.arrow import past, stream
from mirror_server.devices.link import Content, Observation
from mirror_server.service import snapshots
from mirror_server.service.keys import Scope
from mirror_server.store import keys as stored_keys

SNAPSHOT = "/v3/device-echo"
TEMPERATURE = "/3303/0/5700"
LEVEL = {"path": "/3311/0/5851", "value": "10", "writable": True, "observable": True}
NOT_KEPT = {"subscribed", "subscribed_at", "expires_at", "reported_expires_at"}


@pytest.fixture
def server(new_server):
    return new_server(keep_history_seconds=7 * 86_400)


@pytest.fixture
def device(server, key):
    """A device that tells what it measures; at once, so that nothing comes late."""
    device_id = server.add_device(key, "a", {"path": TEMPERATURE, "value": "21.5", "observable": True}, LEVEL)
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
            assert resource["subscribed"] is None
            both = {**resource, **desired.get(resource["path"], {})}
            if both.get("desired_status") == 0:
                del both["desired_revision"]
            told[row["endpoint_name"], resource["path"]] = {
                name: value
                for name, value in both.items()
                if value is not None and name not in {*NOT_KEPT, "path", "resource"}
            }
    return told


MOMENTS = [
    # Of a value that is read its device tells since when it has it: that, too, is now.
    lambda server, key, one: (
        server.set_value(key, one, "21.6"),
        server.place(key, one, "read", "GET", TEMPERATURE),
    ),
    lambda server, key, one: server.set_value(key, one, "22"),
    lambda server, key, one: server.add_device(key, "b", {"path": TEMPERATURE, "value": "5", "observable": True}),
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
    """Instants, each with the snapshot that was taken then."""
    taken = {server.now: lines_of(server, key)[0]}
    for happen in MOMENTS:
        server.advance(key, 60)
        happen(server, key, device)
        taken[server.now] = lines_of(server, key)[0]
    server.advance(key, 60)
    return taken


def test_at_every_instant_it_is_the_snapshot_that_was_taken_then(server, key, past_of_a_fleet):
    for at, devices in past_of_a_fleet.items():
        assert kept(as_of(server, key, at)) == kept(devices), instant(at)
    server.restart()
    for at, devices in past_of_a_fleet.items():
        assert kept(as_of(server, key, at + 59_999)) == kept(devices), instant(at)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_an_arrow_stream_tells_the_same(server, key, past_of_a_fleet, compression):
    for at, devices in past_of_a_fleet.items():
        rows = as_of(server, key, at, f"compression={compression}", arrow_of)
        told = {}
        for place, values in kept(devices).items():
            reported, desired = values["reported"], values["desired"]
            names = {"value", "content_type", "revision", "origin"} & reported.keys()
            told[place] = {f"reported_{name}": reported[name] for name in names}
            told[place] |= {name: reported[name] for name in {"reported_at"} & reported.keys()}
            names = {"value", "content_type", "status", "revision"} & desired.keys()
            told[place] |= {f"desired_{name}": desired[name] for name in names}
            told[place] |= {name: desired[name] for name in {"desired_at", "requested_at"} & desired.keys()}
        found = {
            place: {name: plain(value) for name, value in values.items()}
            for place, values in kept_of_rows(rows).items()
        }
        assert found == told, instant(at)


def plain(value):
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return instant(value.timestamp() * 1000) if isinstance(value, datetime) else value


def test_a_device_of_which_nothing_but_its_registration_is_known_is_there(server, key, device):
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
    for read, name in ((lines_of, "resource_path"), (arrow_of, "path")):
        (one,) = as_of(server, key, measured_at + 120_000, f"path={TEMPERATURE}", read)
        (resource,) = one["resources"]
        reported_at = resource["reported"]["reported_at"] if name == "resource_path" else plain(resource["reported_at"])
        assert reported_at == instant(measured_at + 60_000)


def test_devices_and_resources_are_selected(server, key, past_of_a_fleet):
    *_, at = past_of_a_fleet
    for read, name in ((lines_of, "resource_path"), (arrow_of, "path")):
        assert [one["endpoint_name"] for one in as_of(server, key, at, "endpoint_name=b", read)] == ["b"]
        assert as_of(server, key, at, "id=nobody", read) == []
        some = as_of(server, key, at, f"path={TEMPERATURE}&path=/9*", read)
        assert {each[name] for one in some for each in one["resources"]} == {TEMPERATURE}


def test_only_the_issuer_is_told_why_a_write_failed(server, key, other, device):
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


def test_what_cannot_be_is_refused_by_name(server, key, device, refused):
    cases = [
        ("as_of=2026-01-05T08:00:00", "as_of", "has no zone"),
        ("as_of=monday", "as_of", "is no time"),
        ("as_of=", "as_of", "is no time"),
        ("as_of=2026-01-05T08:00:00Z&as_of=2026-01-05T08:00:00Z", "as_of", "once"),
        ("as_of=2100-01-01T00:00:00Z", "as_of", "is yet to come"),
        ("as_of=2026-01-05T08:00:00Z&changed_after=1", "changed_after", "as_of"),
        ("as_of=2026-01-05T08:00:00Z&changed_after=", "changed_after", "as_of"),
        ("as_of=2026-01-05T08:00:00Z&path=/3*/0", "path", "'*'"),
        ("as_of=2026-01-05T08:00:00Z&from=2026-01-05T08:00:00Z", "from", "unknown"),
        ("as_of=2026-01-05T08:00:00Z&compression=gzip", "compression", "zstd"),
    ]
    for query, field, word in cases:
        body = refused(ask(server, key, query), 400, field)
        assert word in body.fields[0].message
        assert ask(server, key, f"as_of={instant(server.now)}").status_code == 200


def test_an_instant_that_has_not_been_has_a_reason_of_its_own(server, key, device, refused):
    body = refused(ask(server, key, f"as_of={instant(server.now + 1)}"), 400, "as_of")
    assert body.reason == "YET_TO_COME"
    # A client does not take it for the answer of a version that knows no such parameter.
    assert not isinstance(of_older_service(BadRequest(400, body)), NoHistory)
    older = refused(ask(server, key, "asof=2026-01-05T08:00:00Z"), 400, "asof")
    renamed = older.model_copy(update={"fields": [FieldError(name="as_of", message=older.fields[0].message)]})
    assert isinstance(of_older_service(BadRequest(400, renamed)), NoHistory)
    assert ask(server, key, f"as_of={instant(server.now)}").status_code == 200


def test_ranges_are_of_the_fleet_as_it_is(server, key, refused):
    refused(server.call(key, "GET", f"{SNAPSHOT}/ranges?as_of={instant(server.now)}"), 400, "as_of")


def test_before_what_is_kept_the_oldest_instant_is_named(server, key, device):
    answer = ask(server, key, "as_of=2020-01-01T00:00:00Z")
    body = BeforeHistory.model_validate(answer.json, extra="forbid")
    assert (answer.status_code, body.reason, body.fields[0].name) == (400, "BEFORE_HISTORY", "as_of")
    oldest_at = body.to_wire()["oldest_at"]
    assert oldest_at in body.message
    assert ask(server, key, f"as_of={oldest_at}").status_code == 200


def test_a_server_that_keeps_no_history_says_so(new_server, refused):
    server = new_server()
    body = refused(ask(server, server.key(), f"as_of={instant(server.now)}"), 404)
    assert body.reason == "NO_HISTORY"


def test_the_form_is_the_one_asked_for_and_a_head_is_refused(server, key, device, refused):
    at = instant(server.now)
    refused(ask(server, key, f"as_of={at}", "text/html"), 406)
    assert server.call(key, "HEAD", f"{SNAPSHOT}?as_of={at}").status_code == 405


def test_the_places_are_those_of_snapshots(server, key, device):
    most = snapshots._MOST_AT_ONCE // 2
    at = instant(server.now)
    for last in ("", f"as_of={at}"):
        held = [ask(server, key, f"as_of={at}", buffered=False) for _ in range(most)]
        assert ask(server, key, last).json["reason"] == "TOO_MANY_SNAPSHOTS"
        for one in held:
            one.close()
    for _ in range(2 * most):
        assert ask(server, key, "as_of=2020-01-01T00:00:00Z").status_code == 400
        assert ask(server, key, f"as_of={at}").status_code == 200


@pytest.mark.parametrize("size", [1, 10**9])
def test_batches_are_bounded_and_hold_whole_devices(server, key, past_of_a_fleet, monkeypatch, size):
    *_, at = past_of_a_fleet
    whole, lines = as_of(server, key, at, read=arrow_of), as_of(server, key, at)
    monkeypatch.setattr(past, "_MOST_BYTES", size)
    monkeypatch.setattr("mirror_server.views.snapshots._CHUNK_BYTES", size)
    assert (as_of(server, key, at, read=arrow_of), as_of(server, key, at)) == (whole, lines)


def test_it_breaks_off_without_its_end_when_the_key_is_revoked(server, key, past_of_a_fleet, monkeypatch):
    monkeypatch.setattr(past, "_MOST_BYTES", 1)
    monkeypatch.setattr("mirror_server.views.snapshots._CHUNK_BYTES", 1)
    *_, at = past_of_a_fleet
    reader = server.key(Scope.READ)
    for form in (NDJSON, ARROW):
        whole = ask(server, key, f"as_of={instant(at)}", form).get_data()
        answer = ask(server, reader, f"as_of={instant(at)}", form, buffered=False)
        chunks = iter(answer.response)
        content = next(chunks)
        if form == ARROW:
            key_id = reader.split("_")[1]
            assert server.services.database.write(
                lambda session, key_id=key_id: stored_keys.revoke(session, key_id, server.now)
            )
        content += b"".join(chunks)
        answer.close()
        assert (content == whole) == (form == NDJSON)
        assert (b"snapshot-end" in content) == (form == NDJSON)
