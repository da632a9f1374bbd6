"""Rows are returned in order, as of one moment, and only those of the selection."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from databases import new_database_url
from histories import DEVICES, NOW, PATHS, RecordedRows, event_rows, expected, found, position
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirror_server.clock import ManualClock
from mirror_server.extensions.history.selection import HistorySelection
from mirror_server.extensions.history.service import HistoryService
from mirror_server.extensions.history.store.history import StoredHistoryRow
from mirror_server.store.devices import Condition

INSTANTS = st.one_of(st.integers(NOW, NOW + 20), st.sampled_from([0, NOW - 10**9, 4_070_908_800_000]))
ROWS = st.lists(event_rows(INSTANTS), max_size=60)
REUSED = [HealthCheck.function_scoped_fixture]


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[RecordedRows]:
    made = RecordedRows(new_database_url(tmp_path))
    yield made
    made.database.close()


@pytest.fixture
def service(recorded: RecordedRows) -> HistoryService:
    return HistoryService(recorded.database, ManualClock(NOW))


@settings(max_examples=10, deadline=None, suppress_health_check=REUSED)
@given(rows=ROWS, data=st.data())
def test_rows_match_selection(recorded, service, rows, data):
    recorded.record(rows, NOW)
    begin, end = sorted(data.draw(st.tuples(st.integers(NOW, NOW + 21), st.integers(NOW, NOW + 21))))
    ids = data.draw(st.lists(st.sampled_from(DEVICES[1:]), min_size=1))
    pattern = data.draw(st.sampled_from([PATHS[0], "/3303/1*", "/33*", "*"]))
    limit = data.draw(st.integers(1, 70))

    def is_selected(row: StoredHistoryRow) -> bool:
        is_in = row.until > begin or row.changed_at >= begin if row.until is not None else row.changed_at >= begin
        of_path = row.path is None or row.path == pattern or (pattern[-1] == "*" and row.path.startswith(pattern[:-1]))
        return is_in and row.changed_at < end and of_path and (row.device_id is None or row.device_id in ids)

    conditions = (Condition("device_id", "IN", tuple(ids)),)
    selection = {"begin": begin, "end": end, "conditions": conditions, "patterns": (pattern,)}
    assert found(service, limit=limit, **selection) == expected(recorded.rows, is_selected)[:limit]
    assert (
        found(service, limit=limit, descending=True, **selection) == expected(recorded.rows, is_selected)[::-1][:limit]
    )


@settings(max_examples=10, deadline=None, suppress_health_check=REUSED)
@given(rows=ROWS, size=st.integers(1, 7), descending=st.booleans())
def test_consecutive_pages_return_each_row_once(recorded, service, rows, size, descending):
    recorded.record(rows, NOW)
    with closing(service.open(HistorySelection())) as first:
        revision = first.revision
    expected_rows, pages = expected(recorded.rows), []
    # Changes between two pages are not part of the query.
    recorded.record(rows[:5], NOW + 1)
    after = None
    while page := found(service, limit=size, after=after, descending=descending, revision=revision):
        pages += page
        after = position(page[-1])
    assert pages == (expected_rows[::-1] if descending else expected_rows)
