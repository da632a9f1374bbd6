"""The file of SQLite's write-ahead log, kept longer than what is in it.

A commit at the end of a file makes it longer, which file systems note in a journal of their own: to sync it waits for
that journal, and so for whatever other programs write to the disk. A commit into a part that is there waits for itself
alone. On ext4 the one in a hundred that took longest took a third of the time, and half of them two thirds.
"""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
from io import FileIO
from pathlib import Path

_log = logging.getLogger(__name__)

_SMALL_BYTES = 128 * 1024
_TIMES_AS_LONG = 16
_MOST_AT_ONCE_BYTES = 8 * 1024 * 1024
_PIECE_BYTES = 1024 * 1024
_ROOM_FOR = 10


class LogFile:
    """Makes the file longer, ahead of the commits.

    Args:
        path: That of the database.
        writing: The connection that writes.
        largest_bytes: As long as the file becomes.
    """

    def __init__(self, path: Path, writing: sqlite3.Connection, *, largest_bytes: int) -> None:
        self._path = path.with_name(f"{path.name}-wal")
        self._writing = writing
        self._largest_bytes = largest_bytes
        self._known_bytes = 0

    def look(self) -> None:
        """Make the file longer if its end was reached since this was called last; not within a transaction.

        It becomes many times as long, by 8 MiB at most, as each time holds up who comes next: a database that is opened
        for a moment has no use of it. Where that cannot be done, or would take the room that others need, SQLite makes
        it longer itself.
        """
        try:
            size = self._path.stat().st_size
            if size in (self._known_bytes, 0):
                return
            self._known_bytes = size
            more = min((_TIMES_AS_LONG - 1) * size, _MOST_AT_ONCE_BYTES, self._largest_bytes - size)
            if size < _SMALL_BYTES or more <= 0 or shutil.disk_usage(self._path).free < _ROOM_FOR * more:
                return
            # Nobody else, in this process or another, writes to the end meanwhile.
            self._writing.execute("BEGIN IMMEDIATE")
            try:
                self._known_bytes = _lengthened(self._path, more)
            finally:
                self._writing.execute("ROLLBACK")
        except (OSError, sqlite3.Error):
            _log.debug("the log of the database is not kept longer", exc_info=True)


def _lengthened(path: Path, more: int) -> int:
    """How long a file is to which so many zeros were added; they belong to no commit, as no checksum fits."""
    with FileIO(path, "r+") as file:
        size = file.seek(0, os.SEEK_END)
        try:
            for begin in range(0, more, _PIECE_BYTES):
                file.write(bytes(min(_PIECE_BYTES, more - begin)))
            os.fsync(file)
        except OSError:
            file.truncate(size)
            raise
        return file.tell()
