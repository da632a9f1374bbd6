"""Checkpoints, which copy the pages of the write-ahead log to the database file.

SQLite itself makes a checkpoint in a commit. In a large fleet, all changes then wait until thousands of scattered pages
are on disk. This module copies them on another thread, while the writer continues. SQLite does not sync the file in
such a checkpoint if the writer has committed meanwhile, so this module does. The last checkpoint, after which SQLite
reuses the log from its beginning, must run between two commits. By then few pages are left.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from mirror_server.store.backend import StorageFailed

_log = logging.getLogger(__name__)

# A page that changes often is copied to the database file only once for many changes.
_PAGES = 8000
_MOST_CHANGES = 32 * _PAGES
_FEW_PAGES = 250
_MOST_PASSES = 6

MOST_PAGES = 4 * _PAGES
"""With this many pages in the log, the writer makes a complete checkpoint itself."""

_files: dict[Path, int] = {}
"""Descriptors to sync database files.

They are never closed, because that would release all locks of the process on the file, also those of SQLite.
"""


class Checkpoints:
    """Makes checkpoints on another thread, which starts when the first one is due.

    Args:
        path: The database file.
        writer: The connection of the writer.
        connect: A function that opens another connection.
    """

    def __init__(self, path: Path, writer: sqlite3.Connection, connect: Callable[[], sqlite3.Connection]) -> None:
        self._path = path
        self._writer = writer
        self._connect = connect
        self._thread: threading.Thread | None = None
        self._wake_up = threading.Event()
        self._is_closing = False
        self._is_running = False
        self._is_last_due = False
        self._last_at = 0
        self._changes = self._earlier_pages = 0
        # SQLite reports the size of the log only at a checkpoint, so the changed rows show when the next one is due.
        self._due_changes = float(_PAGES)

    def committed(self) -> None:
        """Start a checkpoint if one is due. The writer calls this after each commit."""
        changes = self._writer.total_changes - self._last_at
        if self._is_last_due:
            self._last_at += changes
            # The commit itself has succeeded.
            with suppress(sqlite3.Error):
                pages, copied = _checkpoint(self._writer)
                # If a reader needs some of the pages, the log continues to grow.
                self._earlier_pages = 0 if copied == pages else pages
            self._is_last_due = self._is_running = False
        elif not self._is_running and changes >= self._due_changes:
            self._is_running = True
            self._changes = changes
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)
                self._thread.start()
            self._wake_up.set()

    def close(self) -> None:
        """Stop the thread."""
        self._is_closing = True
        self._wake_up.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._wake_up.wait()
            self._wake_up.clear()
            if self._is_closing:
                return
            try:
                self._copy()
            except (sqlite3.Error, OSError, StorageFailed) as error:
                _log.debug("the writer copies the pages of the log itself: %s", error)
            self._is_last_due = True

    def _copy(self) -> None:
        """Copy the pages in passes. Each pass has fewer pages, which the writer has added during the previous one."""
        file = _files.get(self._path)
        if file is None:
            file = _files[self._path] = os.open(self._path, os.O_RDONLY)
        with closing(self._connect()) as connection:
            pages, copied = _checkpoint(connection)
            new = max(pages - self._earlier_pages, 1)
            self._due_changes = min(_PAGES * self._changes / new, _MOST_CHANGES)
            before = 0
            for _ in range(_MOST_PASSES):
                os.fsync(file)
                if copied - before < _FEW_PAGES:
                    return
                before = copied
                _, copied = _checkpoint(connection)


def _checkpoint(connection: sqlite3.Connection) -> tuple[int, int]:
    """Copy as many pages as possible without waiting. Return the number of pages in the log and how many are copied."""
    _, pages, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    return pages, copied
