"""A TLS socket for two threads, of which one receives while the other one sends."""

from __future__ import annotations

import math
import selectors
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_RETRY_SECONDS = 0.05


class TwoThreadTLSSocket(ssl.SSLSocket):
    """A TLS socket that performs one operation at a time, and lets the other thread continue while it waits.

    OpenSSL does not support a read and a write of the same connection at the same time, and Python does not prevent it.
    If one thread sends while another one reads the session tickets that follow the handshake, the data may be lost.

    Use it as the ``sslsocket_class`` of a TLS context, for connected sockets that block.
    """

    _mutex: threading.Lock | None = None
    _limit_seconds: float | None = None

    def do_handshake(self, block: bool = False) -> None:
        """Perform the handshake, during which only one thread uses the socket."""
        super().do_handshake(block)
        self._mutex = threading.Lock()
        self.settimeout(self.gettimeout())

    def settimeout(self, value: float | None, /) -> None:
        """Set the maximum duration of an operation in seconds; ``None`` for no limit."""
        self._limit_seconds = value
        # After the handshake, OpenSSL must not block, because the other thread could not continue.
        super().settimeout(value if self._mutex is None else 0)

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Receive data; see :meth:`socket.socket.recv`."""
        return self._run(lambda: super(TwoThreadTLSSocket, self).recv(buflen, flags))

    def send(self, data: Any, flags: int = 0) -> int:
        """Send data; see :meth:`socket.socket.send`."""
        return self._run(lambda: super(TwoThreadTLSSocket, self).send(data, flags))

    def _run(self, operation: Callable[[], T]) -> T:
        if self._mutex is None:
            return operation()
        end_at = time.monotonic() + (math.inf if self._limit_seconds is None else self._limit_seconds)
        while True:
            try:
                with self._mutex:
                    return operation()
            except ssl.SSLWantReadError:
                events = selectors.EVENT_READ
            except ssl.SSLWantWriteError:
                events = selectors.EVENT_WRITE
            if time.monotonic() >= end_at:
                raise TimeoutError("timed out")
            with selectors.DefaultSelector() as selector:
                selector.register(self, events)
                # The other thread may have read what this operation needs, so it is repeated even if nothing arrives.
                selector.select(_RETRY_SECONDS)
