"""Large, odd and many values are returned unchanged, with little memory."""

import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace

import pyarrow as pa
import pytest
from histories import DAY, NOW, PATHS, StoredHistory, expected, found, found_at

from mirror_server.clock import ManualClock
from mirror_server.extensions.history import arrow
from mirror_server.extensions.history.columns import SCHEMA, of_rows, value_sizes
from mirror_server.extensions.history.parquet import ParquetRows, encoded, regroup
from mirror_server.extensions.history.point_in_time import device_batches, of_mirror
from mirror_server.extensions.history.row_reader import Source, merged
from mirror_server.extensions.history.selection import HistorySelection
from mirror_server.extensions.history.store.history import StoredHistoryRow
from mirror_server.hooks import open_database
from mirror_server.store.devices import Condition

TEXT = StoredHistoryRow(0, "a", None, PATHS[0], NOW, 0, "reported", "observation", b"21.5", "text/plain")


@pytest.fixture(autouse=True)
def small_parts() -> None:
    """Use the real sizes instead of small ones."""


def is_returned(stored: StoredHistory) -> None:
    """Check that all rows and the current state are returned."""
    assert found(stored.service) == expected(stored.recorded.rows)
    assert found_at(stored.service, stored.now) == stored.state(stored.now)


def settled(stored: StoredHistory) -> None:
    """Check the rows when they are in the tail, in a segment, and in the archive."""
    is_returned(stored)
    stored.pass_time(DAY)
    stored.round()
    assert stored.named_files()
    is_returned(stored)


def test_large_and_binary_values_are_stored_and_returned(new_history):
    stored = new_history()
    values = [b"\xff" * 64_000, b"x" * 64_000, b"", b"\0", "\N{GREEK SMALL LETTER ALPHA}".encode(), b"\xed\xa0\x80"]
    for number, value in enumerate(values * 4):
        for content_type in ("text/plain", "application/octet-stream"):
            stored.record(TEXT._replace(value=value, changed_at=NOW + number, content_type=content_type))
    settled(stored)


def test_rows_of_clocks_far_in_the_past_or_future_are_retained_and_deleted(new_history):
    stored = new_history()
    stored.record(*(TEXT._replace(changed_at=at) for at in (0, -1, -(2**62), 4_070_908_800_000, 2**62, NOW)))
    settled(stored)
    # Rows of a clock that is ahead are retained at most a day longer than others.
    stored.pass_time(45 * DAY)
    stored.record(TEXT._replace(changed_at=stored.now))
    stored.round()
    assert [row.changed_at for row in found(stored.service)] == [stored.now]
    assert found_at(stored.service, stored.now) == stored.state(stored.now)


def test_clock_ahead_at_start_does_not_extend_retention(new_history):
    """After the clock is corrected, rows are trimmed in time, and the present can be queried."""
    stored = new_history(keep_seconds=4 * DAY // 1000)
    stored.now = NOW - 365 * DAY
    stored.clock = ManualClock(stored.now)
    stored.open()
    for number in range(10):
        stored.record(*(TEXT._replace(changed_at=stored.now, value=b"%d" % number) for _ in range(6)))
        stored.pass_time(DAY)
        stored.round()
    oldest_at = min(row.received_at for row in found(stored.service))
    assert stored.now - 6 * DAY < oldest_at
    assert found(stored.service, begin=stored.now - 2 * DAY) != []
    assert [row[3] for row in found_at(stored.service, stored.now) if row[1]] == [b"9"]
    assert stored.violations() == []


def test_clock_set_back_loses_nothing(new_history):
    stored = new_history()
    stored.pass_time(10 * DAY)
    for back in (0, 2 * DAY, 1, 3 * DAY):
        stored.now -= back
        stored.clock = ManualClock(stored.now)
        stored.open()
        stored.record(*(TEXT._replace(changed_at=stored.now, value=b"%d" % number) for number in range(6)))
        stored.round()
        assert found(stored.service) == expected(stored.recorded.rows)
        stored.pass_time(DAY)
        stored.round()
    is_returned(stored)
    assert stored.violations() == []


def test_large_values_are_split_into_bounded_groups():
    """A read holds a few groups of each source in memory, even if the values are large."""
    rows = [TEXT._replace(revision=number, changed_at=number, value=bytes(64_000)) for number in range(500)]
    batch = of_rows(rows)
    assert max(value_sizes(part).sum() for part in regroup([batch], len(rows), 5_000_000)) < 10_000_000
    with ParquetRows(pa.BufferReader(encoded(batch))) as file:
        assert len(file.groups) > 5
        assert max(file.read(group).get_total_buffer_size() for group in file.groups) < 10_000_000


def test_batches_of_a_large_fleet_have_only_the_names_of_their_own_devices():
    """Otherwise each batch contains the names of all earlier devices, and is split because of them."""
    ids = [[f"{batch:03}-{number:03}" for number in range(50)] for batch in range(40)]
    rows = (of_rows([TEXT._replace(device_id=each, endpoint_name=each) for each in some]) for some in ids)
    found = list(device_batches(rows))
    assert sum(batch.num_rows for batch in found) == 40 * 50
    assert max(len(batch.column(name).dictionary) for batch in found for name in ("device_id", "endpoint_name")) == 51


def test_long_names_do_not_split_a_batch_into_devices(monkeypatch):
    monkeypatch.setattr(arrow, "_MOST_BYTES_OF_DEVICES", 100_000)
    rows = of_rows([TEXT._replace(device_id=f"{n:03}", endpoint_name=f"{n:03}" * 500) for n in range(100)])
    query = SimpleNamespace(batches=lambda: iter([rows]))
    assert [part.num_rows for part, _ in arrow.FleetState(query).batches()] == [100]


def test_memory_is_bounded_for_many_sources():
    """Memory holds one batch of each source and one result, independent of the number of rows."""
    rows = of_rows([TEXT._replace(revision=number, changed_at=number) for number in range(1000)])

    def source(first: int) -> Source:
        return Source("a", "a", (_later(rows, first + number * 40_000) for number in range(40)))

    tracemalloc.start()
    before = pa.total_allocated_bytes()
    most = count = 0
    for batch in merged(source(first * 1000) for first in range(4)):
        most = max(most, pa.total_allocated_bytes() - before)
        count += batch.num_rows
    tracemalloc.stop()
    assert count == 4 * 40 * 1000
    assert most < 5_000_000


def test_few_rows_of_many_sources_are_merged_at_once():
    """A query for one device reads a few rows of each segment."""
    parts = [of_rows([TEXT._replace(revision=n, changed_at=n) for n in range(first, 90, 30)]) for first in range(30)]
    for descending in (False, True):
        sources = (Source("a", "a", iter([part])) for part in parts)
        (rows,) = [batch for batch in merged(sources, descending=descending) if batch.num_rows]
        found = rows.column("revision").to_pylist()
        assert found == sorted(range(90), reverse=descending)


def test_source_is_started_when_the_merge_reaches_its_first_device():
    started = []

    def batches(device_id: str) -> Iterator[pa.RecordBatch]:
        started.append(device_id)
        yield of_rows([TEXT._replace(device_id=device_id)])

    merge = merged(Source(each, each, batches(each)) for each in "abc")
    assert [(next(merge).num_rows, len(started)) for _ in "abc"] == [(1, 1), (1, 2), (1, 3)]


@pytest.mark.sqlite
def test_history_of_a_large_fleet_begins_with_little_memory(tmp_path):
    """The registrations of a million devices would need gigabytes as a list."""
    with closing(open_database(f"sqlite:///{tmp_path}/mirror.db")) as database:
        columns = "queue_mode, lifetime_seconds, created_at, updated_at, last_contact_at, registration_expires_at"
        database.write(
            lambda session: session.run(
                f"INSERT INTO devices (device_id, endpoint_name, endpoint_type, backend, registered, {columns})"
                " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
                " SELECT printf('%032d', i), 'endpoint-' || i, '', 'test', 1, 0, 60, 0, 0, 0, 0 FROM n"
            )
        )
        with database.read() as session:
            tracemalloc.start()
            _, rows = of_mirror(session, NOW)
            assert sum(batch.num_rows for batch in rows) == 20_000
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
    assert peak < 5_000_000


def _later(batch: pa.RecordBatch, by: int) -> pa.RecordBatch:
    changed = [scalar.value + by for scalar in batch.column("changed_at")]
    index = SCHEMA.get_field_index("changed_at")
    return batch.set_column(index, SCHEMA.field(index), pa.array(changed, pa.int64()).cast(SCHEMA.field(index).type))


def test_selection_of_unknown_device_is_empty(new_history):
    stored = new_history()
    stored.record(TEXT, StoredHistoryRow(0, None, None, None, NOW, 0, "gap", until=NOW + 1))
    unknown = (Condition("device_id", "IN", ("unknown",)),)
    # A gap of the service concerns all devices.
    assert [row.what for row in found(stored.service, conditions=unknown)] == ["gap"]
    opened = stored.service.open(HistorySelection(conditions=unknown), stored.now)
    assert list(opened.batches()) == []
    opened.close()
    opened.close()
