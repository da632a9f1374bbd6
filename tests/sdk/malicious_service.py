"""A service on a real socket that sends its clients any bytes at any pace."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Self

from waits import PATIENCE_SECONDS

PACE_SECONDS = 0.02
"""The pause between two bytes. It is far below any limit of a client, so that no single wait is too long."""
BRIEFLY = 0.3
"""A limit on a call, in seconds."""
AT_MOST = 30.0
"""The time within which a call with that limit must end, even on a busy machine."""


Chunks = Callable[[bytes], Iterable[bytes]]
"""Maps a request to the chunks of its response, which are sent with pauses."""


class MaliciousService:
    """A service that responds to each request, and then waits for the client to hang up.

    Args:
        respond: Returns the chunks of each response.
    """

    def __init__(self, respond: Chunks) -> None:
        self._respond = respond
        self._stopped = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        # Connections that were accepted last are closed too.
        self._threads[0].join(60)
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        # A client without a limit ends here too, so that its test fails.
        ends_at = time.monotonic() + PATIENCE_SECONDS
        try:
            while (request := self._request(connection)) is not None:
                for piece in self._respond(request):
                    connection.sendall(piece)
                    if self._stopped.wait(PACE_SECONDS) or time.monotonic() > ends_at:
                        return
        except OSError:
            return
        finally:
            connection.close()

    def _request(self, connection: socket.socket) -> bytes | None:
        connection.settimeout(PATIENCE_SECONDS)
        request = b""
        while b"\r\n\r\n" not in request:
            if not (some := connection.recv(65_536)):
                return None
            request += some
        return request


def one_by_one(*parts: bytes) -> Iterator[bytes]:
    """Yield all parts, the last one byte by byte, and then spaces for ever."""
    *complete, last = parts
    yield from complete
    yield from (bytes([byte]) for byte in last)
    yield from itertools.repeat(b" ")
