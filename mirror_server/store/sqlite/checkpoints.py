"""Bringing what was committed from the write-ahead log of SQLite into the database file."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing

from mirror_server.store.backend import StorageFailed

_log = logging.getLogger(__name__)

_CHANGES_A_CHECKPOINT = 8000
LARGEST_LOG_PAGES = 12_000


class Checkpoints:
    """Does so now and then, beside the writing, which need not wait for the many places of the file.

    Seldom enough that a page which changes again and again is brought over once for many changes. While there is no
    end of writing the log never is empty, and only then begins at its front again: so at 50 MB the one who writes
    brings over what is left, before it goes on.

    Args:
        writing: The connection that writes.
        connect: Makes another one.
    """

    def __init__(self, writing: sqlite3.Connection, connect: Callable[[], sqlite3.Connection]) -> None:
        writing.execute(f"PRAGMA wal_autocheckpoint = {LARGEST_LOG_PAGES}")
        self._writing = writing
        self._connect = connect
        self._due_at = _CHANGES_A_CHECKPOINT
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """Begin a checkpoint if much was changed since the last one began, and that one is done."""
        changes = self._writing.total_changes
        if changes < self._due_at or (self._thread is not None and self._thread.is_alive()):
            return
        self._due_at = changes + _CHANGES_A_CHECKPOINT
        thread = threading.Thread(target=self._run, name="checkpoint", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # What was just committed must not look as if it had failed; the one who writes does it in the end.
            _log.debug("no thread for a checkpoint", exc_info=True)
        else:
            self._thread = thread

    def close(self) -> None:
        """Wait for the checkpoint that is under way."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            with closing(self._connect()) as connection:
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        except (sqlite3.Error, StorageFailed):
            # What is wrong with the disk, the one who writes is told as well.
            _log.debug("a checkpoint failed", exc_info=True)
