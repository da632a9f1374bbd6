"""Server-sent events: the notification log as a stream [an extension]. Source: wire.md 4.

An entry is an event: its number is the id, the list it belongs to the event's name, its JSON the data. What is missing
is an event named ``gap``. A client that comes back with ``Last-Event-ID`` goes on behind it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import orjson

from mirror_server.core.errors import ApiError
from mirror_server.core.messages import CURSOR_EXTRAS, LogEntry, entry_json
from mirror_server.notifications.log import EntryWaiter, NotificationLog
from mirror_server.store.backend import StorageFailed
from mirror_server.views.deferred import Streamed, until_done, wait_for
from mirror_server.web.asgi import ResponseReader

HEARTBEAT_SECONDS = 15
HEARTBEAT = b": still here\n\n"
_LONGEST_SECONDS = 55
# Others wait while events are made.
_MOST_AT_ONCE = 100
_BEGIN = b"retry: 2000\n\n"
EXAMPLE = (
    "retry: 2000\n\n"
    'id: 41\nevent: notifications\ndata: {"ep":"015f2ab4c6d80000000000010010003f","path":"/3303/0/5700",'
    '"ct":"text/plain","payload":"NDA2","max-age":0,"uid":"8b8df6a6-0f2c-4a39-8a8e-9b7a52a4a0f3",'
    '"timestamp":1614180566644}\n\n'
    ": still here\n\n"
    'id: 57\nevent: gap\ndata: {"first":42,"last":57}\n\n'
)
"""A stream as its description shows it."""
# nginx gathers an answer before it passes it on, if it is not told; where it compresses, a stream would not even begin.
_PASSED_ON = {"X-Accel-Buffering": "no"}


class EventStream(Streamed):
    """An answer that does not end by itself.

    Under a server that cannot park it, it ends after a minute, so that it does not hold a thread for ever; the client
    comes back by itself, with its position. Where there is no log any more, ``is_over`` is set.

    Args:
        log: What is streamed.
        app_id: Whose log it is.
        after: The number behind which it begins.
        is_admitted: Whether the key it was opened with is good still; asked now and then.
    """

    is_poll = True

    def __init__(
        self, log: NotificationLog, app_id: str, after: int, is_admitted: Callable[[], bool] = lambda: True
    ) -> None:
        super().__init__(self._blocking(), content_type="text/event-stream", headers=_PASSED_ON)
        self._log = log
        self._app_id = app_id
        self._after = after
        self._is_admitted = is_admitted
        self._ask_at = time.monotonic() + HEARTBEAT_SECONDS
        self.is_over = False

    def more(self) -> EntryWaiter:
        """A future that is done when there is something to take; ask for it before taking."""
        return self._log.entry_waiter(self._app_id)

    def take(self) -> bytes:
        """The next events, a part of them where there are many; nothing if there are none."""
        try:
            page = self._log.read(self._app_id, self._after, _MOST_AT_ONCE)
        except ApiError:
            # The key was revoked, and its log went with it.
            self.is_over = True
            return b""
        now = time.monotonic()
        if page.entries or page.gap or now >= self._ask_at:
            # Nothing is told to a key that is good no more: it may have been renewed or revoked meanwhile.
            self._ask_at = now + HEARTBEAT_SECONDS
            self.is_over = not self._is_admitted()
            if self.is_over:
                return b""
        self._after = page.cursor
        self._log.note_read(self._app_id, page.cursor)
        gap = [_event(page.gap[1], "gap", {"first": page.gap[0], "last": page.gap[1]})] if page.gap else []
        return b"".join([*gap, *map(_event_of, page.entries)])

    def begin(self) -> bytes:
        """What the stream begins with."""
        return _BEGIN + self.take()

    async def send(self, reader: ResponseReader, ends: Sequence[asyncio.Future[Any]]) -> bool:
        """Send events as they come, until the client goes away or the server stops."""
        # Without its database it ends; the client comes back with its position.
        with suppress(StorageFailed):
            await self._send(reader, self.begin())
            # What is made for a client that is gone, also while there was no room, would count as read.
            while not (self.is_over or reader.is_disconnected or any(end.done() for end in ends)):
                # Asked for before looking, so that what arrives in between is not waited for.
                more = self.more()
                chunk = self.take()
                if not (chunk or self.is_over):
                    chunk = b"" if await until_done(more, HEARTBEAT_SECONDS, *ends) else HEARTBEAT
                more.cancel()
                await self._send(reader, chunk)
        return True

    @staticmethod
    async def _send(reader: ResponseReader, chunk: bytes) -> None:
        with reader.counting(len(chunk)):
            await reader.send_chunk(chunk)
        # To a client that takes all at once, sending waits for nothing.
        await asyncio.sleep(0)
        await reader.wait_for_room()

    def _blocking(self) -> Iterator[bytes]:
        end_at = time.monotonic() + _LONGEST_SECONDS
        yield self.begin()
        while not (self.is_over or self.is_interrupted()) and (remaining_seconds := end_at - time.monotonic()) > 0:
            more = self.more()
            try:
                chunk = self.take()
                if not (chunk or self.is_over):
                    seconds = min(remaining_seconds, HEARTBEAT_SECONDS)
                    chunk = b"" if wait_for(more, seconds, self.is_interrupted) else HEARTBEAT
            finally:
                more.cancel()
            yield chunk


def _event_of(entry: LogEntry) -> bytes:
    return _event(entry.seq, entry.kind, entry_json(entry, CURSOR_EXTRAS))


def _event(seq: int, name: str, data: object) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, name.encode("ascii"), orjson.dumps(data))
