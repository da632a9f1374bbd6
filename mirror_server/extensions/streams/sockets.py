"""What is sent through one websocket, and the websockets of readers with positions of their own [an extension].

A reader that names a position gets what follows it, as by a poll that names one: any number of them may read with one
key, and nothing is removed. What the headers of such a poll tell stands beside the entries.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from mirror_sdk.wire.routes import CURSOR_HEADER, GAP_HEADER, TIME_HEADER
from mirror_server.core.errors import ApiError
from mirror_server.core.instants import Instant
from mirror_server.notifications.log import MAX_ENTRIES, EntryWaiter, NotificationLog, Page

MOST_AT_ONCE = 200
"""How many entries a websocket that catches up gets in one message: others wait while it is made."""

GOING_AWAY = 1001
POLICY = 1008
UNEXPECTED = 1011


class Closing(Exception):
    """The websocket is to be closed, with a code of RFC 6455 and a reason for people."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(slots=True, eq=False)
class Frame:
    """A message to send, and the number of the entry it goes up to.

    ``is_last`` is whether the log ended there when it was made. ``encoded`` is the message as it goes over a
    connection: the first one that sends it encodes it for all that share it.
    """

    text: bytes
    cursor: int
    is_last: bool
    encoded: bytes | None = None


class StreamSocket(Protocol):
    """What is sent through one websocket."""

    def begin(self, wake: Callable[[], None]) -> Future[Any]:
        """Begin; ``wake`` is called, from any thread, when it is to end. The future raises :class:`Closing`."""
        ...

    def more(self) -> EntryWaiter:
        """A future that is done when there is something to take; ask for it before taking."""
        ...

    def take(self, more: EntryWaiter | None) -> Frame | None:
        """The next message; ``None`` if there is nothing new.

        Args:
            more: The future that was done last, which may have what was added at hand.

        Raises:
            Closing: It is to be closed.
        """
        ...

    def look(self) -> Frame | None:
        """See whether it is to go on, now and then; gives what there is to tell where nothing happens.

        Raises:
            Closing: It is not.
        """
        ...

    def confirmed(self, seq: int) -> None:
        """The client has all up to this number."""
        ...

    def close(self) -> None:
        """It is open no more."""
        ...


class ReaderSocket:
    """The websocket of a reader with a position of its own.

    Args:
        log: What is read.
        app_id: Whose log it is.
        after: The number behind which it begins.
        is_admitted: Whether the key it was opened with is good still.
        frame_of: Writes a page, see :func:`reader_frame`.
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

    def begin(self, wake: Callable[[], None]) -> Future[None]:  # noqa: ARG002 - nothing ends it from outside
        """See :class:`StreamSocket`."""
        begun: Future[None] = Future()
        begun.set_result(None)
        return begun

    def more(self) -> EntryWaiter:
        """See :class:`StreamSocket`."""
        return self._log.entry_waiter(self._app_id)

    def take(self, more: EntryWaiter | None) -> Frame | None:
        """See :class:`StreamSocket`; the first one tells the position, also where nothing is new."""
        page = self._page(more)
        if not (page.entries or page.gap) and self._has_sent:
            return None
        if not self._is_admitted():
            raise revoked()
        return self._frame(page)

    def look(self) -> Frame:
        """See :class:`StreamSocket`; it tells up to which instant all has been read."""
        if not self._is_admitted():
            raise revoked()
        return self._frame(self._page(None))

    def confirmed(self, seq: int) -> None:
        """See :class:`StreamSocket`."""
        self._log.note_read(self._app_id, seq)

    def close(self) -> None:
        """See :class:`StreamSocket`; there is nothing to give back."""

    def _page(self, more: EntryWaiter | None) -> Page:
        return read_page(self._log, self._app_id, self._position, more)

    def _frame(self, page: Page) -> Frame:
        self._position = page.cursor
        self._has_sent = True
        return page.once(self._frame_of)


def read_page(log: NotificationLog, app_id: str, after: int, more: EntryWaiter | None, most: int = MAX_ENTRIES) -> Page:
    """What follows the number ``after``, at most so many entries; see :meth:`Socket.take`.

    Raises:
        Closing: The log went with the key.
    """
    try:
        if more is None:
            return log.read(app_id, after, min(most, MOST_AT_ONCE))
        return log.read_new(app_id, after, more, most)
    except ApiError as api_error:
        raise revoked() from api_error


def reader_frame(page: Page, show_instant: Callable[[Instant], str]) -> Frame:
    """What a reader with a position of its own is told of a page."""
    told: dict[str, object] = {CURSOR_HEADER.lower(): page.cursor}
    if page.gap is not None:
        told[GAP_HEADER.lower()] = "{}-{}".format(*page.gap)
    if page.settled_at is not None:
        told[TIME_HEADER.lower()] = show_instant(page.settled_at)
    text = orjson.dumps(told)
    return Frame(text[:-1] + b"," + page.message[1:] if page.entries else text, page.cursor, page.is_last)


def stopping() -> Closing:
    """The end of a websocket whose server stops."""
    return Closing(GOING_AWAY, "the server stops; connect again to go on where it was")


def revoked() -> Closing:
    """The end of a websocket whose key is good no more."""
    return Closing(POLICY, "this access key was renewed or revoked; connect with one that is good")
