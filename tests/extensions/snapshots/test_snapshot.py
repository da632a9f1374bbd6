"""The fleet snapshot: one consistent read, in two formats, in pages that may be cached. Source: wire.md 7."""

from datetime import UTC, datetime
from unittest.mock import Mock

import pytest
from device_resources import action, control, sensor
from fleet_reads import SNAPSHOT, arrow_of, get, in_columns, lines_of
from resource_paths import TEMPERATURE

from mirror_sdk.wire.errors import ERROR_TYPES
from mirror_sdk.wire.snapshot import ARROW, COMPRESSIONS, DeviceRanges
from mirror_server.core.timestamps import from_datetime
from mirror_server.extensions.downloads import Download
from mirror_server.extensions.snapshots import arrow as stream
from mirror_server.extensions.snapshots.service import SnapshotService
from mirror_server.service import slow_reads
from mirror_server.service.devices import LruCache
from mirror_server.store import devices

RANGES = f"{SNAPSHOT}/ranges"
LIGHT = control("/3311/0/5850")


@pytest.fixture
def ids(server, key):
    """Three devices; the second has a value, the third has nothing."""
    found = [
        server.add_device(key, "a", sensor(TEMPERATURE), LIGHT),
        server.add_device(key, "b", sensor(TEMPERATURE, "-3"), LIGHT),
        server.add_device(key, "c", action("/3/0/4")),
    ]
    server.submit(key, found[1], "first", "GET", TEMPERATURE)
    return found


def device_objects(server, key, ids):
    return [server.call(key, "GET", f"/v3/devices/{device_id}/echo").json for device_id in sorted(ids)]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_snapshot_has_one_row_per_device_and_a_final_count(server, key, ids, compression):
    server.submit(key, ids[1], "write", "PUT", LIGHT["path"], value="1")
    expected = device_objects(server, key, ids)
    lines, end = lines_of(server, key)
    assert lines == expected
    assert end.seq == server.services.log.last_seq(key.split("_")[1])
    rows, end_of_rows = arrow_of(server, key, f"compression={compression}")
    assert rows == [in_columns(one) for one in expected]
    assert end_of_rows == end


def test_values_are_compressed_only_on_request(server, key):
    device = server.add_device(key, "a", sensor(TEMPERATURE, "x" * 1000))
    server.subscribe(key, device)
    for query in ("", *(f"?compression={compression}" for compression in COMPRESSIONS)):
        content = get(server, key, SNAPSHOT + query, ARROW).get_data()
        assert (b"x" * 1000 in content) == (query in {"", "?compression=none"}), query


def test_snapshot_of_an_empty_mirror_has_only_the_final_count(server, key):
    assert lines_of(server, key)[0] == arrow_of(server, key)[0] == []
    assert [(one.after, one.last, one.device_count) for one in ranges_of(server, key).data] == [(None, None, 0)]


def test_devices_and_resources_are_selected(server, key, ids):
    assert [line["endpoint_name"] for line in lines_of(server, key, "named=b")[0]] == ["b"]
    assert {row["endpoint_name"] for row in arrow_of(server, key, "named=a,c")[0]} == {"a", "c"}
    for query, paths in {
        "path=/33*": {TEMPERATURE, LIGHT["path"]},
        "path=/3303/*&path=/3/0/4": {TEMPERATURE, "/3/0/4"},
        "path=*": {TEMPERATURE, LIGHT["path"], "/3/0/4"},
        "path=/3303/0/57": set(),
    }.items():
        lines, _ = lines_of(server, key, query)
        assert {resource["resource_path"] for line in lines for resource in line["resources"]} == paths
        rows, _ = arrow_of(server, key, query)
        assert rows == [in_columns(line) for line in lines]


CHANGES = {
    "a read": lambda server, *one: server.submit(*one, "read", "GET", TEMPERATURE),
    "a write": lambda server, *one: server.submit(*one, "write", "PUT", LIGHT["path"], value="1"),
    "a write that waits": lambda server, *one: (
        server.patch(*one, online=False),
        server.submit(*one, "waits", "PUT", LIGHT["path"], value="1", expiry_seconds=9),
    ),
    "its expiry": lambda server, key, _: server.advance(key, 10),
    "a subscription": lambda server, *one: server.subscribe(*one),
    "an observation": lambda server, *one: server.set_value(*one, "77"),
    "the end of a subscription": lambda server, *one: server.subscribe(*one, method="DELETE"),
    "a new resource": lambda server, *one: (
        server.set_value(*one, "1", path="/3303/1/5700", observable=True),
        server.registration(*one, "PUT"),
    ),
    "a registration update": lambda server, *one: server.registration(*one, "PUT"),
    "a registration": lambda server, *one: server.registration(*one, "POST"),
    "an expired registration": lambda server, key, one: (
        server.patch(key, one, online=False),
        server.advance(key, 40 * 86400),
    ),
    "a deregistration": lambda server, *one: server.registration(*one, "DELETE"),
}


def test_any_change_of_a_device_object_is_in_the_next_snapshot(server, key, ids):
    """A cached page is used only while it is current, and a client that requests changes gets them."""
    for change, make in CHANGES.items():
        if change != "its expiry":
            server.patch(key, ids[0], online=True)
        before, end = lines_of(server, key)
        arrow_of(server, key)
        server.advance(key, 1)
        make(server, key, ids[0])
        expected = device_objects(server, key, ids)
        lines, _ = lines_of(server, key)
        assert lines == expected, change
        assert arrow_of(server, key)[0] == [in_columns(one) for one in expected], change
        different = {
            new["device_id"]
            for old, new in zip(before, lines, strict=True)
            if {**old, "created_at": ""} != {**new, "created_at": ""}
        }
        reported, _ = lines_of(server, key, f"changed_after={end.revision}")
        changed = {line["device_id"] for line in reported if line["object"] == "device-echo"}
        assert ids[0] in different <= changed, change
        for line, complete in zip(reported, expected, strict=True):
            assert line == complete or (line["object"] == "device-echo-unchanged" and line["device_id"] not in changed)
        rows, _ = arrow_of(server, key, f"changed_after={end.revision}")
        assert {row["device_id"] for row in rows if row["resources"] is not None} == changed, change
        assert sorted(ids) == [row["device_id"] for row in rows]


def test_only_changed_devices_that_still_exist_are_sent(server, key, ids):
    _, end = lines_of(server, key)
    arrow_of(server, key)
    lines, _ = lines_of(server, key, f"changed_after={end.revision}")
    assert {line["object"] for line in lines} == {"device-echo-unchanged"}
    server.submit(key, ids[0], "again", "GET", TEMPERATURE)
    server.services.database.write(lambda session: devices.delete(session, ids[1]))
    lines, _ = lines_of(server, key, f"changed_after={end.revision}")
    assert {line["device_id"]: line["object"] for line in lines} == {
        ids[0]: "device-echo",
        ids[2]: "device-echo-unchanged",
    }
    assert [row["device_id"] for row in arrow_of(server, key)[0]] == sorted([ids[0], ids[2]])


@pytest.mark.parametrize(("rows", "size"), [(10**9, 3), (2, 10**9)])
def test_batches_are_bounded_and_contain_complete_devices(server, key, ids, monkeypatch, rows, size):
    complete = arrow_of(server, key)
    monkeypatch.setattr(stream, "_BATCH_ROWS", rows)
    monkeypatch.setattr(stream, "_BATCH_BYTES", size)
    monkeypatch.setattr("mirror_server.extensions.snapshots.store._ROWS_PER_BATCH", 1)
    server.restart()
    assert arrow_of(server, key) == complete


def test_changed_page_replaces_its_cached_version(server, key, ids):
    cache = server.services.part(SnapshotService).encoded_pages
    for number in range(5):
        server.submit(key, ids[1], f"again-{number}", "GET", TEMPERATURE)
        # Twice, from the cache the second time.
        rows, end = arrow_of(server, key)
        assert arrow_of(server, key)[0] == rows
        arrow_of(server, key, f"changed_after={end.revision}")
        assert len(cache._entries) == 1


def test_an_lru_cache_stays_within_its_bound():
    cache = LruCache(max_bytes=10)
    cache.put("a", b"1234")
    cache.put("b", b"1234")
    assert cache.get("a") == b"1234"
    cache.put("c", b"1234")
    assert [cache.get(name) for name in "abc"] == [b"1234", None, b"1234"]
    cache.put("a", b"12345678")
    assert [cache.get(name) for name in "ac"] == [b"12345678", None]
    cache.put("huge", b"x" * 11)
    assert [cache.get(name) for name in ("a", "huge")] == [None, None]


def ranges_of(server, key, query=""):
    answer = server.call(key, "GET", f"{RANGES}?{query}", buffered=True)
    assert (answer.status_code, answer.mimetype) == (200, "application/json"), answer.get_data()
    found = DeviceRanges.model_validate(answer.json, extra="forbid")
    assert sum(one.device_count for one in found.data) == found.device_count
    return found


def conditions_of(one):
    bounds = {"id__gt": one.after, "id__lte": one.last}
    return "&".join(f"{name}={device_id}" for name, device_id in bounds.items() if device_id is not None)


@pytest.mark.with_extension("directory")
@pytest.mark.parametrize(("size", "counts"), [(1, [1, 1, 1]), (2, [2, 1]), (3, [3])])
def test_every_device_is_in_one_of_the_ranges(server, key, ids, size, counts):
    found = ranges_of(server, key, f"devices_per_range={size}")
    assert [one.device_count for one in found.data] == counts
    assert found.revision == lines_of(server, key)[1].revision
    ids_by_range = [[line["device_id"] for line in lines_of(server, key, conditions_of(one))[0]] for one in found.data]
    assert list(map(len, ids_by_range)) == counts
    assert [device_id for part in ids_by_range for device_id in part] == sorted(ids)


@pytest.mark.with_extension("directory")
def test_ranges_include_later_devices_and_only_the_selection(server, key, ids):
    found = ranges_of(server, key, "named=b&devices_per_range=1")
    assert [(one.after, one.last, one.device_count) for one in found.data] == [(None, None, 1)]
    found = ranges_of(server, key, "devices_per_range=1")
    later = [server.add_device(key, f"later-{number}") for number in range(20)]
    device_ids = [line["device_id"] for one in found.data for line in lines_of(server, key, conditions_of(one))[0]]
    assert device_ids == sorted([*ids, *later])


def test_too_many_ranges_are_rejected_with_a_possible_size(server, key, ids, monkeypatch):
    monkeypatch.setattr("mirror_server.extensions.snapshots.views.MAX_RANGES", 2)
    for _ in range(2 * slow_reads._MAX_DOWNLOADS):
        answer = server.call(key, "GET", f"{RANGES}?devices_per_range=1")
        assert (answer.status_code, answer.json["fields"][0]["name"]) == (400, "devices_per_range")
    assert "at least 2" in answer.json["message"]
    assert len(ranges_of(server, key, "devices_per_range=2").data) == 2


@pytest.mark.with_extension("requests")
def test_device_object_contains_the_acknowledgement_of_a_failed_write(server, key):
    device_id = server.add_device(key, "a", sensor(TEMPERATURE))
    server.submit(key, device_id, "failed", "PUT", TEMPERATURE, value="30")
    _, end = lines_of(server, key)
    body = {"resource_path": TEMPERATURE, "by": "night shift"}
    assert server.call(key, "POST", f"/v3/devices/{device_id}/echo/acknowledgements", json=body).status_code == 204
    for query in ("", f"changed_after={end.revision}"):
        (device,), _ = lines_of(server, key, query)
        desired = device["resources"][0]["desired"]
        (row,), _ = arrow_of(server, key, query)
        acknowledgements = [
            {"by": each["acknowledged_by"], "at": each["acknowledged_at"]} for each in (desired, row["desired"][0])
        ]
        assert acknowledgements == [{"by": "night shift", "at": desired["acknowledged_at"]}] * 2


@pytest.mark.with_extension("directory")
def test_devices_are_selected_by_their_descriptions(server, key, ids):
    for room, count in (("B13", 0), ("B12", 1), ("B13", 0)):
        said = {"custom_attributes": {"room": room}}
        assert server.call(key, "PUT", f"/v3/devices/{ids[0]}", json=said).status_code == 200
        assert len(lines_of(server, key, "custom_attributes__room=B12")[0]) == count


def test_times_close_to_the_end_of_the_year_9999_are_formatted(server, key, ids):
    at = from_datetime(datetime(9998, 12, 31, tzinfo=UTC))
    statement = "UPDATE resources SET reported_at = :at, reported_expires_at = :at WHERE reported_value IS NOT NULL"
    server.services.database.write(lambda session: session.run(statement, at=at))
    (line,), _ = lines_of(server, key, "named=b")
    (row,), _ = arrow_of(server, key, "named=b")
    assert row == in_columns(line)
    assert "9998-12-31T00:00:00.000Z" in str(row)


def test_openapi_route_rejects_head_and_other_formats(server, key):
    for path in (SNAPSHOT, RANGES):
        assert server.call(key, "HEAD", path).status_code == 405
    assert server.call(key, "GET", SNAPSHOT, headers={"Accept": "text/csv"}).json["type"] == ERROR_TYPES[406]


def test_download_ends_when_its_key_is_revoked():
    chunks, is_admitted = iter((b"first", b"second")), Mock(side_effect=[True, False])
    download = Download(chunks, is_admitted=is_admitted, release=Mock(), content_type="text/plain", headers={})
    assert [download.next_chunk() for _ in range(2)] == [b"first", None]
