"""Handlers that run when the process forks.

A child process inherits the memory and every open connection, but no other thread.

Two processes on one connection read each other's responses, and a lock that another thread held stays locked forever in
the child. So each object with connections, locks, threads or tasks has a handler that runs in the child before anything
else. Comparing process ids instead would be needed at every entry, and too late for a thread that already waits.
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
# Reentrant, because a module that is imported on demand may import others on demand.
_importing = threading.RLock()


class Inherited(Protocol):
    """An object that a child process cannot use without a reset."""

    def _after_fork_in_child(self) -> None:
        """Make it usable, without touching anything that the parent still uses."""


def register_fork_handler(thing: Inherited) -> None:
    """Call ``_after_fork_in_child`` in each process that is forked from this one."""
    _handlers.add(thing)


def abandon_in_child(thing: object) -> None:
    """Keep this object alive in the child, because its finalizer could affect the parent."""
    _abandoned.append(thing)


class lazy_property(property, Generic[T_co]):  # noqa: N801 - used as its base class is
    """A read-only property that is computed once per object, when it is first read.

    It takes no lock, unlike ``functools.cached_property`` before Python 3.12, whose lock another thread may hold at a
    fork. Threads that read it at the same time may each compute it, and all get the same value.
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
    """Import modules on demand; a fork waits until the imports end.

    If another thread was importing a module at the fork, that module stays incomplete and locked in the child. Its
    import in the child would never end.

    Raises:
        ImportError: One of them, or what it needs, is not installed.
    """
    with _importing:
        for module in modules:
            import_module(module)


def close_in_child(number: int) -> None:
    """Close a file descriptor that the parent still uses, only in this process.

    Its number then refers to the null device. So a later shutdown, flush or removal from an event loop that the parent
    shares has no effect.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, number, inheritable=False)
    os.close(nowhere)


class Connections:
    """The network connections of the responses, which a child process must not use."""

    def __init__(self) -> None:
        self._sockets: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def note(self, stream: Any) -> None:
        """Note the connection of a response: httpx's ``network_stream``, ``None`` without one."""
        if stream is None or stream in self._sockets:
            return
        with suppress(OSError):  # it is closed already
            self._sockets[stream] = os.fstat(_number(stream)).st_ino

    def close_in_child(self) -> None:
        """Close the connections in this process only. A shutdown would end them for the parent too."""
        for stream, inode in list(self._sockets.items()):
            with suppress(OSError):
                # Its number may be another file's by now, where it was closed before.
                if os.fstat(_number(stream)).st_ino == inode:
                    close_in_child(_number(stream))
            sock = stream.get_extra_info("socket")
            if isinstance(sock, socket.socket):
                sock.close()
        self._sockets.clear()


class Lock:
    """A lock that is released in a child process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        register_fork_handler(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _after_fork_in_child(self) -> None:
        """Release it, whichever thread held it."""
        self._lock = threading.Lock()


def cannot_be_sent(client: object) -> TypeError:
    """Return the error for pickling a client."""
    return TypeError(
        f"{client!r} cannot be pickled, because its connections belong to this process; create a client in the other"
        " process, for example with MirrorClient.from_env(). A forked process may keep using the client of its parent"
    )


def cannot_be_pickled(thing: object, cure: str) -> TypeError:
    """Return the error for pickling an object that only works in this process."""
    return TypeError(f"{type(thing).__name__} objects cannot be pickled, because they belong to this process; {cure}")


def _number(stream: Any) -> int:
    sock = stream.get_extra_info("socket")
    return -1 if sock is None else int(sock.fileno())


def _after_fork_in_child() -> None:
    for thing in list(_handlers):
        thing._after_fork_in_child()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork_in_child)
    os.register_at_fork(
        before=_importing.acquire, after_in_parent=_importing.release, after_in_child=_importing.release
    )
