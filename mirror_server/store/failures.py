"""What can go wrong with a database, told to whom it concerns."""

from __future__ import annotations


class DatabaseError(Exception):
    """The database cannot be used; the message says why and what to do."""


class AlreadyServed(DatabaseError):
    """Another process serves the database, which only one can."""


class StorageFailed(DatabaseError):
    """A change could not be stored, because the disk or the file does not take it; nothing of it was done."""


class NotLeader(DatabaseError):
    """A change was not stored, because another process leads now and goes on from what is stored."""


class TooMuchWaiting(DatabaseError):
    """A change was not taken, because too many wait for the disk already; nothing of it was done."""


def reason_of(error: BaseException) -> str:
    """Why the connection failed, in a line for the operator."""
    cause = error.__cause__ if isinstance(error, StorageFailed) else error
    return next(iter(str(cause).splitlines()), "no answer")
