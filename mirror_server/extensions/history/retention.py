"""Maintains the history on a thread: seals, merges, archives, trims and erases."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pyarrow as pa

from mirror_server.clock import Clock
from mirror_server.core.instants import Instant
from mirror_server.extensions.history.archive import Archive
from mirror_server.extensions.history.compaction import ROWS_OF_A_SEGMENT, Compaction
from mirror_server.extensions.history.erasing import Erasing
from mirror_server.extensions.history.offload import Offload, Trimming
from mirror_server.extensions.history.service import HistoryService
from mirror_server.hooks import extends
from mirror_server.store.backend import NotLeader, StorageFailed
from mirror_server.store.database import Database

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 5
_LAST_SECONDS = 3
_LOOK_FOR_LEFT = 3_600_000
"""Interval between searches for files that do not count: an earlier leader may have written some since."""


class Retention:
    """Maintains the history every few seconds on a thread of its own, while this process leads.

    Each step is done or not. One that fails is repeated in the next round, and the others go on.

    Args:
        database: Where the history is.
        clock: Domain time.
        service: Opens the history.
        archive: Where days that are over go; ``None`` to leave them in the database.
        keep_seconds: How long rows are kept.
        segment_rows: How many rows of the tail make a segment.

    Attributes:
        failures: The steps that failed, and why.
    """

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        service: HistoryService,
        archive: Archive | None,
        keep_seconds: float,
        segment_rows: int = ROWS_OF_A_SEGMENT,
    ) -> None:
        self._clock = clock
        self._service = service
        self._compaction = Compaction(database, segment_rows)
        self._offload = None if archive is None else Offload(database, archive)
        self._trimming = Trimming(database, keep_seconds)
        self._erasing = Erasing(database, archive, lambda: self._trimmed)
        self._is_archive_clean = False
        self._archive_looked_at = clock.now()
        self._trimmed: dict[str, frozenset[object]] = {}
        self.failures: dict[str, str] = {}
        self._wanted = threading.Event()
        self._is_ending = threading.Event()
        self._looking = threading.Lock()
        self._thread: threading.Thread | None = None

    @extends(specname="lead")
    def start(self) -> None:
        """Start the thread."""
        # One that was stopped may be in the middle of a step still.
        self._is_ending = threading.Event()
        self._is_archive_clean = False
        self._thread = threading.Thread(target=self._run, args=(self._is_ending,), name="history", daemon=True)
        self._thread.start()
        self.wake()

    @extends(specname="clock_advanced")
    def wake(self) -> None:
        """Start the next round soon."""
        self._wanted.set()

    @extends(specname="resign")
    def stop(self) -> None:
        """Stop the thread; the step that is under way may go on."""
        self._is_ending.set()
        self._wanted.set()
        if self._thread is not None:
            # It may wait for a database that does not answer; what it wants to store is dropped when that is closed.
            self._thread.join(_LAST_SECONDS)

    def round(self) -> None:
        """Take all steps that are due, on one thread at a time; a failure is logged once.

        Raises:
            NotLeader: Another process leads now.
        """
        with self._looking:
            now, sure_now = self._clock.now(), self._clock.sure_now()
            base_at = self._trimming.base_at(sure_now)
            self._try("begin a history", lambda: self._compaction.begin(now, sure_now))
            # What a killed process left may have rows of an erased device.
            self._try("tidy up the history", self._compaction.delete_left)
            self._try(
                "compress new rows of the history", lambda: self._again(lambda: self._compaction.seal(now, base_at))
            )
            self._try("delete what was erased from the history", self._erasing.erase)
            self._try("make a checkpoint of the history", lambda: self._checkpoint(now))
            self._try("merge parts of the history", lambda: self._again(lambda: self._compaction.merge(now)))
            self._try("archive the history", lambda: self._move(now))
            self._try("trim the history", lambda: self._trim(sure_now))
            self._try("tidy up the history", self._compaction.delete_left)

    def _checkpoint(self, now: Instant) -> None:
        with self._service.reading() as reading:
            self._compaction.checkpoint(reading, now)

    def _move(self, now: Instant) -> None:
        if self._offload is None:
            return
        if not self._is_archive_clean or now >= self._archive_looked_at + _LOOK_FOR_LEFT:
            open_now = self._service.readers()
            self._trimmed = {name: readers & open_now for name, readers in self._trimmed.items() if readers & open_now}
            self._offload.prepare()
            self._offload.delete_unknown(self._trimmed)
            self._archive_looked_at = now
        moving, self._is_archive_clean = self._offload, False
        self._again(lambda: moving.move(now))
        self._is_archive_clean = not self._trimmed

    def _trim(self, now: Instant) -> None:
        with self._service.reading() as reading:
            names = self._trimming.trim(reading, now)
        if names:
            # They are still read by those who have the history open.
            self._trimmed |= dict.fromkeys(names, self._service.readers())
            self._is_archive_clean = False

    def _again(self, step: Callable[[], bool]) -> None:
        """Repeat a step until there is nothing left to do."""
        while not self._is_ending.is_set() and step():
            pass

    def _try(self, what: str, step: Callable[[], object]) -> None:
        if self._is_ending.is_set():
            return
        try:
            step()
        except NotLeader:
            raise
        except (OSError, pa.ArrowException, StorageFailed) as error:
            if self.failures.get(what) != str(error):
                _log.error("cannot %s (%s); trying again until it can be done", what, error)
            self.failures[what] = str(error)
        else:
            if self.failures.pop(what, None) is not None:
                _log.warning("could %s again", what)

    def _run(self, is_ending: threading.Event) -> None:
        while True:
            # Also what another process erased is found, and with a clock that stands still.
            self._wanted.wait(_LOOK_SECONDS)
            if is_ending.is_set():
                return
            self._wanted.clear()
            try:
                self.round()
            except NotLeader:
                return
            except Exception:
                _log.exception("the history could not be looked after")
