"""What a kind of database has to offer the store; all else is the same for every kind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

from mirror_server.store.maintenance import Violation
from mirror_server.store.session import Session

T = TypeVar("T")


class Backend(Protocol):
    """An open database of one kind: many read, one thread writes."""

    process_id: str
    """Tells this process from the others."""

    is_shared: bool
    """Whether other processes may serve it too."""

    @property
    def writing(self) -> Session:
        """The session of the thread that writes, between ``begin`` and ``commit`` or ``undo``."""
        ...

    @property
    def is_leader(self) -> bool:
        """Whether in the transaction that is open this process is the leader, or no others are there."""
        ...

    def begin(self, touched: Collection[str] | None) -> None:
        """Begin a transaction that writes.

        When this returns, no other is open anywhere on the database that touches any of the same; none at all with
        ``None``. See :meth:`mirror_server.store.writer.Writer.submit`.
        """
        ...

    def begin_work(self) -> None:
        """Begin a part of the transaction that may be undone alone."""
        ...

    def end_work(self) -> None:
        """Keep what the part did."""
        ...

    def undo_work(self) -> None:
        """Undo what the part did."""
        ...

    def commit(self) -> None:
        """Put the transaction on disk."""
        ...

    def rest(self) -> None:
        """Do what has to be done now and then; called when who waited for a transaction was told. It must not raise."""
        ...

    def undo(self) -> None:
        """Undo the transaction, if there still is one."""
        ...

    def is_of_storage(self, error: BaseException) -> bool:
        """Whether the disk, the file or the connection is to blame, not what was asked of the database."""
        ...

    def read(self, *, with_revision: bool = False) -> AbstractContextManager[Session]:
        """A session that sees one state of the database for as long as it is open.

        Which changes it sees, it knows only where that was asked for: see :meth:`Session.last_revision`.
        """
        ...

    def version(self) -> Hashable:
        """Another one as soon as anything was committed by anybody."""
        ...

    def look(self, statement: Callable[[Session], T]) -> T:
        """What a single statement gives, without a transaction around it."""
        ...

    def purge(self) -> bool:
        """Bring what was deleted out of the files, as far as that can be done while others use the database.

        Returns:
            Whether it could be done: false when somebody reads for long.
        """
        ...

    def damage(self, session: Session) -> list[Violation]:
        """What this kind of database itself finds wrong with what it holds."""
        ...

    def backup(self, path: Path) -> None:
        """Copy the database, as of one instant, into a new file.

        Raises:
            DatabaseError: It cannot be written, or this kind of database has tools of its own for that.
        """
        ...

    def is_served(self) -> bool:
        """Whether a process serves it, perhaps this one."""
        ...

    def hurry(self) -> None:
        """The program ends: wait for nothing that may not come."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...
