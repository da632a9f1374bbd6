"""Histories for tests: rows of any kind, the naive results of queries, and the real results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from hypothesis import strategies as st

from mirror_server.clock import ManualClock
from mirror_server.extensions.history.archive import Archive
from mirror_server.extensions.history.columns import tail_batch
from mirror_server.extensions.history.consistency import violations
from mirror_server.extensions.history.maintenance import Retention
from mirror_server.extensions.history.row_filters import age_starts_at
from mirror_server.extensions.history.selection import HistorySelection, Position
from mirror_server.extensions.history.service import HistoryService
from mirror_server.extensions.history.store import history, segments
from mirror_server.extensions.history.store.history import KINDS, StoredHistoryRow
from mirror_server.hooks import open_database
from mirror_server.store import devices
from mirror_server.store.backend import Violation
from mirror_server.store.devices import DeviceRow
from mirror_server.store.session import Session

DEVICES = ("", "a", "b", "b1", "z\N{LATIN SMALL LETTER E WITH ACUTE}")
PATHS = ("/3303/0/5700", "/3303/1/5700", "/3303/10/5700", "/5/0/3")
VALUES = (b"", b"21.5", b"22", "\N{DEGREE SIGN}".encode(), b"\xff\xfe", b"\0")
NOW = 1_767_600_000_000
DAY = 86_400_000


def key_of(row: StoredHistoryRow) -> tuple[str, str, int, int]:
    return row.device_id or "", row.path or "", row.changed_at, row.revision


@st.composite
def event_rows(draw: st.DrawFn, instants: st.SearchStrategy[int]) -> StoredHistoryRow:
    """A row without its revision and the time of its receipt."""
    what, origin = draw(st.sampled_from(KINDS))
    changed_at = draw(instants)
    device_id = None if what == "gap" else draw(st.sampled_from(DEVICES[1:]))
    row = StoredHistoryRow(0, device_id, None, None, changed_at, 0, what, origin)
    if what == "gap":
        return row._replace(until=changed_at + draw(st.integers(0, 5000)))
    if what in ("reported", "desired"):
        content_type = draw(st.sampled_from(["text/plain", "application/octet-stream", "application/senml+json"]))
        path, value = draw(st.sampled_from(PATHS)), draw(st.sampled_from(VALUES))
        row = row._replace(path=path, value=value, content_type=content_type)
    if what == "desired":
        status, category = draw(st.sampled_from([(1, None), (2, "DEVICE_ERROR")]))
        requested_at = changed_at - draw(st.integers(0, 4000))
        row = row._replace(status=status, category=category, app_id="app", requested_at=requested_at)
    return row


class RecordedRows:
    """A database with a history, and a plain list of the same rows."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.database = open_database(url)
        self.rows: list[StoredHistoryRow] = []
        self.database.write(self._put_devices)
        self.database.write(lambda session: history.record_heartbeat(session, NOW))
        self.database.write(lambda session: history.begin(session, 0))

    def record(self, rows: Iterable[StoredHistoryRow], received_at: int) -> None:
        def work(session: Any) -> None:
            for row in rows:
                name, revision = row.device_id and f"ep-{row.device_id}", session.note_change(())
                found_rows = row._replace(revision=revision, received_at=received_at, endpoint_name=name)
                history.add(session, [found_rows])
                self.rows.append(found_rows)

        self.database.write(work)

    def _put_devices(self, session: Any) -> None:
        for device_id in DEVICES[1:]:
            devices.put(session, DeviceRow(device_id, f"ep-{device_id}", "", 1, 0, 60, NOW, NOW, NOW, NOW, "test"))


@dataclass
class StoredHistory:
    """A history with tail, segments and archive, and the rows that it should return."""

    recorded: RecordedRows
    folder: Path
    keep_seconds: float = 40 * 86_400
    now: int = NOW
    location: str | None = ""

    def __post_init__(self) -> None:
        self.clock = ManualClock(self.now)
        self.folded: list[StoredHistoryRow] = [
            StoredHistoryRow(0, device_id, f"ep-{device_id}", None, NOW, NOW, "registration")
            for device_id in DEVICES[1:]
        ]
        self.open()
        self.round()

    def open(self) -> None:
        self.service = HistoryService(self.recorded.database, self.clock, self.archive())
        self.retention = self.new_retention(self.recorded.database, self.archive())

    def new_retention(self, database: Any, archive: Archive | None) -> Retention:
        limits: dict[str, Any] = {"keep_seconds": self.keep_seconds, "segment_rows": 5}
        return Retention(database=database, clock=self.clock, service=self.service, archive=archive, **limits)

    def archive(self) -> Archive | None:
        return None if self.location is None else Archive(self.location or str(self.folder / "archive"))

    def violations(self) -> list[Violation]:
        return list(violations(self.recorded.database, self.archive()))

    def pass_time(self, milliseconds: int) -> None:
        self.now = self.clock.advance(milliseconds)

    def record(self, *rows: StoredHistoryRow) -> None:
        self.recorded.record(rows, self.now)

    def erase(self, *device_ids: str) -> None:
        self.recorded.database.write(lambda session: history.erase(session, device_ids))
        self.recorded.rows = [row for row in self.recorded.rows if row.device_id not in device_ids]
        self.folded = [row for row in self.folded if row.device_id not in device_ids]

    def round(self) -> None:
        self.retention.round()
        assert not self.retention.failures
        self.forget_trimmed()

    def files(self) -> list[str]:
        """Return the names of the files in the archive."""
        folder = self.folder / "archive"
        return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

    def archived_devices(self) -> set[str]:
        """Return the devices with data in the archive, including files that are no longer used."""
        folder = self.folder / "archive"
        read = (pq.read_table(folder / name, columns=["device_id"], partitioning=None) for name in self.files())
        return {device_id for table in read for device_id in table.column(0).to_pylist() if device_id is not None}

    def named_files(self) -> list[str]:
        """Return the files that the history lists as its archive."""
        return [file.file_name for file in self.recorded.database.query(segments.files)]

    def forget_trimmed(self) -> None:
        base_at = self.recorded.database.query(history.state).base_at or 0
        old = [row for row in self.recorded.rows if age_starts_at(row.received_at, row.changed_at) < base_at]
        # The time of a clock that was far ahead is lost when the row is trimmed.
        self.folded += [row for row in old if row.changed_at <= base_at]
        self.recorded.rows = [row for row in self.recorded.rows if row not in old]

    def state(self, instant: int) -> list[tuple[Any, ...]]:
        """Return the naive state at an instant: device, path, registered, the last value, the last write."""
        found_rows: dict[tuple[str, str], tuple[StoredHistoryRow | None, StoredHistoryRow | None]] = {}
        for key in sorted({(row.device_id, row.path or "") for row in self._of_devices()}):
            of_key = [row for row in self._of_devices() if (row.device_id, row.path or "") == key]
            last, write = _state_of(of_key, instant)
            if last or write:
                found_rows[key] = last, write
        rows = []
        for (device_id, path), (last, write) in found_rows.items():
            of_device, _ = found_rows.get((device_id, ""), (None, None))
            registered = of_device and of_device.what in ("registration", "reg_update")
            if path:
                rows.append((device_id, path, registered, *_state_row(last, write, instant)))
            elif not any(other == device_id and of for other, of in found_rows):
                rows.append((device_id, None, registered, *_state_row(None, None, instant)))
        return rows

    def _of_devices(self) -> list[Any]:
        return [row for row in [*self.folded, *self.recorded.rows] if row.device_id is not None]


def _state_of(rows: list[StoredHistoryRow], instant: int) -> tuple[StoredHistoryRow | None, StoredHistoryRow | None]:
    others = [row for row in rows if row.what != "desired" and row.changed_at <= instant]
    writes = [row for row in rows if row.what == "desired" and (row.requested_at or 0) <= instant]
    last = max(others, key=lambda row: (row.changed_at, row.revision), default=None)
    return last, max(writes, key=lambda row: (row.requested_at, row.revision), default=None)


def _state_row(value: Any, write: StoredHistoryRow | None, instant: int) -> tuple[Any, ...]:
    of_value = (None,) * 5
    if value is not None:
        origins = {"observation": "subscription", "registration": "auto_observation"}
        origin = origins.get(value.origin or "", value.origin)
        of_value = (value.value, value.content_type, value.changed_at, value.revision, origin)
    if write is None:
        return (*of_value, *(None,) * 8)
    start = (*of_value, write.value, write.content_type)
    if write.changed_at > instant:
        return (*start, 0, write.requested_at, write.requested_at, None, None, "app")
    return (*start, write.status, write.changed_at, write.requested_at, write.revision, write.category, "app")


def found_at(service: HistoryService, instant: int, *, named: bool = True, **selection: Any) -> list[tuple[Any, ...]]:
    """The state that the service returns, without the names of the devices."""
    with closing(service.open(HistorySelection(**selection), instant)) as opened:
        rows = [row for batch in opened.batches() for row in zip(*map(_plain, batch.columns), strict=True)]
    assert not named or all(name == f"ep-{device_id}" for device_id, name, *_ in rows)
    return [(device_id, *rest) for device_id, _, *rest in rows]


def expected(
    rows: Iterable[StoredHistoryRow], is_selected: Callable[[StoredHistoryRow], bool] = lambda _: True
) -> list[StoredHistoryRow]:
    """Return the naive result."""
    return sorted(filter(is_selected, rows), key=key_of)


def found(service: HistoryService, limit: int | None = None, **selection: Any) -> list[StoredHistoryRow]:
    """Return the rows that the service returns."""
    with closing(service.open(HistorySelection(**selection))) as opened:
        return list(islice(rows_of(opened.batches()), limit))


def tail(session: Session) -> list[StoredHistoryRow]:
    """Return the rows of the tail by revision, including compacted ones."""
    return list(rows_of(map(tail_batch, history.stored_tail(session, 0, 100))))


def rows_of(batches: Iterable[Any]) -> Iterator[StoredHistoryRow]:
    for batch in batches:
        assert batch.num_rows
        columns = [_plain(column) for column in batch.columns]
        yield from map(StoredHistoryRow._make, zip(*columns, strict=True))


def _plain(column: Any) -> list[Any]:
    if str(column.type).startswith("timestamp"):
        return [scalar.value for scalar in column]
    return list(column.to_pylist())


def position(row: StoredHistoryRow) -> Position:
    return Position(row.device_id, row.path, row.changed_at, row.revision)
