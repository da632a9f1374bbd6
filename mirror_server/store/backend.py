"""What a kind of database has to offer the store; all else is the same for every kind."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

from mirror_server.store.maintenance import Violation
from mirror_server.store.session import Session

T = TypeVar("T")


class Colleague(Protocol):
    """A server as its neighbours need it. Nothing here may block for long."""

    def hear(self, word: str) -> None:
        """Another process says something."""
        ...

    def look_around(self) -> None:
        """Words may have been missed: look at everything they could have been about."""
        ...

    def take_duty(self) -> None:
        """From now on this process is on duty."""
        ...

    def resume_duty(self) -> None:
        """This process is on duty still, and nobody else was meanwhile."""
        ...

    def pause_duty(self) -> None:
        """Whether this process is still on duty is not known: begin nothing that others could do as well."""
        ...

    def give_up_duty(self) -> None:
        """Another process is on duty: forget what is under way."""
        ...


class Neighbours(Protocol):
    """The other processes on the database."""

    @property
    def is_on_duty(self) -> bool:
        """Whether this process is on duty, as far as it knows."""
        ...

    def start(self, colleague: Colleague) -> None:
        """Begin to listen; returns when this process is on duty, or knows that another one is.

        Raises:
            DatabaseError: The database does not answer.
        """
        ...

    def stop(self) -> None:
        """Listen no more; until it is closed no other process takes over."""
        ...

    def close(self) -> None:
        """Let another process take over."""
        ...


class Member(Protocol):
    """One of the processes on a database, as its transactions know it."""

    process_id: str
    duty_token: str | None
    """What is stored while this process is on duty, empty while it is not; ``None`` where it takes no part in this."""


Write = Callable[[Callable[[Session], None]], None]
"""Stores something, and returns when it is on disk."""


class Backend(Protocol):
    """An open database of one kind: many read, one thread writes."""

    process_id: str
    """Tells this process from the others."""

    @property
    def writing(self) -> Session:
        """The session of the thread that writes, between ``begin`` and ``commit`` or ``undo``."""
        ...

    @property
    def on_duty(self) -> bool:
        """Whether in the transaction that is open this process is the one on duty, or no others are there."""
        ...

    def begin(self) -> None:
        """Begin a transaction that writes; no other is open anywhere on the database when this returns."""
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

    def undo(self) -> None:
        """Undo the transaction, if there still is one."""
        ...

    def is_of_storage(self, error: BaseException) -> bool:
        """Whether the disk, the file or the connection is to blame, not what was asked of the database."""
        ...

    def read(self) -> AbstractContextManager[Session]:
        """A session that sees one state of the database for as long as it is open."""
        ...

    def version(self) -> Hashable | None:
        """Another one as soon as anything was committed by anybody; ``None`` where that is not to be had cheaply."""
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

    def meet(self, write: Write, *, options: str, is_alone: bool) -> Neighbours | None:
        """Take part in what several processes on one database do together; ``None`` where there can be one only.

        Args:
            write: Stores something, and returns when it is on disk.
            options: What all processes must have in common, in words for a message.
            is_alone: Whether this process can only be the only one.

        Raises:
            DatabaseError: Processes that cannot work together with this one serve the database.
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

    def hurry(self) -> None:
        """The program ends: wait for nothing that may not come."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...
