"""Handlers that reset objects in a child process after a fork.

A child process inherits the memory and all open connections, but only the thread that called ``fork``.

If two processes use one connection, each may read the other's responses. A lock that another thread held stays locked
forever in the child. Each object with connections, locks, threads or tasks therefore has a handler, which runs in the
child before any other code. Comparing process ids would not help: every method would have to do it, and it
would be too late for a thread that is already waiting.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, Generic, Protocol, Self, TypeVar, overload
from weakref import WeakKeyDictionary, WeakSet

T_co = TypeVar("T_co", covariant=True)

_handlers: WeakSet[Inherited] = WeakSet()
_abandoned: list[object] = []
# Reentrant, because importing one module on demand may import another on demand.
_importing = threading.RLock()


class Inherited(Protocol):
    """An object that must be reset before a child process can use it."""

    def _after_fork_in_child(self) -> None:
        """Reset the object for the child process, without touching anything that the parent still uses."""


def register_fork_handler(thing: Inherited) -> None:
    """Call ``_after_fork_in_child`` of an object in each process that is forked from this one."""
    _handlers.add(thing)


def abandon_in_child(thing: object) -> None:
    """Keep an object alive in the child process, because its finalizer could affect the parent."""
    _abandoned.append(thing)


class lazy_property(property, Generic[T_co]):  # noqa: N801 - lower case like its base class, because it is a decorator
    """A read-only property whose value is computed once for each object, when it is first read.

    ``functools.cached_property`` has a lock before Python 3.12, which another thread may hold during a fork. This class
    has no lock. If several threads read the property at the same time, each may compute a value, but all get the same
    one.
    """

    def __init__(self, compute: Callable[[Any], T_co]) -> None:
        super().__init__(compute)
        self._compute = compute

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T_co: ...
    def __get__(self, instance: object, owner: type[Any] | None = None) -> Self | T_co:
        if instance is None:
            return self
        computed: dict[str, T_co] = vars(instance)
        name = self._compute.__name__
        if name not in computed:
            computed.setdefault(name, self._compute(instance))
        return computed[name]


def import_locked(*modules: str) -> None:
    """Import modules. If another thread forks the process in the meantime, its fork waits until the imports have ended.

    A fork during an import would leave the module incomplete and locked in the child process. Importing it there would
    then wait forever.

    Raises:
        ImportError: One of the modules, or a package that it needs, is not installed.
    """
    with _importing:
        for module in modules:
            import_module(module)


def close_in_child(number: int) -> None:
    """Close a file descriptor in this process only, because the parent still uses it.

    The descriptor then refers to the null device. Later operations on it, such as a flush or its removal from an event
    loop that the parent shares, have no effect.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, number, inheritable=False)
    os.close(nowhere)


class Connections:
    """The network connections of responses, which a child process must close without affecting the parent."""

    def __init__(self) -> None:
        self._sockets: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def note(self, stream: Any) -> None:
        """Store the connection of a response.

        ``stream`` is the httpx extension ``network_stream`` of the response, or ``None``.
        """
        if stream is None or stream in self._sockets:
            return
        with suppress(OSError):  # the connection is already closed
            self._sockets[stream] = os.fstat(_number(stream)).st_ino

    def close_in_child(self) -> None:
        """Close the connections in this process only. A regular shutdown would also end them for the parent."""
        for stream, inode in list(self._sockets.items()):
            with suppress(OSError):
                # The descriptor may belong to another file by now, if the connection was closed before.
                if os.fstat(_number(stream)).st_ino == inode:
                    close_in_child(_number(stream))
            sock = stream.get_extra_info("socket")
            if isinstance(sock, socket.socket):
                sock.close()
        self._sockets.clear()


class Lock:
    """A lock that is released in a child process after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        register_fork_handler(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _after_fork_in_child(self) -> None:
        """Replace the lock by a new one, because the thread that held it does not exist in the child process."""
        self._lock = threading.Lock()


def cannot_be_sent(client: object) -> TypeError:
    """Return the error that is raised when a client is pickled."""
    return TypeError(
        f"{client!r} cannot be pickled, because its connections belong to this process; create a client in the other"
        " process, for example with MirrorClient.from_env(). A forked process may keep using the client of its parent"
    )


def cannot_be_pickled(thing: object, cure: str) -> TypeError:
    """Return the error that is raised when an object that only works in this process is pickled."""
    return TypeError(f"{type(thing).__name__} objects cannot be pickled, because they belong to this process; {cure}")


def _number(stream: Any) -> int:
    sock = stream.get_extra_info("socket")
    return -1 if sock is None else int(sock.fileno())


def _after_fork_in_child() -> None:
    for thing in list(_handlers):
        thing._after_fork_in_child()


if hasattr(os, "register_at_fork"):  # Windows has no fork.
    os.register_at_fork(after_in_child=_after_fork_in_child)
    os.register_at_fork(
        before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release
    )
