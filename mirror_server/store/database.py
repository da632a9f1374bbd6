"""Opening a database by its URL: any number of threads read, one writes."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Collection, Hashable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from mirror_server.store import maintenance, schema
from mirror_server.store.backend import DEFAULT_URL, LOCATIONS, Backend, Location, Storage, Violation, no_url
from mirror_server.store.schema import Branch
from mirror_server.store.session import RecentChanges, Session
from mirror_server.store.writer import Writer

T = TypeVar("T")
Item = TypeVar("Item")


class Database:
    """An open database.

    Args:
        url: ``sqlite:///relative/file.db`` or ``sqlite:////absolute/file.db``; the file is made where there is none.
            Or a URL of a kind that an extension opens.
        storages: What extensions store in it. The tables of other extensions stay as they are.
        core: The migrations of the core, where they are others than those of this program.
        must_exist: Whether no file is made: that of a mistyped name would be an empty database.
        as_it_is: Whether the schema of an older version stays, so that the database is copied as it is.

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
        self._backend = location_of(url).open(branches, must_exist=must_exist, as_it_is=as_it_is)
        self._writer = Writer(self._backend)

    def read(self, *, with_revision: bool = False) -> AbstractContextManager[Session]:
        """A session that sees one state of the database for as long as it is open.

        Args:
            with_revision: Whether it is to know up to which change it sees all; see :meth:`Session.last_revision`.

        Raises:
            StorageFailed: The database cannot be reached.
        """
        return self._backend.read(with_revision=with_revision)

    def version(self) -> Hashable:
        """Another one as soon as anything was committed by anybody, perhaps in another database of the same server.

        What was read after it was asked for need not be read again for as long as it stays the same.

        Raises:
            StorageFailed: The database cannot be reached.
        """
        return self._backend.version()

    def look(self, statement: Callable[[Session], T]) -> T:
        """What a single statement gives, which sees one state of the database without a transaction around it.

        Raises:
            StorageFailed: The database cannot be reached.
        """
        return self._backend.look(statement)

    @property
    def backend(self) -> Backend:
        """What is open, for what its kind alone offers."""
        return self._backend

    @property
    def is_shared(self) -> bool:
        """Whether other processes may serve it too, and change devices beside this one."""
        return self._backend.is_shared

    @property
    def changes(self) -> RecentChanges:
        """Which devices this process changed lately."""
        return self._backend.writing.changes

    def submit(self, work: Callable[[Session], T], *, touched: Collection[str] | None = None) -> Future[T]:
        """Run ``work`` in a transaction of its own or a shared one; see :meth:`Writer.submit`."""
        return self._writer.submit(work, touched=touched)

    def submit_together(
        self, work: Callable[[Session, list[Item]], Sequence[T]], item: Item, *, touched: Collection[str] | None = None
    ) -> Future[T]:
        """Run ``work`` with this item as :meth:`submit` does, once for several calls; gives the result of this one."""
        together: Callable[..., Any] = work
        return self._writer.submit(together, items=(item,), touched=touched)

    def insist(
        self, work: Callable[[Session], T], *, by_leader: bool = True, touched: Collection[str] | None = None
    ) -> Future[T]:
        """Run ``work``, and where it cannot be stored, again and again until it can; see :meth:`Writer.submit`.

        What happened to devices and channels is the business of the leader, and dropped when this process leads no
        more.
        """
        return self._writer.submit(work, insists=True, by_leader=by_leader, touched=touched)

    def insist_together(
        self, work: Callable[[Session, list[T]], None], items: Sequence[T], *, touched: Collection[str] | None = None
    ) -> Future[None]:
        """Run ``work`` with these items as :meth:`insist` does, once for several calls.

        Each call is still on its own where one of them fails.
        """
        return self._writer.submit(work, items=items, insists=True, by_leader=True, touched=touched)

    def after_group(self, effect: Callable[[], None]) -> None:
        """Call ``effect`` behind all effects of the transaction that is told at this moment; at once in another thread.

        So what many effects ask for can be asked once.
        """
        self._writer.after_group(effect)

    def write(self, work: Callable[[Session], T], timeout_seconds: float = 30) -> T:
        """Run ``work`` and wait until it is on disk. Not for the thread of the web server."""
        return self._writer.submit(work).result(timeout_seconds)

    def settle(self, timeout_seconds: float = 30) -> bool:
        """Wait until all submitted work and what it caused is done; see :meth:`Writer.settle`."""
        return self._writer.settle(timeout_seconds)

    def on(self, kind: str, handler: Callable[..., None]) -> None:
        """Have this called when a signal of a kind is published, given what each of several is about.

        It must not block; see :meth:`Session.publish`.
        """
        self._backend.writing.handlers[kind] = handler

    def receive(self, *messages: str) -> None:
        """Handle signals of another process, each as its kind and, after a space, what it is about."""
        received: dict[str, list[str]] = {}
        for message in messages:
            kind, _, what = message.partition(" ")
            received.setdefault(kind, []).append(what)
        for kind, handler in self._backend.writing.handlers.items():
            if kind in received:
                handler(*received[kind])

    def tell_first(self, wait_for_told: Callable[[float], object]) -> None:
        """Have those told first who wait for what is on disk; see :class:`~mirror_server.store.writer.Writer`."""
        self._writer.wait_for_told = wait_for_told

    def on_interruption(self, interrupted: Callable[[], None], resumed: Callable[[], None]) -> None:
        """Have these called when storing begins to fail, and when it works again."""
        self._writer.interrupted, self._writer.resumed = interrupted, resumed

    def count_waiting(self) -> int:
        """How many pieces of work wait to be stored."""
        return self._writer.count_waiting()

    def purge(self) -> bool:
        """Bring what was deleted out of the files, as far as that can be done while others use the database.

        Returns:
            Whether it could be done: false when somebody reads for long, a snapshot for instance.
        """
        return self._backend.purge()

    def backup(self, path: Path) -> None:
        """Copy the database, as of one instant, into a new file; others may go on using it meanwhile.

        Raises:
            DatabaseError: The file is there already, or cannot be written, or the database is no file.
        """
        self._backend.backup(path)

    @property
    def process_id(self) -> str:
        """Tells this process from the others on the database."""
        return self._backend.process_id

    def violations(self) -> list[Violation]:
        """What is wrong with what is stored."""
        with self.read() as session:
            return [*maintenance.violations(session, self.storages), *self._backend.damage(session)]

    def is_served(self) -> bool:
        """Whether a process serves it, perhaps this one."""
        return self._backend.is_served()

    def close(self) -> None:
        """Finish the submitted work and close all connections."""
        self._backend.hurry()
        self._writer.close()
        self._backend.close()


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
