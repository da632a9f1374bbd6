"""The history over HTTP: rows in two formats, in pages, with an end, and all errors. Source: wire.md 10."""

import base64
import json
from datetime import datetime
from functools import partial

import fleet_reads
import pytest
from device_resources import control, sensor
from fleet_reads import HISTORY, batches_of, get, instant
from resource_paths import TEMPERATURE
from waits import wait_until

from mirror_sdk.wire.history import AFTER_KEY, COLUMNS
from mirror_sdk.wire.snapshot import ARROW, COMPRESSIONS
from mirror_server.extensions.history import arrow as arrow_history
from mirror_server.extensions.history.store import history as stored
from mirror_server.extensions.history.store import segments
from mirror_server.service.keys import Scope

LEVEL = control("/3311/0/5851", "10")
DAY_SECONDS = 86_400
lines_of, arrow_of = partial(fleet_reads.lines_of, path=HISTORY), partial(fleet_reads.arrow_of, path=HISTORY)


@pytest.fixture
def server(new_server):
    return new_server(keep_history_seconds=7 * DAY_SECONDS)


@pytest.fixture
def device(server, key):
    return add_history(server, key)


def add_history(server, key):
    """Add a device with six rows: a registration, four values and the end of a write."""
    device_id = server.add_device(key, "a", sensor(TEMPERATURE), LEVEL)
    server.subscribe(key, device_id)
    for value in ("22", "23"):
        server.advance(key, 60)
        server.set_value(key, device_id, value)
    server.submit(key, device_id, "read", "GET", LEVEL["path"])
    server.submit(key, device_id, "write", "PUT", LEVEL["path"], value="20")
    return device_id


def facts_of(rows):
    values = [base64.b64decode(row["value"]).decode() if "value" in row else None for row in rows]
    return [(row["what"], row.get("path"), value) for row, value in zip(rows, values, strict=True)]


def pages_of(server, key, query, limit, read=lines_of):
    """Return the rows of each page, requested one after another."""
    rows, end = read(server, key, f"{query}&limit={limit}")
    yield rows
    while end.after is not None:
        rows, end = read(server, key, f"{query}&limit={limit}&after={end.after}")
        yield rows


EXPECTED = [
    ("registration", None, None),
    ("reported", TEMPERATURE, "21.5"),
    ("reported", TEMPERATURE, "22"),
    ("reported", TEMPERATURE, "23"),
    ("reported", LEVEL["path"], "10"),
    ("desired", LEVEL["path"], "20"),
]


def test_ndjson_has_rows_and_final_count(server, key, device):
    rows, end = lines_of(server, key)
    assert facts_of(rows) == EXPECTED
    assert {(row["device_id"], row["endpoint_name"]) for row in rows} == {(device, "a")}
    assert [row.get("origin") for row in rows] == [None, *["observation"] * 3, "read", "write"]
    assert rows[-1]["status"] == 1
    assert rows[-1]["requested_at"] == rows[-1]["changed_at"]
    assert end.after is None
    assert end.revision >= max(row["revision"] for row in rows)
    assert len({row["revision"] for row in rows}) == len(rows)


def test_arrow_stream_has_the_same_rows_as_the_lines(server, key):
    assert arrow_of(server, key)[0] == lines_of(server, key)[0] == []
    add_history(server, key)
    for compression in COMPRESSIONS:
        assert arrow_of(server, key, f"compression={compression}") == lines_of(server, key)
    assert arrow_history.SCHEMA.names == list(COLUMNS)
    assert all(
        part.num_rows and AFTER_KEY in metadata
        for part, metadata in batches_of(get(server, key, HISTORY, ARROW).get_data())[:-1]
    )


def test_devices_resources_and_times_are_selected(server, key, device):
    other, now = server.add_device(key, "b", endpoint_type="B"), instant(server.now)
    registrations = {("a", None), ("b", None)}
    values = {("a", TEMPERATURE), ("a", LEVEL["path"])}
    cases = {
        f"device_id={device}": {("a", None), *values},
        f"device_id={device}&device_id={other}": {*registrations, *values},
        "device_id=nobody": set(),
        "named=a,b": {*registrations, *values},
        "named=b": {("b", None)},
        f"device_id={device}&named=b": set(),
        "path=/3303/0/5700": {*registrations, ("a", TEMPERATURE)},
        "path=/3303/*&path=/3311/0/5851": {*registrations, *values},
        "path=/9/*": registrations,
        f"from={now}&to={instant(server.now + 60_000)}": {("b", None), *values},
        f"to={now}": {("a", None), *values},
    }
    for query, expected in cases.items():
        for read in (lines_of, arrow_of):
            rows, _ = read(server, key, query)
            assert {(row["endpoint_name"], row.get("path")) for row in rows} == expected, query


def test_pages_together_are_complete_in_either_order(server, key, device):
    for query in ("order=ASC", "order=DESC"):
        for read in (lines_of, arrow_of):
            all_rows, _ = read(server, key, query)
            assert facts_of(all_rows) == EXPECTED[:: 1 if query == "order=ASC" else -1]
            for limit in (4, len(EXPECTED)):
                pages = list(pages_of(server, key, query, limit, read))
                assert [row for page in pages for row in page] == all_rows
                assert [len(page) for page in pages] == ([4, 2] if limit == 4 else [6])


def test_later_pages_are_as_of_first_page_after_restart(server, key, device):
    all_rows, first = lines_of(server, key)
    rows, end = lines_of(server, key, "limit=2")
    server.advance(key, 60)
    # A late row is at its own time, and not in any page of an earlier read.
    server.set_value(key, device, "99")
    server.add_device(key, "0")
    server.restart()
    for reader in (key, server.key(Scope.READ)):
        later, end_later = lines_of(server, reader, f"after={end.after}")
        assert rows + later == all_rows
        assert (end_later.taken_at, end_later.revision) == (first.taken_at, first.revision)
    assert len(lines_of(server, key)[0]) == len(all_rows) + 2


def test_interrupted_response_continues_after_its_last_cursor(server, key, device, monkeypatch):
    monkeypatch.setattr(arrow_history, "_MOST_ROWS", 2)
    all_rows, _ = lines_of(server, key)
    lines = get(server, key, HISTORY).get_data().splitlines()
    of_lines = [json.loads(line)["after"] for line in lines if b"history-cursor" in line]
    content = get(server, key, HISTORY, ARROW).get_data()
    of_arrow = [metadata[AFTER_KEY].decode() for _, metadata in batches_of(content) if AFTER_KEY in metadata]
    for cursors in (of_lines, of_arrow):
        assert len(cursors) >= 3
        rests = [lines_of(server, key, f"after={cursor}")[0] for cursor in cursors]
        assert all(rest == all_rows[len(all_rows) - len(rest) :] for rest in rests)
        assert [len(rest) for rest in rests] == sorted({len(rest) for rest in rests}, reverse=True)
        assert rests[-1] == []


def test_forged_cursor_is_400(server, key, device, check_error):
    _, end = lines_of(server, key, "limit=1")
    content = json.loads(base64.urlsafe_b64decode(end.after + "=" * (-len(end.after) % 4)))
    cases = [(1, 2**60), (1, "0"), (2, -1), (2, 1.5), (2, True), (3, "\0"), (3, 7), (4, "no path"), (6, float("nan"))]
    for index, value in cases:
        flat = [*content[0], *content[1]]
        flat[index] = value
        text = json.dumps([flat[:3], flat[3:]]).encode()
        forged = base64.urlsafe_b64encode(text).decode().rstrip("=")
        check_error(get(server, key, f"{HISTORY}?after={forged}"), 400, "after")


def test_cursor_of_another_request_is_400(server, key, device, check_error):
    after = lines_of(server, key, "limit=2")[1].after
    now = instant(server.now)
    others = ["order=DESC", "path=/3303/*", "device_id=x", "named=a", f"from={now}", f"to={now}"]
    for query in others:
        assert (
            "other parameters"
            in check_error(get(server, key, f"{HISTORY}?{query}&after={after}"), 400, "after").message
        )
    # Page size and format may differ between the pages of a request.
    rows = arrow_of(server, key, f"compression=zstd&limit=1&after={after}")[0]
    assert lines_of(server, key, f"limit=1&after={after}")[0] == rows


def test_binary_value_is_unchanged(server, key, device):
    payload = base64.b64encode(b"\xff\x00\xfe").decode()
    body = {"content-type": "application/octet-stream", "payload-b64": payload}
    server.submit(key, device, "bytes", "PUT", LEVEL["path"], **body)
    for read in (lines_of, arrow_of):
        row = read(server, key)[0][-1]
        assert (row["value"], row["content_type"]) == (payload, "application/octet-stream")


def test_time_without_a_running_server_is_a_gap_row(server, key, device, restart_later):
    down_at = server.now
    restart_later(3600)
    for query in ("", f"path={TEMPERATURE}", "device_id=nobody", f"from={instant(server.now - 60_000)}"):
        for read in (lines_of, arrow_of):
            gap = next(row for row in read(server, key, query)[0] if row["what"] == "gap")
            assert "device_id" not in gap
            assert datetime.fromisoformat(gap["changed_at"]).timestamp() * 1000 == down_at
            assert datetime.fromisoformat(gap["until"]).timestamp() * 1000 == down_at + 3_600_000
    all_rows = lines_of(server, key, "order=DESC")[0]
    assert all_rows[-1]["what"] == "gap"
    assert [row for page in pages_of(server, key, "order=DESC", 1) for row in page] == all_rows


def test_arrow_batches_have_a_maximum_size(server, key, device, monkeypatch):
    complete = arrow_of(server, key)
    for rows, size, largest in [(1, 10**9, 1), (10**9, 3, 1), (2, 10**9, 2)]:
        monkeypatch.setattr(arrow_history, "_MOST_ROWS", rows)
        monkeypatch.setattr(arrow_history, "_MOST_BYTES", size)
        monkeypatch.setattr("mirror_server.extensions.downloads._CHUNK_BYTES", size)
        assert arrow_of(server, key) == complete == lines_of(server, key)
        batch_sizes = [part.num_rows for part, _ in batches_of(get(server, key, HISTORY, ARROW).get_data())]
        assert max(batch_sizes) == largest


def test_erased_device_has_no_rows(server, key, device):
    other = server.add_device(key, "b")
    _, end = lines_of(server, key, "limit=1")
    server.services.database.write(partial(stored.erase, device_ids=[device]))
    for read in (lines_of, arrow_of):
        assert {row["device_id"] for row in read(server, key)[0]} == {other}
        # An earlier read continues with the remaining rows.
        assert {row["device_id"] for row in read(server, key, f"after={end.after}")[0]} <= {other}


def test_pages_are_unchanged_by_archiving(new_server, tmp_path):
    server = new_server(keep_history_seconds=7 * DAY_SECONDS, history_archive=str(tmp_path / "archive"))
    key, other = server.key(), server.key()
    device = add_history(server, key)
    server.patch(key, device, answer="reject")
    server.submit(key, device, "mine", "PUT", LEVEL["path"], value="30")
    before = {}
    for reader in (key, other):
        rows, end = lines_of(server, reader, "limit=2")
        before[reader] = (rows, end.after, lines_of(server, reader)[0])
        assert ("category" in before[reader][2][-1]) == (reader == key)
    server.advance(key, 2 * DAY_SECONDS)
    wait_until(lambda: server.services.database.query(lambda session: list(segments.files(session))))
    for reader, (rows, after, all_rows) in before.items():
        for read in (lines_of, arrow_of):
            assert rows + read(server, reader, f"after={after}")[0] == all_rows
