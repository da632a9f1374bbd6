"""Server-sent events: the notification log as a stream [an extension]. Source: wire.md 4.

Each entry of the log is sent as one event. The number of the entry is the id of the event. The list that the entry
belongs to is the name of the event, and the entry as JSON is its data. If entries are missing, an event named ``gap``
is sent instead. A client that reconnects with ``Last-Event-ID`` continues after that id.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import orjson

from mirror_server.core.errors import ApiError
from mirror_server.core.messages import CURSOR_EXTRAS, LogEntry, entry_json
from mirror_server.notifications.log import EntryWaiter, NotificationLog
from mirror_server.store.backend import StorageFailed
from mirror_server.views.deferred_responses import StreamedResponse, until_done, wait_for
from mirror_server.web.wsgi_adapter import ResponseReader

HEARTBEAT_SECONDS = 15
HEARTBEAT = b": still here\n\n"
_LONGEST_SECONDS = 55
# Encoding blocks all other requests, so the number of events per chunk is limited.
_MAX_EVENTS = 100
_HEAD = b"retry: 2000\n\n"
EXAMPLE = (
    "retry: 2000\n\n"
    'id: 41\nevent: notifications\ndata: {"ep":"015f2ab4c6d80000000000010010003f","path":"/3303/0/5700",'
    '"ct":"text/plain","payload":"NDA2","max-age":0,"uid":"8b8df6a6-0f2c-4a39-8a8e-9b7a52a4a0f3",'
    '"timestamp":1614180566644}\n\n'
    ": still here\n\n"
    'id: 57\nevent: gap\ndata: {"first":42,"last":57}\n\n'
)
"""An example of a stream for the OpenAPI description."""
# A proxy would otherwise buffer a stream before it passes the stream on. A proxy that compresses would not even start
# to send it.
_UNBUFFERED = {"X-Accel-Buffering": "no"}


class EventStream(StreamedResponse):
    """A response that streams the notification log and does not end by itself.

    If the server has to block a thread for the stream, the stream ends after a minute. The client then reconnects
    automatically and continues at its position. If the log no longer exists, ``is_over`` is set.

    Args:
        log: The log to stream.
        app_id: The application whose log is streamed.
        after: The number of the entry after which the stream starts.
        is_admitted: A function that returns whether the access key is still valid. It is called from time to time.
    """

    is_poll = True

    def __init__(
        self, log: NotificationLog, app_id: str, after: int, is_admitted: Callable[[], bool] = lambda: True
    ) -> None:
        super().__init__(self._blocking(), content_type="text/event-stream", headers=_UNBUFFERED)
        self._log = log
        self._app_id = app_id
        self._after = after
        self._is_admitted = is_admitted
        self._check_key_at = time.monotonic() + HEARTBEAT_SECONDS
        self.is_over = False

    def more(self) -> EntryWaiter:
        """Return a future that completes when new events arrive. Call this before :meth:`next_events`."""
        return self._log.entry_waiter(self._app_id)

    def next_events(self) -> bytes:
        """Return the next events, at most 100. The result is empty if there are none."""
        try:
            page = self._log.read(self._app_id, self._after, _MAX_EVENTS)
        except ApiError:
            # The key was revoked, and its log was deleted.
            self.is_over = True
            return b""
        now = time.monotonic()
        if page.entries or page.gap or now >= self._check_key_at:
            # The key may have been renewed or revoked in the meantime. In that case the client must not receive any
            # data.
            self._check_key_at = now + HEARTBEAT_SECONDS
            self.is_over = not self._is_admitted()
            if self.is_over:
                return b""
        self._after = page.cursor
        self._log.note_read(self._app_id, page.cursor)
        gap = [_event(page.gap[1], "gap", {"first": page.gap[0], "last": page.gap[1]})] if page.gap else []
        return b"".join([*gap, *map(_event_of, page.entries)])

    def first_events(self) -> bytes:
        """Return the start of the stream, including the first events."""
        return _HEAD + self.next_events()

    async def send(self, reader: ResponseReader, ends: Mapping[asyncio.Future[Any], str]) -> bool:
        """Send events as they arrive, until the client disconnects or the server stops."""
        # If the database fails, the stream ends, and the client reconnects with its position.
        with suppress(StorageFailed):
            await self._send(reader, self.first_events())
            # Events count as read when they are sent. So nothing is sent to a client that has disconnected, even while
            # the stream waited for buffer space.
            while not (self.is_over or reader.is_disconnected or any(end.done() for end in ends)):
                # Create the future before reading. Otherwise an entry that arrives in between would not wake this loop.
                more = self.more()
                chunk = self.next_events()
                if not (chunk or self.is_over):
                    chunk = b"" if await until_done(more, HEARTBEAT_SECONDS, *ends) else HEARTBEAT
                more.cancel()
                await self._send(reader, chunk)
        return True

    @staticmethod
    async def _send(reader: ResponseReader, chunk: bytes) -> None:
        with reader.counting(len(chunk)):
            await reader.send_chunk(chunk)
        # If the client receives everything immediately, sending never waits. This lets other tasks run.
        await asyncio.sleep(0)
        await reader.wait_for_room()

    def _blocking(self) -> Iterator[bytes]:
        end_at = time.monotonic() + _LONGEST_SECONDS
        yield self.first_events()
        while not (self.is_over or self.is_interrupted()) and (remaining_seconds := end_at - time.monotonic()) > 0:
            more = self.more()
            try:
                chunk = self.next_events()
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
