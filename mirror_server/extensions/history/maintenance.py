"""Maintains the history on a separate thread. It compacts, merges, archives, trims and erases rows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pyarrow as pa

from mirror_server.clock import Clock
from mirror_server.core.timestamps import Instant
from mirror_server.extensions.history.archive import Archive
from mirror_server.extensions.history.compaction import ROWS_OF_A_SEGMENT, Compaction
from mirror_server.extensions.history.eraser import HistoryEraser
from mirror_server.extensions.history.offload import Offload, Trimmer
from mirror_server.extensions.history.service import HistoryService
from mirror_server.extensions.history.store import segments
from mirror_server.hooks import extends
from mirror_server.store.backend import NotLeader, StorageFailed
from mirror_server.store.database import Database

_log = logging.getLogger(__name__)

_ROUND_SECONDS = 5
_ERASED_SECONDS = 1
_LAST_SECONDS = 3
_CLEANUP_INTERVAL = 3_600_000
"""The interval between searches for invalid files in ms. A former leader may have written such files meanwhile."""


class Retention:
    """Maintains the history every few seconds on a separate thread, while this process is the leader.

    A task either completes or changes nothing. If a task fails, it is retried in the next round, and the other tasks
    continue.

    Args:
        database: The database of the history.
        clock: The clock of the server.
        service: The service that opens the history.
        archive: The archive for completed days, or ``None`` to leave these days in the database.
        keep_seconds: The retention period.
        segment_rows: The maximum number of rows in a segment.

    Attributes:
        failures: The errors of failed tasks, by task.
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
        self._database = database
        self._offload = None if archive is None else Offload(database, archive)
        self._trimming = Trimmer(database, keep_seconds)
        self._erasing = HistoryEraser(database, archive, lambda: self._trimmed)
        self._is_archive_clean = False
        self._archive_checked_at = clock.now()
        self._trimmed: dict[str, frozenset[object]] = {}
        self.failures: dict[str, str] = {}
        self._wake_up = threading.Event()
        self._is_ending = threading.Event()
        self._round_lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @extends(specname="lead")
    def start(self) -> None:
        """Start the thread that maintains the history."""
        # The previous thread may still be in the middle of a task after it was stopped, so it keeps its own event.
        self._is_ending = threading.Event()
        self._is_archive_clean = False
        self._thread = threading.Thread(target=self._run, args=(self._is_ending,), name="history", daemon=True)
        self._thread.start()
        self.wake()

    @extends(specname="clock_advanced")
    def wake(self) -> None:
        """Start the next round immediately after the current one, without waiting."""
        self._wake_up.set()

    @extends(specname="resign")
    def stop(self) -> None:
        """Stop the thread. A task that is running may continue for a while."""
        self._is_ending.set()
        self._wake_up.set()
        if self._thread is not None:
            # The thread may wait for a database that does not respond. Its writes are dropped when the database is
            # closed.
            self._thread.join(_LAST_SECONDS)

    def round(self) -> None:
        """Run all tasks once. A failure that repeats is logged only once.

        If several threads call this, they run one after another.

        Raises:
            NotLeader: Another process is the leader now.
        """
        with self._round_lock:
            now, steady_now = self._clock.now(), self._clock.steady_now()
            base_at = self._trimming.base_at(steady_now)
            self._try("start a history", lambda: self._compaction.begin(now, steady_now))
            # Contents that were left by a killed process may have rows of an erased device.
            self._try("delete unused parts of the history", self._compaction.delete_left)
            self._try(
                "compress new rows of the history", lambda: self._repeat(lambda: self._compaction.compact(now, base_at))
            )
            self._try("delete erased rows from the history", self._erasing.erase)
            self._try("make a checkpoint of the history", lambda: self._checkpoint(now))
            self._try("merge parts of the history", lambda: self._repeat(lambda: self._compaction.merge(now)))
            self._try("archive the history", lambda: self._move(now))
            self._try("trim the history", lambda: self._trim(steady_now))
            self._try("delete unused parts of the history", self._compaction.delete_left)

    def _checkpoint(self, now: Instant) -> None:
        with self._service.reading() as reading:
            self._compaction.checkpoint(reading, now)

    def _move(self, now: Instant) -> None:
        if self._offload is None:
            return
        if not self._is_archive_clean or now >= self._archive_checked_at + _CLEANUP_INTERVAL:
            open_now = self._service.readers()
            self._trimmed = {name: readers & open_now for name, readers in self._trimmed.items() if readers & open_now}
            self._offload.prepare()
            self._offload.delete_unknown(self._trimmed)
            self._archive_checked_at = now
        offload, self._is_archive_clean = self._offload, False
        self._repeat(lambda: offload.move(now))
        self._is_archive_clean = not self._trimmed

    def _trim(self, now: Instant) -> None:
        with self._service.reading() as reading:
            names = self._trimming.trim(reading, now)
        if names:
            # Queries that are open now still read these files.
            self._trimmed |= dict.fromkeys(names, self._service.readers())
            self._is_archive_clean = False

    def _repeat(self, task: Callable[[], bool]) -> None:
        """Repeat a task until there is nothing left to do."""
        while not self._is_ending.is_set() and task():
            pass

    def _try(self, action: str, task: Callable[[], object]) -> None:
        if self._is_ending.is_set():
            return
        try:
            task()
        except NotLeader:
            raise
        except (OSError, pa.ArrowException, StorageFailed) as error:
            if self.failures.get(action) != str(error):
                _log.error("cannot %s: %s; retrying until it succeeds", action, error)
            self.failures[action] = str(error)
        else:
            if self.failures.pop(action, None) is not None:
                _log.warning("can %s again", action)

    def _is_due(self, end_at: float) -> bool:
        """Return whether the next round starts: at this time, or early if another process has erased a device."""
        if time.monotonic() >= end_at:
            return True
        try:
            return not self.failures and bool(self._database.query(segments.erasures))
        except StorageFailed:
            return False

    def _run(self, is_ending: threading.Event) -> None:
        end_at = time.monotonic() + _ROUND_SECONDS
        while True:
            # This also finds devices that another process has erased, so it does not need a moving clock.
            is_awake = self._wake_up.wait(min(_ROUND_SECONDS, _ERASED_SECONDS))
            if is_ending.is_set():
                return
            try:
                if is_awake:
                    self._wake_up.clear()
                elif not self._is_due(end_at):
                    continue
                end_at = time.monotonic() + _ROUND_SECONDS
                self.round()
            except NotLeader:
                return
            except Exception:
                _log.exception("a round of history maintenance failed; retrying")
