"""What can go wrong with a database, told to whom it concerns."""

from __future__ import annotations

import sqlite3

_STORAGE_CODES = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)


class DatabaseError(Exception):
    """The database cannot be used; the message says why and what to do."""


class StorageFailed(DatabaseError):
    """A change could not be stored, because the disk or the file does not take it; nothing of it was done."""


class TooMuchWaiting(DatabaseError):
    """A change was not taken, because too many wait for the disk already; nothing of it was done."""


def is_of_storage(error: BaseException) -> bool:
    """Whether the disk or the file is to blame, not what was asked of the database."""
    # The lowest byte is the kind of error, the others tell more of it.
    return isinstance(error, sqlite3.Error) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _STORAGE_CODES
