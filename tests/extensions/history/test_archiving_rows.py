"""Each row is returned once and in order, in tail, segments and archive, after any operations."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from histories import DAY, NOW, PATHS, StoredHistory, event_rows, expected, found, found_at
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mirror_server.extensions.history.selection import HistorySelection, TooOld
from mirror_server.extensions.history.store.history import StoredHistoryRow

FAR = 10 * DAY
INSTANTS = st.one_of(st.integers(-3 * DAY, DAY), st.sampled_from([-DAY, 0, 1000, -NOW, 4_070_908_800_000 - NOW]))
"""Times of events, relative to the present. Those of a clock that is far off are not shifted."""

STEPS = st.one_of(
    st.lists(event_rows(INSTANTS), max_size=12).map(lambda rows: ("report", rows)),
    st.sampled_from([("round", None), ("restart", None), ("hour", 1), ("day", 24), ("days", 20 * 24)]),
)
REUSED = [HealthCheck.function_scoped_fixture]


@settings(max_examples=10, deadline=None, suppress_health_check=REUSED, phases=[Phase.generate])
@given(steps=st.lists(STEPS, max_size=10), descending=st.booleans())
def test_each_row_is_returned_once_after_any_operations(new_history, steps, descending):
    stored = new_history()
    for step, what in steps:
        take(stored, step, what)
        expected_rows = expected(stored.recorded.rows)
        assert found(stored.service, descending=descending) == (expected_rows[::-1] if descending else expected_rows)
    stored.recorded.database.close()


@settings(max_examples=7, deadline=None, suppress_health_check=REUSED, phases=[Phase.generate])
@given(steps=st.lists(STEPS, max_size=10))
def test_state_at_any_instant_equals_replay(new_history, steps):
    stored = new_history()
    for step, what in steps:
        take(stored, step, what)
    with closing(stored.service.open(HistorySelection())) as opened:
        oldest_at = opened.oldest_at
    times = {row.changed_at for row in stored.recorded.rows} | {row.requested_at or 0 for row in stored.recorded.rows}
    for instant in {oldest_at, stored.now, *sorted(times)[::3], *(each - 1 for each in sorted(times)[::3])}:
        if instant >= oldest_at:
            assert found_at(stored.service, instant) == stored.state(instant)
    with pytest.raises(TooOld):
        stored.service.open(HistorySelection(), oldest_at - 1)
    stored.recorded.database.close()


def take(stored: StoredHistory, step: str, what: Any) -> None:
    if step == "report":
        stored.record(*(shifted(row, stored.now if abs(row.changed_at) < FAR else NOW) for row in what))
    elif step == "round":
        stored.round()
    elif step == "restart":
        stored.open()
    else:
        stored.pass_time(what * 3_600_000)


def shifted(row: StoredHistoryRow, by: int) -> StoredHistoryRow:
    """Return the same row at a later time."""
    times = {name: getattr(row, name) for name in ("changed_at", "requested_at", "until")}
    return row._replace(**{name: at + by for name, at in times.items() if at is not None})


def test_concurrent_readers_of_move_get_each_row_once(new_history):
    stored, chance = new_history(), random.Random(1)
    for _ in range(2):
        row = StoredHistoryRow(0, "a", None, PATHS[0], stored.now, 0, "reported", "observation", b"1", "text/plain")
        ago = (chance.choice([0, 1000, DAY]) for _ in range(15))
        stored.record(*(row._replace(device_id=chance.choice("ab"), changed_at=stored.now - each) for each in ago))
        stored.pass_time(DAY)
    expected_rows, is_over = expected(stored.recorded.rows), threading.Event()

    def read(descending: bool) -> int:
        count = 0
        while not is_over.is_set() or not count:
            assert found(stored.service, descending=descending) == (
                expected_rows[::-1] if descending else expected_rows
            )
            count += 1
        return count

    with ThreadPoolExecutor(2) as readers:
        reading = [readers.submit(read, descending) for descending in (False, True)]
        try:
            stored.round()
        finally:
            is_over.set()
        assert all(each.result() for each in reading)
