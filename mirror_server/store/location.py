"""A database as a URL names it, before it is opened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from mirror_server.store.backend import Backend
from mirror_server.store.failures import DatabaseError
from mirror_server.store.maintenance import Violation
from mirror_server.store.schema import Branch


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
        """What is wrong with its files, so that it cannot be opened.

        Raises:
            DatabaseError: They cannot be read for another reason.
        """
        return []

    def exposed_files(self) -> list[Path]:
        """Which of its files others than their owner may read or change."""
        return []
