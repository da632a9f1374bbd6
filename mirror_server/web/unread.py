"""Back-pressure: what clients leave unread of their answers is counted, and bounded for each application."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from mirror_server.web.one_write import is_disconnected
from mirror_server.web.wsgi_call import Answer, Send, send_pieces


class Unread:
    """How much of the answers of each application waits for its clients to take it.

    Args:
        most_bytes: With this much an application gets no further answers before it has taken some.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes: Counter[str] = Counter()
        self._taken = asyncio.Event()

    @property
    def total_bytes(self) -> int:
        """That of all applications."""
        return self._bytes.total()

    def is_full(self, app_id: str) -> bool:
        """Whether this application leaves as much unread as it may."""
        return app_id in self._bytes and self._bytes[app_id] >= self._most_bytes

    async def room(self, app_id: str) -> None:
        """Wait until it took some, or its connections ended, which those of a client that takes nothing do."""
        while self.is_full(app_id):
            self._taken.clear()
            await self._taken.wait()

    @contextmanager
    def waiting(self, app_id: str, size: int) -> Iterator[None]:
        """Meanwhile so much more waits, until it is taken or not sent any more."""
        self._bytes[app_id] += size
        try:
            yield
        finally:
            self._bytes[app_id] -= size
            if not self._bytes[app_id]:
                del self._bytes[app_id]
            self._taken.set()

    def reader(self, app_id: str, send: Send) -> Reader:
        """The client of a request of this application."""
        return Reader(self, app_id, send)


class Reader:
    """The client of one request: it gets its answer as fast as it takes it, and what waits is counted."""

    __slots__ = ("_app_id", "_send", "_unread")

    def __init__(self, unread: Unread, app_id: str, send: Send) -> None:
        self._unread = unread
        self._app_id = app_id
        self._send = send

    @property
    def is_gone(self) -> bool:
        """Whether it is known to have gone away, which its task hears of in a moment."""
        return is_disconnected(self._send)

    @property
    def must_wait(self) -> bool:
        """Whether its application is to take other answers first."""
        return self._unread.is_full(self._app_id)

    async def room(self) -> None:
        """Wait until an answer may be made for it."""
        await self._unread.room(self._app_id)

    def send_at_once(self, answer: Answer) -> bool:
        """Send an answer without waiting for anything; false where that is not possible."""
        return answer.send_at_once(self._send)

    async def begin(self, answer: Answer) -> None:
        """Send the head of an answer."""
        await self._send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})

    async def send(self, answer: Answer) -> None:
        """Send an answer."""
        with self.waiting(len(answer.body)):
            await answer.send(self._send)

    def waiting(self, size: int) -> AbstractContextManager[None]:
        """Meanwhile so much more waits."""
        return self._unread.waiting(self._app_id, size)

    async def send_chunk(self, chunk: bytes) -> None:
        """Send a part of an answer."""
        await send_pieces(self._send, chunk, is_end=False)

    async def end(self) -> None:
        """Send that this was all."""
        await self._send({"type": "http.response.body", "body": b""})
