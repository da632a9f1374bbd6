"""The messages of one websocket, and the websockets of readers that store their own position [an extension].

Such a reader passes ``after``, as in a poll, and gets the entries after that position. Any number of readers can use
one key, and nothing is removed from the log. The values that a poll returns in headers are members of each message.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from mirror_sdk.wire.routes import CURSOR_HEADER, GAP_HEADER, TIME_HEADER
from mirror_server.core.errors import ApiError
from mirror_server.core.timestamps import Instant
from mirror_server.notifications.log import MAX_ENTRIES, EntryWaiter, NotificationLog, Page

MAX_CATCH_UP_ENTRIES = 200
"""The maximum number of entries in one message to a websocket that is catching up.

Encoding more entries at once would delay other requests.
"""

GOING_AWAY = 1001
POLICY = 1008
UNEXPECTED = 1011


class Closing(Exception):
    """An exception that closes the websocket, with a close code of RFC 6455 and a reason for the client."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(slots=True, eq=False)
class Frame:
    """A message to send, with the number of its last entry.

    ``is_last`` is true if the log ended with this entry when the message was created. ``encoded`` is the message in the
    format of the connection. The first websocket that sends the message sets it, and the other websockets with the same
    message reuse it.
    """

    text: bytes
    cursor: int
    is_last: bool
    encoded: bytes | None = None


class StreamSocket(Protocol):
    """The source of the messages of one websocket."""

    def connect(self, wake: Callable[[], None]) -> Future[Any]:
        """Connect the websocket.

        Args:
            wake: A function that wakes the task of the websocket, so that the websocket can be closed. It may be called
                on any thread.

        Returns:
            A future that completes when the websocket is connected. It may raise :class:`Closing`.
        """
        ...

    def more(self) -> EntryWaiter:
        """Return a future that completes when new entries arrive. Call this before :meth:`next_frame`."""
        ...

    def next_frame(self, more: EntryWaiter | None) -> Frame | None:
        """Return the next message, or ``None`` if there is nothing new.

        Args:
            more: The future of :meth:`more` that completed last. It may contain the new entries.

        Raises:
            Closing: The websocket must be closed.
        """
        ...

    def check(self) -> Frame | None:
        """Check whether the websocket may stay open, and return a heartbeat if this kind of websocket has one.

        This is called while there are no new entries.

        Raises:
            Closing: The websocket must be closed.
        """
        ...

    def confirm(self, seq: int) -> None:
        """Record that the client has received all entries up to this number."""
        ...

    def close(self) -> None:
        """Release the resources of the websocket after it was closed."""
        ...


class ReaderSocket:
    """The websocket of a reader that stores its own position.

    Args:
        log: The log to read.
        app_id: The application whose log is read.
        after: The number of the entry after which the websocket starts.
        is_admitted: A function that returns whether the access key is still valid.
        frame_of: A function that encodes a page as a message; see :func:`reader_frame`.
    """

    def __init__(
        self,
        log: NotificationLog,
        app_id: str,
        after: int,
        *,
        is_admitted: Callable[[], bool],
        frame_of: Callable[[Page], Frame],
    ) -> None:
        self._log = log
        self._app_id = app_id
        self._position = after
        self._is_admitted = is_admitted
        self._frame_of = frame_of
        self._has_sent = False

    def connect(self, wake: Callable[[], None]) -> Future[None]:  # noqa: ARG002 - nothing ends it from outside
        """See :class:`StreamSocket`."""
        connected: Future[None] = Future()
        connected.set_result(None)
        return connected

    def more(self) -> EntryWaiter:
        """See :class:`StreamSocket`."""
        return self._log.entry_waiter(self._app_id)

    def next_frame(self, more: EntryWaiter | None) -> Frame | None:
        """See :class:`StreamSocket`. The first message is sent even without entries, to report the position."""
        page = self._page(more)
        if not (page.entries or page.gap) and self._has_sent:
            return None
        if not self._is_admitted():
            raise revoked()
        return self._frame(page)

    def check(self) -> Frame:
        """See :class:`StreamSocket`. The heartbeat contains the time up to which the client has received everything."""
        if not self._is_admitted():
            raise revoked()
        return self._frame(self._page(None))

    def confirm(self, seq: int) -> None:
        """See :class:`StreamSocket`."""
        self._log.note_read(self._app_id, seq)

    def close(self) -> None:
        """See :class:`StreamSocket`. There is nothing to release."""

    def _page(self, more: EntryWaiter | None) -> Page:
        return read_page(self._log, self._app_id, self._position, more)

    def _frame(self, page: Page) -> Frame:
        self._position = page.cursor
        self._has_sent = True
        return page.once(self._frame_of)


def read_page(log: NotificationLog, app_id: str, after: int, more: EntryWaiter | None, most: int = MAX_ENTRIES) -> Page:
    """Return the entries after a number, up to a limit. See :meth:`StreamSocket.next_frame` for ``more``.

    Raises:
        Closing: The key was revoked, and its log was deleted.
    """
    try:
        if more is None:
            return log.read(app_id, after, min(most, MAX_CATCH_UP_ENTRIES))
        return log.read_new(app_id, after, more, most)
    except ApiError as api_error:
        raise revoked() from api_error


def reader_frame(page: Page, format_instant: Callable[[Instant], str]) -> Frame:
    """Return the message for a page of entries, for a reader that stores its own position."""
    members: dict[str, object] = {CURSOR_HEADER.lower(): page.cursor}
    if page.gap is not None:
        members[GAP_HEADER.lower()] = "{}-{}".format(*page.gap)
    if page.settled_at is not None:
        members[TIME_HEADER.lower()] = format_instant(page.settled_at)
    text = orjson.dumps(members)
    return Frame(text[:-1] + b"," + page.message[1:] if page.entries else text, page.cursor, page.is_last)


def stopping() -> Closing:
    """Return the exception that closes a websocket when the server stops."""
    return Closing(GOING_AWAY, "the server stops; connect again to continue")


def revoked() -> Closing:
    """Return the exception that closes a websocket whose key is no longer valid."""
    return Closing(POLICY, "this access key was renewed or revoked; connect with a valid key")
