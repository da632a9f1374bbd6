"""The cost of reading a history: a day of a whole fleet, in which each resource was reported fifty times.

"Sealed" is the part that compaction has processed, 200,000 rows at a time; "archived" is the same day when it is over.
Everything runs in one process and one thread. The snapshot is the mirror's snapshot of the same fleet, not cached. The
rows of one resource are also read from the archive by pyarrow, as an analyst with access to the folder would do.

Time of the whole history: Parquet 45 %, sorting rows 35 %. Changes that helped: dictionaries without unused words (with
them, a row had 15 bytes and was read at half the rate), and merging only between two checkpoints. With a whole day in
one piece, one resource takes 13 ms, but the state at an instant takes 7 s, because it reads everything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread, get_native_id

import httpx
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from children import Server
from filling import Filled, fill
from history_day import DAY, add_day
from measuring import Figure, Samples, alternate, at_least, at_most, median, ratio
from run_settings import Run, get
from serving import mirror

from mirror_server.clock import ManualClock
from mirror_server.extensions.history.archive import Archive
from mirror_server.extensions.history.maintenance import Retention
from mirror_server.extensions.history.selection import HistorySelection
from mirror_server.extensions.history.service import HistoryService, OpenQuery
from mirror_server.extensions.snapshots.arrow import arrow_stream
from mirror_server.extensions.snapshots.service import SnapshotSelection, SnapshotService
from mirror_server.hooks import open_database
from mirror_server.service.devices import LruCache
from mirror_server.service.slow_reads import Slots
from mirror_server.store.database import Database
from mirror_server.store.devices import Condition

NAME = "history"


def measure(run: Run) -> Iterator[Figure]:
    filled = fill(run.folder / "past.db", device_count=run.scale.fleet, resource_count=run.scale.resources)
    day_at = (int(time.time() * 1000) // DAY - 1) * DAY
    pa.set_cpu_count(1)
    with closing(open_database(filled.url)) as database:
        count = add_day(database, filled.device_ids, filled.paths, day_at)
        past = _ReadHistory(run, filled, database, day_at)
        yield median(NAME, f"{count:,} rows into Arrow, sealed", past.rates(), "rows/s", at_least(1_000_000))
        past.archive()
        yield median(NAME, f"{count:,} rows into Arrow, archived", past.rates(), "rows/s", at_least(1_000_000))
        size = sum(path.stat().st_size for path in past.folder.rglob("*.parquet"))
        yield Figure(NAME, "a row in the archive", size / count, "bytes", at_most(6))
        one = alternate({"history": past.one_resource, "pyarrow": past.one_resource_by_pyarrow}, run.scale.rounds)
        yield ratio(
            NAME, "a day of one resource / by pyarrow from the archive", one, "history", "pyarrow", "s", at_most(3)
        )
        sides = {"at the end": past.as_of(DAY - 1), "before a checkpoint": past.as_of(DAY // 2), "now": past.snapshot}
        states = alternate(sides, run.scale.rounds)
        yield ratio(NAME, "the fleet as of the day's end / a snapshot", states, "at the end", "now", "s", at_most(2))
        what = "the fleet as of an instant before a checkpoint / a snapshot"
        yield ratio(NAME, what, states, "before a checkpoint", "now", "s", at_most(2))
    samples = with_a_reader(run, filled, past.folder)
    yield ratio(NAME, "E1 while the history is read / without", samples, "read", "alone", "/s", at_least(0.9))


class _ReadHistory:
    """A history that this process reads."""

    def __init__(self, run: Run, filled: Filled, database: Database, day_at: int) -> None:
        self.folder: Path = run.folder / "past-archive"
        self._run, self._filled, self._database, self._day_at = run, filled, database, day_at
        archive, self._clock = Archive(str(self.folder)), ManualClock(day_at + DAY - 1)
        self._service = HistoryService(database, self._clock, archive)
        self._keeper = Retention(
            database=database, clock=self._clock, service=self._service, archive=archive, keep_seconds=30 * 86_400
        )

    def archive(self) -> None:
        self._clock.advance(DAY)
        self._keeper.round()

    def rates(self) -> list[float]:
        return [_rate(lambda: self._service.open(HistorySelection())) for _ in range(self._run.scale.rounds)]

    def one_resource(self) -> float:
        conditions = (Condition("device_id", "IN", (self._filled.device_ids[0],)),)
        selection = HistorySelection(conditions=conditions, patterns=(self._filled.paths[0],))
        return _seconds(lambda: _count(self._service.open(selection)))

    def one_resource_by_pyarrow(self) -> float:
        def read() -> None:
            data = ds.dataset(self.folder, format="parquet", partitioning="hive")
            is_it = (pc.field("device_id") == self._filled.device_ids[0]) & (pc.field("path") == self._filled.paths[0])
            data.to_table(filter=is_it, use_threads=False)

        return _seconds(read)

    def as_of(self, milliseconds: int) -> Callable[[], float]:
        at = self._day_at + milliseconds
        return lambda: _seconds(lambda: _count(self._service.open(HistorySelection(), at)))

    def snapshot(self) -> float:
        def read() -> None:
            snapshots = SnapshotService(self._database, self._clock, Slots.of_downloads(share=1))
            with closing(snapshots.open("benchmark", SnapshotSelection())) as snapshot:
                for _ in arrow_stream(snapshot, "none", LruCache(), b"{}"):
                    pass

        return _seconds(read)


def with_a_reader(run: Run, filled: Filled, folder: Path) -> Samples:
    """Measure E1 on all cores, with and without a client that reads the entire history repeatedly."""
    requests = [get(f"/v3/devices/{device_id}/echo", filled.key) for device_id in filled.device_ids[:1000]]
    options = ("--keep-history", "30d", "--history-archive", str(folder))
    with mirror(run, filled, run.cores.two, *options) as server:

        def read() -> float:
            with _reading(server, filled.key):
                return run.rate(server, requests)

        return alternate({"read": read, "alone": lambda: run.rate(server, requests)}, run.scale.rounds)


@contextmanager
def _reading(server: Server, key: str) -> Iterator[None]:
    """Read the entire history repeatedly on a thread."""
    url = f"{server.url}/v3/device-echo/history"
    headers = {"Accept": "application/vnd.apache.arrow.stream", "Authorization": f"Bearer {key}"}
    is_over = Event()

    def read() -> None:
        # In practice the reader is another machine, so here it gets only the CPU time that the load generator leaves.
        os.setpriority(os.PRIO_PROCESS, get_native_id(), 19)
        while not is_over.is_set():
            with httpx.stream("GET", url, headers=headers, timeout=60) as response:
                for _ in response.raise_for_status().iter_raw():
                    if is_over.is_set():
                        return

    thread = Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _rate(open_past: Callable[[], OpenQuery]) -> float:
    began_at = time.perf_counter()
    count = _count(open_past())
    return count / (time.perf_counter() - began_at)


def _count(past: OpenQuery) -> int:
    with closing(past):
        return sum(batch.num_rows for batch in past.batches())


def _seconds(read: Callable[[], object]) -> float:
    began_at = time.perf_counter()
    read()
    return time.perf_counter() - began_at
