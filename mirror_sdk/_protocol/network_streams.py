"""The connections of the synchronous client. Each of their waits ends at the deadline of the call.

httpx limits only each single wait for a chunk of a response, so it never times out if a service sends a byte now and
then. The streams in this module know when the call ends. The timeout of each wait is a
:class:`~mirror_sdk._protocol.deadline.Deadline`, from which the stream reads the remaining time. An event loop does not
need these streams, because a task can be cancelled while it waits.
"""

from __future__ import annotations

# Resolving a host name imports this module. A fork during that import would leave it locked in the child process.
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
    """The open connections of a client, which are closed together.

    The pool closes only the connections that it already has. This class also closes the ones that a thread is opening.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: weakref.WeakSet[_Stream] = weakref.WeakSet()
        self._is_closed = False

    def add(self, stream: _Stream) -> None:
        """Add a connection.

        Raises:
            httpcore.ConnectError: The other connections are already closed, so this one was closed, too.
        """
        with self._lock:
            is_too_late = self._is_closed
            if not is_too_late:
                self._open.add(stream)
        if is_too_late:
            stream.close()
            raise httpcore.ConnectError("the client was closed")

    def hang_up(self) -> None:
        """Shut down all connections. Unlike closing, this also wakes threads that are waiting for data."""
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
    """A backend of httpcore that creates connections with a deadline."""

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
        """Connect to the first reachable address of a host. The timeout applies to all of its addresses together."""
        *others, last = addresses = _addresses(host, port, timeout)
        for address in others:
            left = _left(timeout, httpcore.ConnectTimeout)
            # Each address gets its share of the time, so that an unreachable one leaves time for the next one.
            share = None if left is None else left / len(addresses)
            try:
                stream = self._backend.connect_tcp(address, port, share, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
            return _Stream(stream, timeout, self._streams)
        # The last address may use all of the remaining time, and the caller gets its error.
        left = _left(timeout, httpcore.ConnectTimeout)
        stream = self._backend.connect_tcp(last, port, left, local_address, socket_options)
        return _Stream(stream, timeout, self._streams)


def _addresses(host: str, port: int, timeout: float | None) -> list[str]:
    """Resolve a host name in a thread that can be abandoned, because the operating system has no timeout for it."""
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
    # All kinds of errors, because the caller waits for a result.
    except Exception as exc:
        found.set_exception(exc)


class _Stream(httpcore.NetworkStream):
    """A connection whose waits end at the deadline of the call.

    Args:
        stream: The connection.
        connecting: The limit for opening the connection. It is also used if httpcore passes no limit, as during the
            handshake with a SOCKS proxy.
        streams: The connections that are closed together with this one.

    Raises:
        httpcore.ConnectError: These connections are already closed.
    """

    def __init__(self, stream: httpcore.NetworkStream, connecting: float | None, streams: OpenStreams) -> None:
        self._stream = stream
        self._connecting = connecting
        self._streams = streams
        self._unsent = b""
        self._expected = 0
        self._sending: float | None = None
        self._in_handshake: socket.socket | None = None
        # This is the last step, because another thread may shut all streams down as soon as this one is among them.
        streams.add(self)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Send the buffered bytes, then wait for received bytes and return them."""
        # A service that rejects a request may close the connection at once, but its response may still arrive.
        with suppress(httpcore.WriteError):
            self._send()
        received = self._stream.read(max(max_bytes, self._expected), self._left(timeout, httpcore.ReadTimeout))
        # If as many bytes arrive as httpcore requests, larger reads are faster.
        self._expected = _RECEIVE_BYTES if len(received) >= max_bytes else 0
        return received

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Buffer data to send. Small data waits for the next write or read, so that headers and body are sent together.

        Otherwise, each small packet would wake the receiver.
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
        """Shut the connection down, which wakes the thread that waits for it."""
        _shut_down(self._stream.get_extra_info("socket"))
        # Afterwards, because a handshake that started in the meantime took the connection from the other socket.
        _shut_down(self._in_handshake)

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Return the same connection with encryption."""
        left = self._left(timeout, httpcore.ConnectTimeout)
        sock = self._stream.get_extra_info("socket")
        # A second encryption through a proxy uses the same socket. In all other cases, the handshake detaches the
        # socket, so only a duplicate can shut the connection down.
        try:
            duplicate = nullcontext() if isinstance(sock, ssl.SSLSocket) else sock.dup()
        except OSError as exc:
            raise httpcore.ConnectError(str(exc)) from exc
        with duplicate as self._in_handshake:
            stream = self._stream.start_tls(ssl_context, server_hostname, left)
        return _Stream(stream, self._connecting, self._streams)

    def get_extra_info(self, info: str) -> Any:
        """Return information about the connection, such as its socket."""
        return self._stream.get_extra_info(info)

    def _left(self, timeout: float | None, over: type[httpcore.TimeoutException]) -> float | None:
        return _left(self._connecting if timeout is None else timeout, over)


def _shut_down(sock: object) -> None:
    # Not SSLSocket.shutdown, because another thread may be reading. Errors are ignored, as the server may have
    # disconnected.
    if isinstance(sock, socket.socket):
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _left(timeout: float | None, over: type[httpcore.TimeoutException]) -> float | None:
    """Return how many seconds this wait may take, or ``None`` for no limit."""
    if not isinstance(timeout, Deadline):
        return timeout
    left = timeout.left
    if not left:
        raise over("the timeout of the call expired")
    return left
