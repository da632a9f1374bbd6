"""The messages of one websocket, and websockets of readers that store their own position [an extension].

Like a poll with ``after``, such a reader gets the entries after its position. Any number of readers can use one key,
and nothing is removed from the log. The values of the poll's headers are members of each message.
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
"""Maximum number of entries in one message of a websocket that catches up: encoding more would delay other requests."""

GOING_AWAY = 1001
POLICY = 1008
UNEXPECTED = 1011


class Closing(Exception):
    """A request to close the websocket, with a code of RFC 6455 and a reason in words."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(slots=True, eq=False)
class Frame:
    """A message to send, with the number of its last entry.

    ``is_last`` means that the log ended with this entry when the message was made. ``encoded`` is the message as sent
    over a connection: the first websocket that sends the frame encodes it for all websockets that share it.
    """

    text: bytes
    cursor: int
    is_last: bool
    encoded: bytes | None = None


class StreamSocket(Protocol):
    """The source of the messages of one websocket."""

    def connect(self, wake: Callable[[], None]) -> Future[Any]:
        """Connect. ``wake`` is called, from any thread, to end the websocket. The future may raise :class:`Closing`."""
        ...

    def more(self) -> EntryWaiter:
        """Return a future that is done when there are new entries. Call this before :meth:`next_frame`."""
        ...

    def next_frame(self, more: EntryWaiter | None) -> Frame | None:
        """Return the next message, or ``None`` if there is nothing new.

        Args:
            more: The future that was done last. It may contain the new entries.

        Raises:
            Closing: The websocket is to be closed.
        """
        ...

    def check(self) -> Frame | None:
        """Check whether the websocket may stay open, while there is nothing new. Return a heartbeat if there is one.

        Raises:
            Closing: The websocket is to be closed.
        """
        ...

    def confirm(self, seq: int) -> None:
        """Note that the client has received all entries up to this number."""
        ...

    def close(self) -> None:
        """Release the websocket after it was closed."""
        ...


class ReaderSocket:
    """The websocket of a reader that stores its own position.

    Args:
        log: The log to read.
        app_id: The application of the log.
        after: Start after this number.
        is_admitted: Returns whether the access key is still valid.
        frame_of: Encodes a page; see :func:`reader_frame`.
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
        """See :class:`StreamSocket`. The first message is sent even without entries, for the position."""
        page = self._page(more)
        if not (page.entries or page.gap) and self._has_sent:
            return None
        if not self._is_admitted():
            raise revoked()
        return self._frame(page)

    def check(self) -> Frame:
        """See :class:`StreamSocket`. The message contains the instant up to which everything has been read."""
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
    """Return the entries after a number, up to a limit; see :meth:`StreamSocket.next_frame`.

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
    """Return the message with a page for a reader that stores its own position."""
    members: dict[str, object] = {CURSOR_HEADER.lower(): page.cursor}
    if page.gap is not None:
        members[GAP_HEADER.lower()] = "{}-{}".format(*page.gap)
    if page.settled_at is not None:
        members[TIME_HEADER.lower()] = format_instant(page.settled_at)
    text = orjson.dumps(members)
    return Frame(text[:-1] + b"," + page.message[1:] if page.entries else text, page.cursor, page.is_last)


def stopping() -> Closing:
    """Return the close of a websocket when the server stops."""
    return Closing(GOING_AWAY, "the server stops; connect again to continue")


def revoked() -> Closing:
    """Return the close of a websocket whose key is no longer valid."""
    return Closing(POLICY, "this access key was renewed or revoked; connect with a valid key")
