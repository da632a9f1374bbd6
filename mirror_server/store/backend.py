"""The interface of a kind of database: its URL, its operations and its errors.

``LOCATIONS`` contains the supported kinds by the scheme of the URL. A :class:`Location` opens a :class:`Backend`. All
other modules of the store are the same for every kind. Every command imports this module, so it must not import slow
modules.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from mirror_server.core.timestamps import Instant
    from mirror_server.store.schema import Branch
    from mirror_server.store.session import Session

T = TypeVar("T")


DEFAULT_URL = "sqlite:///mirror.db"
_SQLITE = "sqlite:///"

LOCATIONS = {"sqlite": "mirror_server.store.sqlite.backend:SqliteLocation"}
"""The class of each kind of :class:`~mirror_server.store.backend.Location`, by the scheme of its URLs.

A class is imported when it is used. Extensions add their classes; see :func:`mirror_server.hooks.locations`.
"""


def path_of(url: str) -> Path:
    """Return the path of the file that a URL names.

    Raises:
        DatabaseError: The URL does not name a file.
    """
    # Each connection of the server would open a separate database in memory.
    if not url.startswith(_SQLITE) or url in {_SQLITE, f"{_SQLITE}:memory:"}:
        raise no_url(url)
    return Path(url.removeprefix(_SQLITE))


def no_url(url: str) -> DatabaseError:
    """Return the error for a URL that this server cannot open."""
    if url.startswith(("postgresql://", "postgres://")):
        return DatabaseError(
            f"cannot use the database {redacted(url)}: the extension postgresql is missing; reinstall it, or"
            f" use a SQLite file, such as {DEFAULT_URL}"
        )
    return DatabaseError(
        f"cannot use the database {url!r}: it must have the form sqlite:///FILE, such as {DEFAULT_URL}, or"
        " postgresql://USER@HOST/NAME"
    )


def redacted(url: str) -> str:
    """Return the URL without its password."""
    # A URL can contain a password before the host or in the query string.
    return re.sub(r"(?<=://)([^/?@:]*):[^/?]*@", r"\1@", re.sub(r"([?&]password=)[^&]*", r"\1...", url))


class DatabaseError(Exception):
    """The database cannot be used. The message contains the reason and a fix."""


class AlreadyServed(DatabaseError):
    """Another process serves the database, and only one process can serve it."""


class StorageFailed(DatabaseError):
    """A change could not be stored because of the disk or the file. It was rolled back."""


class NotLeader(DatabaseError):
    """A change was not stored, because another process became the leader and continues from the stored state."""


class TooMuchWaiting(DatabaseError):
    """A change was rejected before it started, because too many changes are waiting to be stored."""


MOST_EXAMPLES = 20
"""The maximum number of examples in a :class:`Violation`."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A kind of inconsistency in a database, with the number of its occurrences and some examples."""

    kind: str
    count: int
    examples: Sequence[str]

    def __str__(self) -> str:
        """Return a line for the kind of inconsistency, and a line for each example."""
        left = self.count - len(self.examples)
        more = [f"  and {left:,} more"] if left else []
        return "\n".join([f"{self.kind}: {self.count:,}", *(f"  {example}" for example in self.examples), *more])


class Backend(Protocol):
    """An open database of one kind. Many threads may read it, but only one thread writes."""

    process_id: str
    """The identifier of this process among the processes that use the database."""

    is_shared: bool
    """Whether other processes may serve the database at the same time."""

    @property
    def writing(self) -> Session:
        """The session of the writer thread. It is used between ``begin`` and ``commit`` or ``undo``."""

    @property
    def is_leader(self) -> bool:
        """Whether this process is the leader, as seen by the open transaction.

        Always true if no other process can serve the database.
        """

    def begin(self, conflict_keys: Collection[str] | None) -> None:
        """Begin a write transaction.

        When this method returns, no other open transaction on the database has any of these conflict keys. With
        ``None``, no other transaction is open at all. See :meth:`mirror_server.store.writer.Writer.enqueue`.
        """

    def begin_work(self) -> None:
        """Begin a part of the transaction that can be rolled back separately.

        The part ends when the next part begins.
        """

    def undo_work(self) -> None:
        """Roll back the current part of the transaction."""

    def commit(self) -> None:
        """Commit the transaction to disk."""

    def undo(self) -> None:
        """Roll back the transaction, if one is open."""

    def is_storage_error(self, error: BaseException) -> bool:
        """Return whether the disk, the file or the connection caused an error, and not the SQL statement."""

    def read(self, *, with_revision: bool = False) -> AbstractContextManager[Session]:
        """Return a session that sees one state of the database while it is open.

        :meth:`Session.last_revision` is available only if ``with_revision`` is set.
        """

    def version(self) -> Hashable:
        """Return a token that changes with every commit of any process."""

    def query(self, statement: Callable[[Session], T]) -> T:
        """Run one read-only statement outside a transaction."""

    def purge(self) -> bool:
        """Remove deleted data from the files, as far as possible while other processes use the database.

        Returns:
            False if a long read prevented the removal.
        """

    def damage(self, session: Session) -> list[Violation]:
        """Return the results of the database's own integrity check."""

    def backup(self, path: Path) -> None:
        """Copy the database, in its state at one time, into a new file.

        Raises:
            DatabaseError: The file cannot be written, or this kind of database has its own backup tools.
        """

    def is_served(self) -> bool:
        """Return whether any process, including this one, serves the database."""

    def hurry(self) -> None:
        """Stop waiting for events that may never happen, because the program ends."""

    def close(self) -> None:
        """Close all connections."""


class Location(ABC):
    """A database that is identified by a URL and is not open yet.

    The default methods are for a database that is not a file and that several processes may serve.

    Args:
        url: The URL of the database.

    Raises:
        DatabaseError: The URL does not have the form that this kind of database requires.
    """

    is_file = False
    """Whether the database is a file on this machine."""

    coordinator: str | None = None
    """The class of the coordinator, as ``module:name``, if several processes may serve the database."""

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    def open(self, branches: Sequence[Branch], *, must_exist: bool, keep_schema: bool) -> Backend:
        """Open the database. See :class:`mirror_server.store.database.Database`."""

    def file(self) -> Path:
        """Return the path of the database file.

        Raises:
            DatabaseError: The database is not a file.
        """
        raise DatabaseError("this command supports only SQLite databases; use the tools of your database instead")

    def begin_serving(self) -> Callable[[], None]:
        """Lock the database for this process if only one process may serve it.

        Return a function that releases the lock.

        Raises:
            AlreadyServed: Another process serves the database.
            DatabaseError: The lock cannot be checked.
        """
        return lambda: None

    def alone(self) -> AbstractContextManager[bool]:
        """Return a context manager during which no server can start on the database.

        Its value is whether no server runs on the database. It is false if this cannot be determined.
        """
        return nullcontext(enter_result=False)

    def damage(self) -> list[Violation]:
        """Return the damage to the database files that prevents opening the database.

        Raises:
            DatabaseError: The files cannot be read for another reason.
        """
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The tables of an extension. All functions are called in a transaction.

    Attributes:
        branch: The migrations that create the tables.
        violations: Kinds of inconsistencies, each with a statement that returns one row per occurrence.
        erase: A function that deletes all rows of a device. Its arguments are the session, the id of the device and
            the endpoint name, which is ``None`` for an unknown device. It returns the number of deleted rows by their
            meaning. The row of the device itself is deleted afterwards.
        end_application: A function that deletes the ongoing work for an application, by the id of the application.
        newest_instant: A function that returns the time of the newest stored event, or ``None`` if there is none.
    """

    branch: Branch
    violations: Mapping[str, str] = field(default_factory=dict)
    erase: Callable[[Session, str, str | None], Mapping[str, int]] | None = None
    end_application: Callable[[Session, str], object] | None = None
    newest_instant: Callable[[Session], Instant | None] | None = None
