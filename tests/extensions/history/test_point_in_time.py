"""The fleet as of an earlier instant equals the snapshot at that time, within the history. Source: wire.md 10."""

import pytest
from device_resources import control, sensor
from fleet_reads import SNAPSHOT, arrow_of, get, in_columns, instant, lines_of
from resource_paths import TEMPERATURE
from waits import wait_until

from mirror_sdk.errors import BadRequest, NoHistory
from mirror_sdk.snapshot.snapshot_reader import error_without_history
from mirror_sdk.wire.errors import FieldError
from mirror_sdk.wire.snapshot import COMPRESSIONS
from mirror_server.devices.interface import Content, Observation
from mirror_server.extensions.history import arrow
from mirror_server.extensions.history.store import segments

LEVEL = control("/3311/0/5851", "10")
NOT_STORED = {"subscribed", "subscribed_at", "expires_at", "reported_expires_at"}


@pytest.fixture
def server(new_server):
    return new_server(keep_history_seconds=7 * 86_400)


@pytest.fixture
def device(server, key):
    """A device that reports its measurements without delay."""
    device_id = server.add_device(key, "a", sensor(TEMPERATURE), LEVEL)
    server.subscribe(key, device_id)
    return device_id


def as_of(server, key, at, query=""):
    """Return the devices at an instant, which are equal in both formats. The end contains only that instant."""
    devices, end = lines_of(server, key, f"as_of={instant(at)}&{query}")
    assert (instant(at), None, None) == (end.to_wire()["taken_at"], end.revision, end.seq)
    rows, of_rows = arrow_of(server, key, f"as_of={instant(at)}&{query}")
    assert (rows, of_rows) == ([in_columns(each) for each in devices], end)
    assert {resource["subscribed"] for row in rows for resource in row["resources"]} <= {None}
    return devices


def stored_values(devices):
    """Return the part of a snapshot that a history contains: the resources with a known value, by path."""
    values_by_resource = {}
    for device in devices:
        for resource in device["resources"]:
            values = {
                part: {name: value for name, value in resource[part].items() if name not in NOT_STORED}
                for part in ("reported", "desired")
            }
            # A pending write has the time of its request, but no revision.
            if values["desired"].get("status") == 0:
                values["desired"].pop("revision", None)
            if any(values.values()):
                values_by_resource[device["endpoint_name"], resource["resource_path"]] = values
    return values_by_resource


MOMENTS = [
    # The device reports the time of a value that is read, which is the current time too.
    lambda server, key, one: (server.set_value(key, one, "21.6"), server.submit(key, one, "read", "GET", TEMPERATURE)),
    lambda server, key, one: server.set_value(key, one, "22"),
    lambda server, key, one: server.add_device(key, "b", sensor(TEMPERATURE, "5")),
    lambda server, key, one: server.submit(key, one, "write", "PUT", LEVEL["path"], value="20"),
    lambda server, key, one: server.patch(key, one, answer="reject"),
    lambda server, key, one: server.submit(key, one, "rejected", "PUT", LEVEL["path"], value="30"),
    lambda server, key, one: server.patch(key, one, answer="normal", online=False),
    lambda server, key, one: server.submit(key, one, "waits", "PUT", LEVEL["path"], value="40", expiry_seconds=200),
    lambda server, key, one: None,
    lambda server, key, one: server.submit(key, one, "later", "PUT", LEVEL["path"], value="50", expiry_seconds=3000),
    lambda server, key, one: server.advance(key, 300),
    lambda server, key, one: server.patch(key, one, online=True),
    lambda server, key, one: server.set_value(key, one, "23"),
    lambda server, key, one: server.registration(key, one, "DELETE"),
]


@pytest.fixture
def earlier_snapshots(server, key, device):
    """Return instants, each with the snapshot that was made then."""
    snapshots = {server.now: lines_of(server, key)[0]}
    for happen in MOMENTS:
        server.advance(key, 60)
        happen(server, key, device)
        snapshots[server.now] = lines_of(server, key)[0]
    server.advance(key, 60)
    return snapshots


def test_as_of_equals_snapshot_at_every_instant(server, key, earlier_snapshots):
    for at, devices in earlier_snapshots.items():
        assert stored_values(as_of(server, key, at)) == stored_values(devices), instant(at)
    for compression in COMPRESSIONS:
        assert stored_values(as_of(server, key, at, f"compression={compression}")) == stored_values(devices)
    server.restart()
    for at, devices in earlier_snapshots.items():
        assert stored_values(as_of(server, key, at + 59_999)) == stored_values(devices), instant(at)


def test_device_without_values_is_returned_from_registration_on(server, key, device):
    server.advance(key, 60)
    before = server.now
    server.advance(key, 60)
    server.add_device(key, "later", {"path": TEMPERATURE, "value": "1"})
    assert [(one["device_id"], one["endpoint_name"]) for one in as_of(server, key, before)] == [(device, "a")]
    values_by_resource = {each["endpoint_name"]: len(each["resources"]) for each in as_of(server, key, server.now)}
    assert values_by_resource == {"a": 1, "later": 0}


def test_reported_at_is_device_time_and_never_after_instant(server, key, device):
    measured_at = server.now
    server.advance(key, 3600)
    late = Observation(device, TEMPERATURE, Content(b"23"), measured_at + 60_000)
    for _ in range(2):
        # The second time is that of a registration, which repeats the same value with the same time.
        server.services.devices.observed([late]).result(60)
        server.advance(key, 3600)
    (found,) = as_of(server, key, measured_at + 120_000, f"path={TEMPERATURE}")
    assert found["resources"][0]["reported"]["reported_at"] == instant(measured_at + 60_000)


def test_devices_and_resources_are_selected(server, key, earlier_snapshots):
    *_, at = earlier_snapshots
    assert [one["endpoint_name"] for one in as_of(server, key, at, "named=b")] == ["b"]
    assert as_of(server, key, at, "named=nobody") == []
    some = as_of(server, key, at, f"path={TEMPERATURE}&path=/9*")
    assert {each["resource_path"] for one in some for each in one["resources"]} == {TEMPERATURE}


def test_future_instant_is_400(server, key, device, check_error):
    body = check_error(get(server, key, f"{SNAPSHOT}?as_of={instant(server.now + 1)}"), 400, "as_of")
    assert body.reason == "YET_TO_COME"
    # A client can use this to recognize a server version without this parameter.
    assert not isinstance(error_without_history(BadRequest(400, body)), NoHistory)
    older = check_error(get(server, key, f"{SNAPSHOT}?asof={instant(server.now)}"), 400, "asof")
    renamed = older.model_copy(update={"fields": [FieldError(name="as_of", message=older.fields[0].message)]})
    assert isinstance(error_without_history(BadRequest(400, renamed)), NoHistory)


def test_batches_are_bounded_and_contain_complete_devices(server, key, device, monkeypatch):
    # Two devices would be in separate batches anyway.
    others = [server.add_device(key, name) for name in "bcd"]
    complete = as_of(server, key, server.now)
    assert sorted(each["device_id"] for each in complete) == sorted([device, *others])
    for size in (1, 10**9):
        monkeypatch.setattr(arrow, "_MOST_BYTES_OF_DEVICES", size)
        monkeypatch.setattr("mirror_server.extensions.downloads._CHUNK_BYTES", size)
        assert as_of(server, key, server.now) == complete


def test_as_of_is_unchanged_after_archiving(new_server, tmp_path):
    server = new_server(keep_history_seconds=7 * 86_400, history_archive=str(tmp_path / "archive"))
    key, other = server.key(), server.key()
    device_id = server.add_device(key, "a", sensor(TEMPERATURE), LEVEL)
    server.subscribe(key, device_id)
    server.patch(key, device_id, answer="reject")
    server.submit(key, device_id, "mine", "PUT", LEVEL["path"], value="30")
    at = server.now
    before = {reader: as_of(server, reader, at) for reader in (key, other)}
    server.advance(key, 2 * 86_400)
    wait_until(lambda: server.services.database.query(lambda session: list(segments.files(session))))
    assert {reader: as_of(server, reader, at) for reader in (key, other)} == before
    assert before[key] != before[other]
