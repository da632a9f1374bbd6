"""The file of a database, before it is opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mirror_server.store.backend import AlreadyServed, Backend, Location, Violation, path_of
from mirror_server.store.schema import Branch
from mirror_server.store.sqlite.backend import SqliteBackend, damaged_tables
from mirror_server.store.sqlite.serving_lock import ServingLock


class SqliteLocation(Location):
    """The file that a URL names."""

    is_file = True

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._path = path_of(url)

    def open(self, branches: Sequence[Branch], *, must_exist: bool, as_it_is: bool) -> Backend:
        """See :class:`Location`."""
        return SqliteBackend(self._path, branches, must_exist=must_exist, as_it_is=as_it_is)

    def file(self) -> Path:
        """See :class:`Location`."""
        return self._path

    def begin_serving(self) -> Callable[[], None]:
        """See :class:`Location`."""
        return ServingLock(self._path).release

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """See :class:`Location`."""
        if not self._path.exists():
            yield False
            return
        try:
            lock = ServingLock(self._path)
        except AlreadyServed:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def damage(self) -> list[Violation]:
        """See :class:`Location`."""
        return damaged_tables(self._path) if self._path.exists() else []

    def exposed_files(self) -> list[Path]:
        """See :class:`Location`; files that are made here are private."""
        if os.name != "posix":
            return []
        # The files beside it have the rights that the database had when they were made.
        found = (self._path, *(self._path.with_name(self._path.name + end) for end in ("-wal", "-shm")))
        return [file for file in found if file.exists() and file.stat().st_mode & 0o077]
