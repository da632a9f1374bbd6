"""A process that is killed during maintenance leaves each row exactly once, and the next one continues."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from histories import DAY, PATHS, StoredHistory, expected, found, found_at
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirror_server.extensions.history.archive import Archive
from mirror_server.extensions.history.store.history import StoredHistoryRow
from mirror_server.store.database import Database

REUSED = [HealthCheck.function_scoped_fixture]


class Killed(BaseException):
    """The simulated end of the process."""


class Faults:
    """A fault that kills the process at the n-th write or deletion, before or after it."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.left = at
        self.after = after

    @contextmanager
    def around(self) -> Iterator[None]:
        self.left -= 1
        if self.left == 0 and not self.after:
            raise Killed
        yield
        if self.left == 0 and self.after:
            raise Killed


class FaultyDatabase:
    """A database that kills the process when it writes."""

    def __init__(self, database: Database, faults: Faults) -> None:
        self.read = database.read
        self._database = database
        self._faults = faults

    def submit_durable(self, work: Any) -> Any:
        with self._faults.around():
            future = self._database.submit_durable(work)
            future.result(60)
        return future


class FaultyArchive(Archive):
    """An archive that kills the process when it writes or deletes."""

    def __init__(self, location: str, faults: Faults) -> None:
        super().__init__(location)
        self._faults = faults

    @contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        with self._faults.around(), super().writing(name) as file:
            yield file

    def delete(self, name: str) -> None:
        with self._faults.around():
            super().delete(name)


@settings(max_examples=10, deadline=None, suppress_health_check=REUSED)
@given(at=st.integers(1, 40), after=st.booleans(), days=st.sampled_from([0, 1, 2, 45]), erased=st.booleans())
def test_kill_leaves_each_row_once(new_history, at, after, days, erased):
    stored = new_history()
    record_some(stored)
    stored.round()
    stored.pass_time(DAY)
    record_some(stored)
    if erased:
        stored.erase("b")
    stored.pass_time(days * DAY)
    faults = Faults(at, after=after)
    archive = FaultyArchive(str(stored.folder / "archive"), faults)
    with suppress(Killed):
        stored.new_retention(FaultyDatabase(stored.recorded.database, faults), archive).round()
    stored.forget_trimmed()
    assert found(stored.service) == expected(stored.recorded.rows)
    stored.open()
    stored.round()
    stored.round()
    assert found(stored.service) == expected(stored.recorded.rows)
    assert found_at(stored.service, stored.now) == stored.state(stored.now)
    assert stored.files() == stored.named_files()
    assert not erased or "b" not in stored.archived_devices()
    stored.recorded.database.close()


def record_some(stored: StoredHistory) -> None:
    row = StoredHistoryRow(0, None, None, None, 0, 0, "reported", "read", b"", "text/plain")
    for n in range(13):
        where = {"device_id": "ab"[n % 2], "path": PATHS[n % 3]}
        stored.record(row._replace(**where, changed_at=stored.now - n * 3_600_000, value=b"%d" % n))
