"""Opening a database by its URL: any number of threads read, one writes."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Collection, Hashable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import TypeVar

from mirror_server.store import maintenance, schema
from mirror_server.store.backend import DEFAULT_URL, LOCATIONS, Location, Storage, Violation, no_url
from mirror_server.store.schema import Branch
from mirror_server.store.session import Session
from mirror_server.store.writer import Writer

T = TypeVar("T")


class Database(Writer):
    """An open database: any number of threads read it, and the thread of the writer writes.

    Args:
        url: ``sqlite:///relative/file.db`` or ``sqlite:////absolute/file.db``; the file is made where there is none.
            Or a URL of a kind that an extension opens.
        storages: What extensions store in it. The tables of other extensions stay as they are.
        core: The migrations of the core, where they are others than those of this program.
        must_exist: Whether no file is made: that of a mistyped name would be an empty database.
        as_it_is: Whether the schema of an older version stays, so that the database is copied as it is.

    Attributes:
        storages: What extensions store in it.
        is_shared: Whether other processes may serve it at the same time, and change devices too.
        process_id: Identifies this process among those on the database.
        changes: The devices that this process changed lately.

    Raises:
        DatabaseError: The URL is of another kind, or the database cannot be opened or written.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        storages: Sequence[Storage] = (),
        *,
        core: Branch | None = None,
        must_exist: bool = False,
        as_it_is: bool = False,
    ) -> None:
        self.storages = storages
        branches = [core or schema.CORE, *(storage.branch for storage in storages)]
        super().__init__(location_of(url).open(branches, must_exist=must_exist, as_it_is=as_it_is))
        self.is_shared = self.backend.is_shared
        self.process_id = self.backend.process_id
        self.changes = self.backend.writing.changes

    def read(self, *, with_revision: bool = False) -> AbstractContextManager[Session]:
        """A session that sees one state of the database for as long as it is open.

        Args:
            with_revision: Whether it is to know up to which change it sees all; see :meth:`Session.last_revision`.

        Raises:
            StorageFailed: The database cannot be reached.
        """
        return self.backend.read(with_revision=with_revision)

    def version(self) -> Hashable:
        """Return a token that changes with every commit, perhaps also one in another database of the same server.

        What was read after it was asked for need not be read again for as long as it stays the same.

        Raises:
            StorageFailed: The database cannot be reached.
        """
        return self.backend.version()

    def query(self, statement: Callable[[Session], T]) -> T:
        """Run one statement that only reads; it sees one state of the database without a transaction around it.

        Raises:
            StorageFailed: The database cannot be reached.
        """
        return self.backend.query(statement)

    def submit(self, work: Callable[[Session], T], *, conflict_keys: Collection[str] | None = None) -> Future[T]:
        """Run ``work`` in a transaction of its own or a shared one; see :meth:`Writer.enqueue`."""
        return self.enqueue(work, conflict_keys=conflict_keys)

    def submit_durable(
        self, work: Callable[[Session], T], *, by_leader: bool = True, conflict_keys: Collection[str] | None = None
    ) -> Future[T]:
        """Run ``work``, and where it cannot be stored, again and again until it can; see :meth:`Writer.enqueue`.

        What happened to devices and channels is the business of the leader, and dropped when this process leads no
        more.
        """
        return self.enqueue(work, until_stored=True, by_leader=by_leader, conflict_keys=conflict_keys)

    def write(self, work: Callable[[Session], T], timeout_seconds: float = 30) -> T:
        """Run ``work`` and wait until it is on disk. Not for the thread of the web server."""
        return self.submit(work).result(timeout_seconds)

    def on(self, kind: str, handler: Callable[..., None]) -> None:
        """Have this called when a signal of a kind is published, given what each of several is about.

        It must not block; see :meth:`Session.publish`.
        """
        self.backend.writing.handlers[kind] = handler

    def violations(self) -> list[Violation]:
        """Find what is wrong with what is stored."""
        with self.read() as session:
            return [*maintenance.violations(session, self.storages), *self.backend.damage(session)]

    def close(self) -> None:
        """Finish the submitted work and close all connections."""
        self.backend.hurry()
        super().close()
        self.backend.close()


def location_of(url: str) -> Location:
    """The database that a URL names, not opened yet.

    Raises:
        DatabaseError: The URL is of no kind in :data:`~mirror_server.store.backend.LOCATIONS`.
    """
    scheme, mark, _ = url.partition("://")
    if not mark or scheme not in LOCATIONS:
        raise no_url(url)
    kind: Callable[[str], Location] = pkgutil.resolve_name(LOCATIONS[scheme])
    return kind(url)
