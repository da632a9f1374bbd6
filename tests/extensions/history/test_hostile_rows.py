"""What devices may tell that is large, odd or much is told again, with little in memory."""

import tracemalloc

import pyarrow as pa
import pytest
from histories import DAY, NOW, PATHS, Kept, expected, found, found_at

from mirror_server.clock import ManualClock
from mirror_server.extensions.history.columns import SCHEMA, of_rows, value_sizes
from mirror_server.extensions.history.parquet import ParquetRows, encoded, parts
from mirror_server.extensions.history.reading import Source, merged
from mirror_server.extensions.history.selection import HistorySelection
from mirror_server.extensions.history.store.history import StoredHistoryRow
from mirror_server.store.devices import Condition

TEXT = StoredHistoryRow(0, "a", None, PATHS[0], NOW, 0, "reported", "observation", b"21.5", "text/plain")


@pytest.fixture(autouse=True)
def small_parts() -> None:
    """Parts of the size they are."""


def is_told(kept: Kept) -> None:
    """All rows are, and the state of now."""
    assert found(kept.service) == expected(kept.told.rows)
    assert found_at(kept.service, kept.now) == kept.state(kept.now)


def settled(kept: Kept) -> None:
    """The rows where they are told from the tail, a segment, and the archive."""
    is_told(kept)
    kept.pass_time(DAY)
    kept.round()
    assert kept.named_files()
    is_told(kept)


def test_values_that_are_large_or_no_texts(new_history):
    kept = new_history()
    values = [b"\xff" * 64_000, b"x" * 64_000, b"", b"\0", "\N{GREEK SMALL LETTER ALPHA}".encode(), b"\xed\xa0\x80"]
    for number, value in enumerate(values * 4):
        for content_type in ("text/plain", "application/octet-stream"):
            kept.tell(TEXT._replace(value=value, changed_at=NOW + number, content_type=content_type))
    settled(kept)


def test_clocks_that_are_far_off(new_history):
    kept = new_history()
    kept.tell(*(TEXT._replace(changed_at=at) for at in (0, -1, -(2**62), 4_070_908_800_000, 2**62, NOW)))
    settled(kept)
    # A clock that is ahead keeps its rows no more than a day longer than others.
    kept.pass_time(45 * DAY)
    kept.tell(TEXT._replace(changed_at=kept.now))
    kept.round()
    assert [row.changed_at for row in found(kept.service)] == [kept.now]
    assert found_at(kept.service, kept.now) == kept.state(kept.now)


def test_a_clock_that_was_ahead_at_the_begin_keeps_nothing_longer(new_history):
    """It is set right: what was received since is trimmed in time, and can be asked for then."""
    kept = new_history(keep_seconds=4 * DAY // 1000)
    kept.now = NOW - 365 * DAY
    kept.clock = ManualClock(kept.now)
    kept.open()
    for number in range(10):
        kept.tell(*(TEXT._replace(changed_at=kept.now, value=b"%d" % number) for _ in range(6)))
        kept.pass_time(DAY)
        kept.round()
    oldest_at = min(row.received_at for row in found(kept.service))
    assert kept.now - 6 * DAY < oldest_at
    assert found(kept.service, begin=kept.now - 2 * DAY) != []
    assert [row[3] for row in found_at(kept.service, kept.now) if row[1]] == [b"9"]
    assert kept.violations() == []


def test_a_clock_that_is_set_back_loses_nothing(new_history):
    kept = new_history()
    kept.pass_time(10 * DAY)
    for back in (0, 2 * DAY, 1, 3 * DAY):
        kept.now -= back
        kept.clock = ManualClock(kept.now)
        kept.open()
        kept.tell(*(TEXT._replace(changed_at=kept.now, value=b"%d" % number) for number in range(6)))
        kept.round()
        assert found(kept.service) == expected(kept.told.rows)
        kept.pass_time(DAY)
        kept.round()
    is_told(kept)
    assert kept.violations() == []


def test_large_values_are_cut_into_parts_that_can_be_held():
    """Reading holds a few groups of each place, whatever the values weigh."""
    rows = [TEXT._replace(revision=number, changed_at=number, value=bytes(64_000)) for number in range(500)]
    batch = of_rows(rows)
    assert max(value_sizes(part).sum() for part in parts([batch], len(rows), 5_000_000)) < 10_000_000
    with ParquetRows(pa.BufferReader(encoded(batch))) as file:
        assert len(file.groups) > 5
        assert max(file.read(group).get_total_buffer_size() for group in file.groups) < 10_000_000


def test_little_is_held_of_many_places():
    """Of each place one batch, and what comes out of them: not more with the length of what is told."""
    rows = of_rows([TEXT._replace(revision=number, changed_at=number) for number in range(1000)])

    def place(first: int) -> Source:
        return Source("a", "a", (_later(rows, first + number * 40_000) for number in range(40)))

    tracemalloc.start()
    before = pa.total_allocated_bytes()
    most = count = 0
    for batch in merged(place(first * 1000) for first in range(4)):
        most = max(most, pa.total_allocated_bytes() - before)
        count += batch.num_rows
    tracemalloc.stop()
    assert count == 4 * 40 * 1000
    assert most < 5_000_000


def _later(batch: pa.RecordBatch, by: int) -> pa.RecordBatch:
    changed = [scalar.value + by for scalar in batch.column("changed_at")]
    index = SCHEMA.get_field_index("changed_at")
    return batch.set_column(index, SCHEMA.field(index), pa.array(changed, pa.int64()).cast(SCHEMA.field(index).type))


def test_a_selection_of_nobody_is_empty(new_history):
    kept = new_history()
    kept.tell(TEXT, StoredHistoryRow(0, None, None, None, NOW, 0, "gap", until=NOW + 1))
    nobody = (Condition("device_id", "IN", ("nobody",)),)
    # A gap of the service is everybody's.
    assert [row.what for row in found(kept.service, conditions=nobody)] == ["gap"]
    opened = kept.service.open(HistorySelection(conditions=nobody), kept.now)
    assert list(opened.batches()) == []
    opened.close()
    opened.close()
