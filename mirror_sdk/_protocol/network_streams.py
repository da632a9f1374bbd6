"""The connections of the synchronous client: every wait is limited by what is left of a call.

httpx limits each single wait for a piece of a response, so a service that sends a byte now and then is never late. The
streams here know when the call ends: a :class:`~mirror_sdk._protocol.deadline.Deadline` is the timeout of each wait,
and each wait reads what is left of it. The event loop needs none of this, because a task is cancelled while it waits.
"""

from __future__ import annotations

# What looks a name up imports it, and a fork in the middle of that leaves it locked in the child.
import encodings.idna  # noqa: F401
import socket
import ssl
import threading
import weakref
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from ipaddress import ip_address
from typing import Any

import httpcore

from mirror_sdk._fork import Lock
from mirror_sdk._protocol.deadline import Deadline

_SENT_AT_ONCE = 64 * 1024
_RECEIVED_AT_ONCE = 256 * 1024


class OpenStreams:
    """The connections that were made, until they are closed together.

    The pool closes those it knows. One that a thread was making meanwhile would be used, and stay open, all the same.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: weakref.WeakSet[_Stream] = weakref.WeakSet()
        self._is_closed = False

    def add(self, stream: _Stream) -> None:
        """Have it closed with the others.

        Raises:
            httpcore.ConnectError: They are closed already, and this one is now.
        """
        with self._lock:
            is_late = self._is_closed
            if not is_late:
                self._open.add(stream)
        if is_late:
            stream.close()
            raise httpcore.ConnectError("the client was closed")

    def hang_up(self) -> None:
        """Send and receive nothing more; a thread that waits would not notice that its connection is closed here."""
        for stream in self._end():
            stream.hang_up()

    def close(self) -> None:
        """Close them."""
        for stream in self._end():
            stream.close()

    def _end(self) -> list[_Stream]:
        with self._lock:
            self._is_closed = True
            return list(self._open)


class DeadlineBackend(httpcore.NetworkBackend):
    """Makes connections."""

    def __init__(self, streams: OpenStreams) -> None:
        self._backend = httpcore.SyncBackend()
        self._streams = streams

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address of a name that answers, all of them within the time."""
        *others, last = addresses = _addresses(host, port, timeout)
        for address in others:
            left = _left(timeout, httpcore.ConnectTimeout)
            # Each has its share, so that one that says nothing leaves time for the next.
            share = None if left is None else left / len(addresses)
            try:
                made = self._backend.connect_tcp(address, port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
            return _Stream(made, timeout, self._streams)
        left = _left(timeout, httpcore.ConnectTimeout)
        made = self._backend.connect_tcp(last, port, left, local_address, socket_options)
        return _Stream(made, timeout, self._streams)


def _addresses(host: str, port: int, timeout: float | None) -> list[str]:
    """What a name stands for; the system sets no limit to its search, so it is made on a thread that can be left."""
    try:
        ip_address(host)
    except ValueError:
        found: Future[list[Any]] = Future()
        threading.Thread(target=_resolve, args=(host, port, found), daemon=True, name="mirror-name").start()
        try:
            entries = found.result(_left(timeout, httpcore.ConnectTimeout))
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"the name {host} was not resolved in time") from None
        except (OSError, UnicodeError) as exc:
            raise httpcore.ConnectError(str(exc)) from exc
        return list(dict.fromkeys(str(entry[4][0]) for entry in entries))
    return [host]


def _resolve(host: str, port: int, found: Future[list[Any]]) -> None:
    try:
        found.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except Exception as exc:
        found.set_exception(exc)


class _Stream(httpcore.NetworkStream):
    """A connection that waits no longer than the call may take.

    Args:
        stream: The connection.
        connecting: The limit on making it, which also holds where httpcore gives none: to what a SOCKS proxy is told.
        streams: What it is closed with.

    Raises:
        httpcore.ConnectError: Those are closed already.
    """

    def __init__(self, stream: httpcore.NetworkStream, connecting: float | None, streams: OpenStreams) -> None:
        self._stream = stream
        self._connecting = connecting
        self._streams = streams
        self._unsent = b""
        self._expected = 0
        self._sending: float | None = None
        self._in_handshake: socket.socket | None = None
        streams.add(self)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has come, once something has; what was to be sent is sent before."""
        # Whoever refuses a request may close at once: the answer may be there all the same.
        with suppress(httpcore.WriteError):
            self._send()
        came = self._stream.read(max(max_bytes, self._expected), self._left(timeout, httpcore.ReadTimeout))
        # Where as much came as httpcore asks for, each piece costs more than its bytes do.
        self._expected = _RECEIVED_AT_ONCE if len(came) >= max_bytes else 0
        return came

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all of it, what is small together with what follows: the head of a request with its body.

        Each piece would wake who receives it.
        """
        self._unsent += buffer
        self._sending = timeout
        if len(self._unsent) > _SENT_AT_ONCE:
            self._send()

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, b""
        for begin in range(0, len(unsent), _SENT_AT_ONCE):
            self._stream.write(unsent[begin : begin + _SENT_AT_ONCE], self._left(self._sending, httpcore.WriteTimeout))

    def hang_up(self) -> None:
        """Let nothing more come or go, and whoever waits for it go on."""
        _shut_down(self._stream.get_extra_info("socket"))
        # Asked for behind that: a handshake that began meanwhile took the other one's connection.
        _shut_down(self._in_handshake)

    def close(self) -> None:
        """Close it."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """The same connection, encrypted."""
        left = self._left(timeout, httpcore.ConnectTimeout)
        sock = self._stream.get_extra_info("socket")
        # Encrypted once more, to a proxy and through it, it keeps its socket. Otherwise the handshake takes the
        # connection away from that, and another one for the same is what it can be ended by.
        try:
            held = nullcontext() if isinstance(sock, ssl.SSLSocket) else sock.dup()
        except OSError as exc:
            raise httpcore.ConnectError(str(exc)) from exc
        with held as self._in_handshake:
            made = self._stream.start_tls(ssl_context, server_hostname, left)
        return _Stream(made, self._connecting, self._streams)

    def get_extra_info(self, info: str) -> Any:
        """What is known of it."""
        return self._stream.get_extra_info(info)

    def _left(self, timeout: float | None, over: type[httpcore.TimeoutException]) -> float | None:
        return _left(self._connecting if timeout is None else timeout, over)


def _shut_down(sock: object) -> None:
    # Not as an encrypted connection has it, which another thread may be reading; and the server may be gone.
    if isinstance(sock, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _left(timeout: float | None, over: type[httpcore.TimeoutException]) -> float | None:
    """How many seconds this wait may take; ``None`` for any number of them."""
    if not isinstance(timeout, Deadline):
        return timeout
    left = timeout.left
    if not left:
        raise over("the time of the call is over")
    return left
