"""The connections of the synchronous client: every wait is limited by the time that is left for the call.

httpx limits each single wait for a chunk of a response, so a service that sends a byte now and then is never late. The
streams here know when the call ends: a :class:`~mirror_sdk._protocol.deadline.Deadline` is the timeout of each wait,
and each wait reads what is left of it. The event loop needs none of this, because a task is cancelled while it waits.
"""

from __future__ import annotations

# Resolving a name imports this module, and a fork during that import would leave it locked in the child.
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

_SEND_BYTES = 64 * 1024
_RECEIVE_BYTES = 256 * 1024


class OpenStreams:
    """The open connections, which are closed together.

    The pool closes only its own connections. One that a thread is just making would be used, and stay open.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: weakref.WeakSet[_Stream] = weakref.WeakSet()
        self._is_closed = False

    def add(self, stream: _Stream) -> None:
        """Add a connection.

        Raises:
            httpcore.ConnectError: All other connections are closed already, so this one is closed too.
        """
        with self._lock:
            is_too_late = self._is_closed
            if not is_too_late:
                self._open.add(stream)
        if is_too_late:
            stream.close()
            raise httpcore.ConnectError("the client was closed")

    def hang_up(self) -> None:
        """Shut all connections down.

        Closing is not enough: a waiting thread would not notice that another thread closed its connection.
        """
        for stream in self._end():
            stream.hang_up()

    def close(self) -> None:
        """Close all connections."""
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
        """Connect to the first reachable address of a name; the time is for all addresses together."""
        *others, last = addresses = _addresses(host, port, timeout)
        for address in others:
            left = _left(timeout, httpcore.ConnectTimeout)
            # Each has its share, so that an unreachable one leaves time for the next.
            share = None if left is None else left / len(addresses)
            try:
                stream = self._backend.connect_tcp(address, port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
            return _Stream(stream, timeout, self._streams)
        # The last address may use all of the time that is left, and its error is the one that the caller gets.
        left = _left(timeout, httpcore.ConnectTimeout)
        stream = self._backend.connect_tcp(last, port, left, local_address, socket_options)
        return _Stream(stream, timeout, self._streams)


def _addresses(host: str, port: int, timeout: float | None) -> list[str]:
    """Resolve a name, in a thread that can be abandoned, because the system does not limit the time."""
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
    # Any error, because the caller waits for a result.
    except Exception as exc:
        found.set_exception(exc)


class _Stream(httpcore.NetworkStream):
    """A connection whose waits are limited by the deadline of the call.

    Args:
        stream: The connection.
        connecting: The limit on making it, which applies also if httpcore passes none: to the handshake with a SOCKS
            proxy.
        streams: The connections that are closed together with this one.

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
        # Last, because another thread may shut all streams down as soon as this one is among them.
        streams.add(self)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Send the buffered bytes, then wait for bytes and return them."""
        # A service that rejects a request may close the connection at once, and its response may still arrive.
        with suppress(httpcore.WriteError):
            self._send()
        received = self._stream.read(max(max_bytes, self._expected), self._left(timeout, httpcore.ReadTimeout))
        # If as many bytes arrive as httpcore requests, larger reads are faster.
        self._expected = _RECEIVE_BYTES if len(received) >= max_bytes else 0
        return received

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send all the data.

        Small data waits for the next write, so that the head of a request is sent together with its body.

        Otherwise each small packet would wake the receiver.
        """
        self._unsent += buffer
        self._sending = timeout
        if len(self._unsent) > _SEND_BYTES:
            self._send()

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, b""
        for begin in range(0, len(unsent), _SEND_BYTES):
            self._stream.write(unsent[begin : begin + _SEND_BYTES], self._left(self._sending, httpcore.WriteTimeout))

    def hang_up(self) -> None:
        """Shut the connection down, and wake the thread that waits for it."""
        _shut_down(self._stream.get_extra_info("socket"))
        # Read after that: a handshake that started in between took the connection from the other socket.
        _shut_down(self._in_handshake)

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Return the same connection, encrypted."""
        left = self._left(timeout, httpcore.ConnectTimeout)
        sock = self._stream.get_extra_info("socket")
        # A second encryption, through a proxy, keeps the socket. Otherwise the handshake detaches the socket, and only
        # a duplicate can shut the connection down.
        try:
            duplicate = nullcontext() if isinstance(sock, ssl.SSLSocket) else sock.dup()
        except OSError as exc:
            raise httpcore.ConnectError(str(exc)) from exc
        with duplicate as self._in_handshake:
            stream = self._stream.start_tls(ssl_context, server_hostname, left)
        return _Stream(stream, self._connecting, self._streams)

    def get_extra_info(self, info: str) -> Any:
        """Return information about the connection."""
        return self._stream.get_extra_info(info)

    def _left(self, timeout: float | None, over: type[httpcore.TimeoutException]) -> float | None:
        return _left(self._connecting if timeout is None else timeout, over)


def _shut_down(sock: object) -> None:
    # Not SSLSocket.shutdown, because another thread may be reading; and the server may have disconnected.
    if isinstance(sock, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _left(timeout: float | None, over: type[httpcore.TimeoutException]) -> float | None:
    """Return how many seconds this wait may take; ``None`` for no limit."""
    if not isinstance(timeout, Deadline):
        return timeout
    left = timeout.left
    if not left:
        raise over("the timeout of the call expired")
    return left
