"""What a kind of database has to offer the store; all else is the same for every kind."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from mirror_server.store.session import Session


class Backend(Protocol):
    """An open database of one kind: many read, one thread writes."""

    @property
    def writing(self) -> Session:
        """The session of the thread that writes, between ``begin`` and ``commit`` or ``undo``."""
        ...

    def begin(self) -> None:
        """Begin a transaction that writes; no other is open anywhere on the database when this returns."""
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

    def purge(self) -> None:
        """Bring what was deleted out of the files, as far as that can be done while others use the database."""
        ...

    def damage(self, session: Session) -> list[str]:
        """What this kind of database finds wrong with its own files, in words."""
        ...

    def backup(self, path: Path) -> None:
        """Copy the database, as of one instant, into a new file.

        Raises:
            DatabaseError: It cannot be written, or this kind of database has tools of its own for that.
        """
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class Serving(Protocol):
    """A server's right to serve a database."""

    def release(self) -> None:
        """Let another process serve the database."""
        ...
