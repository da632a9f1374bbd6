"""A life of a history in a process of its own, to be killed: it tells what happens, and what of it is on disk.

Values are told and devices erased while the keeper seals, merges, archives and trims, without an end; a few days go by
in each second.
"""

from __future__ import annotations

import itertools
import random
import sys
import threading
from typing import Any

from histories import PATHS

from mirror_server.clock import ManualClock
from mirror_server.history import moving, parquet, writing
from mirror_server.history.archive import Archive
from mirror_server.history.keeper import Keeper
from mirror_server.history.service import HistoryService
from mirror_server.store import devices, history, maintenance, revisions
from mirror_server.store.database import Database
from mirror_server.store.devices import DeviceRow
from mirror_server.store.history import HistoryRow

_HOUR = 3_600_000
_TELLERS = 2


class Life:
    """What happens to a history, and the keeper beside it."""

    def __init__(self, url: str, folder: str, now: int, keep_seconds: float, seed: int) -> None:
        self._database, self._clock = Database(url), ManualClock(now)
        self._chance = random.Random(seed)
        archive = Archive(folder)
        self._keeper = Keeper(
            database=self._database,
            clock=self._clock,
            service=HistoryService(self._database, self._clock, archive),
            archive=archive,
            keep_seconds=keep_seconds,
            segment_rows=20,
        )
        self._numbers = itertools.count(seed * 1_000_000)
        # Who may tell without an end leaves the keeper no end either, with segments as small as these.
        self._left = threading.Semaphore(0)

    def go_on(self) -> None:
        """Until somebody kills it."""
        for number in range(_TELLERS):
            threading.Thread(target=self._tell, args=(f"device-{number}",), daemon=True).start()
        for number in itertools.count(1):
            self._say("look", self._clock.now())
            self._left.release(self._chance.randrange(1, 30))
            self._keeper.round()
            if self._keeper.failures:
                self._say("failed", self._keeper.failures)
            # Before the first hundred lines or so were said, whatever chance gives.
            if number % 3 == 0:
                self._erase()
            self._clock.advance(self._chance.choice([_HOUR, 5 * _HOUR]))

    def _tell(self, device_id: str) -> None:
        """Values of one device, one after the other, each said when it is on disk."""
        while self._left.acquire():
            self._tell_value(device_id, next(self._numbers))

    def _tell_value(self, device_id: str, number: int) -> None:
        late = self._chance.choice([0, 0, 0, _HOUR, 50 * _HOUR, -20 * _HOUR, 60 * 365 * 24 * _HOUR])

        def work(session: Any) -> int:
            now = self._clock.now()
            if devices.find(session, device_id) is None:
                devices.put(session, DeviceRow(device_id, f"ep-{device_id}", "", 1, 0, 60, now, now, now, now))
            revision = revisions.note_change(session, ())
            path = PATHS[number % len(PATHS)]
            row = HistoryRow(revision, device_id, None, path, now - late, now, "reported", "read", b"%d" % number)
            history.add(session, [row._replace(content_type="text/plain")])
            return now

        now = self._database.write(work)
        self._say("told", device_id, number, now)

    def _erase(self) -> None:
        """A device that came, told something, and has its history erased."""
        device_id = f"guest-{next(self._numbers)}"
        for _ in range(3):
            self._tell_value(device_id, next(self._numbers))
        if self._chance.random() < 0.5:
            self._keeper.round()
        self._database.write(lambda session: maintenance.erase_device(session, device_id))
        self._say("erased", device_id)

    def _say(self, *words: object) -> None:
        sys.stdout.write(" ".join(map(str, words)) + "\n")
        sys.stdout.flush()


def main(url: str, folder: str, now: str, keep_seconds: str, seed: str) -> None:
    parquet._ROWS_OF_A_GROUP, writing._ROWS_OF_A_BLOCK, moving._ROWS_OF_A_FILE = 5, 10, 15
    Life(url, folder, int(now), float(keep_seconds), int(seed)).go_on()


if __name__ == "__main__":
    main(*sys.argv[1:])
