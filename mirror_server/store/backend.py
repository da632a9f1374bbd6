"""A kind of database: its URL, what it has to offer the store, and what can go wrong with it.

``LOCATIONS`` has the kinds, by the scheme of the URL. A :class:`Location` opens a :class:`Backend`; all else in the
store is the same for every kind. Loaded with every command, so it imports nothing that takes long.
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
    from mirror_server.core.instants import Instant
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
    """The file a URL names.

    Raises:
        DatabaseError: It is no URL of a file.
    """
    # One in memory would be another one for each of the server's connections.
    if not url.startswith(_SQLITE) or url in {_SQLITE, f"{_SQLITE}:memory:"}:
        raise no_url(url)
    return Path(url.removeprefix(_SQLITE))


def no_url(url: str) -> DatabaseError:
    """The error for what is no URL of a database that this server opens."""
    if url.startswith(("postgresql://", "postgres://")):
        return DatabaseError(
            f"cannot use the database {shown(url)}: the extension postgresql is not there; put its folder back, or"
            f" write the database as sqlite:///FILE, like {DEFAULT_URL}"
        )
    return DatabaseError(
        f"cannot use the database {url!r}: write it as sqlite:///FILE, like {DEFAULT_URL}, or as"
        " postgresql://USER@HOST/NAME"
    )


def shown(url: str) -> str:
    """The URL without its password."""
    return re.sub(r"(?<=://)([^/?@:]*):[^/?]*@", r"\1@", re.sub(r"([?&]password=)[^&]*", r"\1...", url))


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


MOST_EXAMPLES = 20
"""How many of a kind of violation are shown."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One kind of thing that is wrong with a database: how often, and where the first ones are."""

    kind: str
    count: int
    examples: Sequence[str]

    def __str__(self) -> str:
        """A line for the kind, and one for each example."""
        left = self.count - len(self.examples)
        more = [f"  and {left:,} more"] if left else []
        return "\n".join([f"{self.kind}: {self.count:,}", *(f"  {example}" for example in self.examples), *more])


class Backend(Protocol):
    """An open database of one kind: many read, one thread writes."""

    process_id: str
    """Tells this process from the others."""

    is_shared: bool
    """Whether other processes may serve it too."""

    @property
    def writing(self) -> Session:
        """The session of the thread that writes, between ``begin`` and ``commit`` or ``undo``."""

    @property
    def is_leader(self) -> bool:
        """Whether in the transaction that is open this process is the leader, or no others are there."""

    def begin(self, conflict_keys: Collection[str] | None) -> None:
        """Begin a transaction that writes.

        When this returns, no other is open anywhere on the database that touches any of the same; none at all with
        ``None``. See :meth:`mirror_server.store.writer.Writer.enqueue`.
        """

    def begin_work(self) -> None:
        """Begin a part of the transaction, which may be undone alone until the next one begins."""

    def undo_work(self) -> None:
        """Undo what the part did."""

    def commit(self) -> None:
        """Put the transaction on disk."""

    def undo(self) -> None:
        """Undo the transaction, if there still is one."""

    def is_of_storage(self, error: BaseException) -> bool:
        """Whether the disk, the file or the connection is to blame, not what was asked of the database."""

    def read(self, *, with_revision: bool = False) -> AbstractContextManager[Session]:
        """A session that sees one state of the database for as long as it is open.

        Which changes it sees, it knows only where that was asked for: see :meth:`Session.last_revision`.
        """

    def version(self) -> Hashable:
        """Return a token that changes with every commit of any process."""

    def query(self, statement: Callable[[Session], T]) -> T:
        """Run one statement that only reads, without a transaction around it."""

    def purge(self) -> bool:
        """Bring what was deleted out of the files, as far as that can be done while others use the database.

        Returns:
            Whether it could be done: false when somebody reads for long.
        """

    def damage(self, session: Session) -> list[Violation]:
        """Find what this kind of database itself calls wrong with what it holds."""

    def backup(self, path: Path) -> None:
        """Copy the database, as of one instant, into a new file.

        Raises:
            DatabaseError: It cannot be written, or this kind of database has tools of its own for that.
        """

    def is_served(self) -> bool:
        """Whether a process serves it, perhaps this one."""

    def hurry(self) -> None:
        """The program ends: wait for nothing that may not come."""

    def close(self) -> None:
        """Close all connections."""


class Location(ABC):
    """A database as its URL names it; by default one that is no file, and that several processes may serve.

    Args:
        url: The URL.

    Raises:
        DatabaseError: The URL is not written as its kind has to be.
    """

    is_file = False
    """Whether it is a file of this machine."""

    coordinator: str | None = None
    """The class of the coordinator, as ``module:name``, where several processes may serve it."""

    def __init__(self, url: str) -> None:
        self.url = url

    @abstractmethod
    def open(self, branches: Sequence[Branch], *, must_exist: bool, as_it_is: bool) -> Backend:
        """Open it; see :class:`mirror_server.store.database.Database`."""

    def file(self) -> Path:
        """The file.

        Raises:
            DatabaseError: It is none.
        """
        raise DatabaseError("this is for SQLite files only")

    def begin_serving(self) -> Callable[[], None]:
        """Begin to serve it, where that takes the only process; gives what lets another one do so.

        Raises:
            AlreadyServed: Another process serves it.
            DatabaseError: That cannot be found out.
        """
        return lambda: None

    def alone(self) -> AbstractContextManager[bool]:
        """Whether no server serves it, and none begins to while this lasts; false where that is not known."""
        return nullcontext(enter_result=False)

    def damage(self) -> list[Violation]:
        """Find what is wrong with its files, so that it cannot be opened.

        Raises:
            DatabaseError: They cannot be read for another reason.
        """
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The tables of an extension. Everything here is called in a transaction.

    Attributes:
        branch: The migrations that make them.
        violations: What may be wrong, and a statement for each that gives a row for each place where it is so.
        erase: Deletes all that is stored of a device, by its id and its endpoint name (``None`` for a device that is
            not known); gives how many rows by what they were. The device itself goes afterwards.
        end_application: Deletes what goes on without a request of an application, by its id.
        newest_instant: The latest instant at which anything is stored to have happened; ``None`` where nothing is.
    """

    branch: Branch
    violations: Mapping[str, str] = field(default_factory=dict)
    erase: Callable[[Session, str, str | None], Mapping[str, int]] | None = None
    end_application: Callable[[Session, str], object] | None = None
    newest_instant: Callable[[Session], Instant | None] | None = None
