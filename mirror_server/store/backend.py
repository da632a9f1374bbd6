"""The interface of a kind of database: its URL, its operations and its errors.

``LOCATIONS`` has the kinds, by the scheme of the URL. A :class:`Location` opens a :class:`Backend`; the rest of the
store is the same for every kind. Every command loads this module, so it imports nothing slow.
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
"""The class of :class:`~mirror_server.store.backend.Location` by the scheme of a URL, imported when it is used.

Extensions add theirs, see :func:`mirror_server.hooks.locations`.
"""


def path_of(url: str) -> Path:
    """Return the file of a URL.

    Raises:
        DatabaseError: The URL is not the URL of a file.
    """
    # A database in memory would be a separate one for each connection of the server.
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
    # A password can be in the part before the host, or in the query.
    return re.sub(r"(?<=://)([^/?@:]*):[^/?]*@", r"\1@", re.sub(r"([?&]password=)[^&]*", r"\1...", url))


class DatabaseError(Exception):
    """The database cannot be used; the message says why and what to do."""


class AlreadyServed(DatabaseError):
    """Another process serves the database, and only one can."""


class StorageFailed(DatabaseError):
    """A change could not be stored because of the disk or the file. It was rolled back."""


class NotLeader(DatabaseError):
    """A change was not stored, because another process is the leader now and continues from the stored state."""


class TooMuchWaiting(DatabaseError):
    """A change was rejected before it started, because too many others wait to be stored."""


MOST_EXAMPLES = 20
"""The maximum number of examples of a kind of violation."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One kind of inconsistency in a database: how often it occurs, and where the first occurrences are."""

    kind: str
    count: int
    examples: Sequence[str]

    def __str__(self) -> str:
        """Return a line for the kind, and one for each example."""
        left = self.count - len(self.examples)
        more = [f"  and {left:,} more"] if left else []
        return "\n".join([f"{self.kind}: {self.count:,}", *(f"  {example}" for example in self.examples), *more])


class Backend(Protocol):
    """An open database of one kind. Many threads read, one thread writes."""

    process_id: str
    """Identifies this process among those on the database."""

    is_shared: bool
    """Whether other processes may serve the database too."""

    @property
    def writing(self) -> Session:
        """The session of the writing thread, between ``begin`` and ``commit`` or ``undo``."""

    @property
    def is_leader(self) -> bool:
        """Whether this process is the leader in the open transaction. Always true if no other process can serve it."""

    def begin(self, conflict_keys: Collection[str] | None) -> None:
        """Begin a write transaction.

        When this returns, no other open transaction on the database has a key in common with this one. With ``None``
        there is no other at all. See :meth:`mirror_server.store.writer.Writer.enqueue`.
        """

    def begin_work(self) -> None:
        """Begin a part of the transaction that can be rolled back alone, until the next part begins."""

    def undo_work(self) -> None:
        """Roll back the current part."""

    def commit(self) -> None:
        """Commit the transaction to disk."""

    def undo(self) -> None:
        """Roll back the transaction, if there still is one."""

    def is_storage_error(self, error: BaseException) -> bool:
        """Whether the disk, the file or the connection caused an error, and not the statement."""

    def read(self, *, with_revision: bool = False) -> AbstractContextManager[Session]:
        """Return a session that sees one state of the database while it is open.

        :meth:`Session.last_revision` is available only with ``with_revision``.
        """

    def version(self) -> Hashable:
        """Return a token that changes with every commit of any process."""

    def query(self, statement: Callable[[Session], T]) -> T:
        """Run one read-only statement outside a transaction."""

    def purge(self) -> bool:
        """Remove deleted data from the files, as far as possible while others use the database.

        Returns:
            False if a long read prevented it.
        """

    def damage(self, session: Session) -> list[Violation]:
        """Return the results of the database's own integrity check."""

    def backup(self, path: Path) -> None:
        """Copy the database, as of one instant, into a new file.

        Raises:
            DatabaseError: The file cannot be written, or this kind of database has its own backup tools.
        """

    def is_served(self) -> bool:
        """Whether any process, including this one, serves the database."""

    def hurry(self) -> None:
        """Stop waiting for anything that may never happen, because the program ends."""

    def close(self) -> None:
        """Close all connections."""


class Location(ABC):
    """A database that is identified by a URL and not open yet.

    By default it is not a file, and several processes may serve it.

    Args:
        url: The URL.

    Raises:
        DatabaseError: The URL does not have the form of its kind.
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
        """Return the file.

        Raises:
            DatabaseError: The database is not a file.
        """
        raise DatabaseError("only SQLite files support this")

    def begin_serving(self) -> Callable[[], None]:
        """Lock it for this process if only one may serve it. Return a function that releases the lock.

        Raises:
            AlreadyServed: Another process serves the database.
            DatabaseError: The lock cannot be checked.
        """
        return lambda: None

    def alone(self) -> AbstractContextManager[bool]:
        """Prevent servers from starting on the database. Return whether none runs; false if this is not known."""
        return nullcontext(enter_result=False)

    def damage(self) -> list[Violation]:
        """Return the damage of its files that prevents opening it.

        Raises:
            DatabaseError: The files cannot be read for another reason.
        """
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The tables of an extension. All functions are called in a transaction.

    Attributes:
        branch: The migrations that create the tables.
        violations: Kinds of inconsistencies, each with a statement that returns a row per occurrence.
        erase: Deletes all rows of a device, by its id and its endpoint name (``None`` for an unknown device). Returns
            the number of rows, by their meaning. The device itself is deleted afterwards.
        end_application: Deletes the ongoing work for an application, by its id.
        newest_instant: Returns the instant of the newest stored event, or ``None`` if there is none.
    """

    branch: Branch
    violations: Mapping[str, str] = field(default_factory=dict)
    erase: Callable[[Session, str, str | None], Mapping[str, int]] | None = None
    end_application: Callable[[Session, str], object] | None = None
    newest_instant: Callable[[Session], Instant | None] | None = None
