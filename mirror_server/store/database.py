"""The database, which is opened by its URL. Any number of threads read it, and one thread writes."""

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
    """An open database. Any number of threads may read it, and the thread of the writer writes.

    Args:
        url: The URL of the database: ``sqlite:///relative/file.db`` or ``sqlite:////absolute/file.db``. The file is
            created if it does not exist. Extensions may support other URLs.
        storages: The tables of extensions. The tables of other extensions are not changed.
        core: The migrations of the core. The default is the migrations of this program.
        must_exist: Whether a missing file is an error. Otherwise a mistyped file name creates an empty database.
        keep_schema: Whether to keep the schema of an older version. Used to copy a database.

    Attributes:
        storages: The tables of extensions.
        is_shared: Whether other processes may serve the database at the same time, and change devices too.
        process_id: The identifier of this process among the processes that use the database.
        changes: The devices that this process changed recently.

    Raises:
        DatabaseError: The URL is not supported, or the database cannot be opened or written.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        storages: Sequence[Storage] = (),
        *,
        core: Branch | None = None,
        must_exist: bool = False,
        keep_schema: bool = False,
    ) -> None:
        self.storages = storages
        branches = [core or schema.CORE, *(storage.branch for storage in storages)]
        super().__init__(location_of(url).open(branches, must_exist=must_exist, keep_schema=keep_schema))
        self.is_shared = self.backend.is_shared
        self.process_id = self.backend.process_id
        self.changes = self.backend.writing.changes

    def read(self, *, with_revision: bool = False) -> AbstractContextManager[Session]:
        """Return a session that sees one state of the database while it is open.

        Args:
            with_revision: Whether the session needs :meth:`Session.last_revision`.

        Raises:
            StorageFailed: The database cannot be reached.
        """
        return self.backend.read(with_revision=with_revision)

    def version(self) -> Hashable:
        """Return a token that changes with every commit.

        Data that is read after the token stays current while the token stays the same. On PostgreSQL, commits in other
        databases of the cluster may change the token too.

        Raises:
            StorageFailed: The database cannot be reached.
        """
        return self.backend.version()

    def query(self, statement: Callable[[Session], T]) -> T:
        """Run one read-only statement outside a transaction. A single statement sees one state of the database.

        Raises:
            StorageFailed: The database cannot be reached.
        """
        return self.backend.query(statement)

    def submit(self, work: Callable[[Session], T], *, conflict_keys: Collection[str] | None = None) -> Future[T]:
        """Run ``work`` in a transaction, which may also contain other work. See :meth:`Writer.enqueue`."""
        return self.enqueue(work, conflict_keys=conflict_keys)

    def submit_durable(
        self, work: Callable[[Session], T], *, by_leader: bool = True, conflict_keys: Collection[str] | None = None
    ) -> Future[T]:
        """Run ``work``, and retry it until it is stored. See :meth:`Writer.enqueue`.

        With ``by_leader``, the work is dropped if this process is no longer the leader. Only the leader stores the
        events of devices and channels.
        """
        return self.enqueue(work, until_stored=True, by_leader=by_leader, conflict_keys=conflict_keys)

    def write(self, work: Callable[[Session], T], timeout_seconds: float = 30) -> T:
        """Run ``work`` and wait until it is on disk.

        Do not call this on the thread of the web server, because it blocks.
        """
        return self.submit(work).result(timeout_seconds)

    def on(self, kind: str, handler: Callable[..., None]) -> None:
        """Set the function that is called when signals of a kind are published.

        Its arguments are the subjects of the signals.

        The function must not block. See :meth:`Session.publish`.
        """
        self.backend.writing.handlers[kind] = handler

    def violations(self) -> list[Violation]:
        """Return the inconsistencies of the stored data."""
        with self.read() as session:
            return [*maintenance.violations(session, self.storages), *self.backend.damage(session)]

    def close(self) -> None:
        """Finish the submitted work and close all connections."""
        # Called before the writer stops, because the writer may be waiting for a database that does not respond.
        self.backend.hurry()
        super().close()
        self.backend.close()


def location_of(url: str) -> Location:
    """Return the location of a database by its URL, without opening the database.

    Raises:
        DatabaseError: The scheme is not in :data:`~mirror_server.store.backend.LOCATIONS`.
    """
    scheme, mark, _ = url.partition("://")
    if not mark or scheme not in LOCATIONS:
        raise no_url(url)
    kind: Callable[[str], Location] = pkgutil.resolve_name(LOCATIONS[scheme])
    return kind(url)
