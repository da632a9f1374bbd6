"""Looks after a history once, in a process of its own, and prints a line after each thing it has stored or written."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mirror_server.clock import ManualClock
from mirror_server.history import moving, parquet, writing
from mirror_server.history.archive import Archive
from mirror_server.history.keeper import Keeper
from mirror_server.history.service import HistoryService
from mirror_server.store.database import Database


class TellingDatabase(Database):
    def insist(self, work: Any, *, by_leader: bool = True) -> Any:
        future = super().insist(work, by_leader=by_leader)
        future.add_done_callback(lambda _: print("stored", flush=True))
        return future


class TellingArchive(Archive):
    @contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        print("writing", flush=True)
        with super().writing(name) as file:
            yield file
        print("written", flush=True)


def main(url: str, folder: str, now: str, keep_seconds: str) -> None:
    parquet._ROWS_OF_A_GROUP, writing._ROWS_OF_A_BLOCK, moving._ROWS_OF_A_FILE = 5, 10, 15
    database, clock, archive = TellingDatabase(url), ManualClock(int(now)), TellingArchive(folder)
    keeper = Keeper(
        database=database,
        clock=clock,
        service=HistoryService(database, clock, archive),
        archive=archive,
        keep_seconds=float(keep_seconds),
        segment_rows=20,
    )
    keeper.round()
    print("failed" if keeper.failures else "done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
