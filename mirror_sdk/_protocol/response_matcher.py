"""Matches the responses in notification messages with the device requests that wait for them.

Nothing in here waits, locks or does I/O.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import datetime
from weakref import WeakValueDictionary

from mirror_sdk.events import utc_now
from mirror_sdk.wire.log_entries import Entry, Unreadable
from mirror_sdk.wire.notifications import AsyncResponse

MAX_UNCLAIMED = 10_000


class AwaitedResponse:
    """The response to a device request. It may still be missing.

    Attributes:
        async_id: Identity of the request.
        response: The response; ``None`` until then.
        received_at: When it arrived, by the wall clock of this machine.
        received_seconds: The same by a clock that never jumps.
        lost: First and last number of the log entries that were lost while this waited, as far as they are known: the
            response may be one of them. ``None`` if there are none, or the program was warned of them.
    """

    __slots__ = ("__weakref__", "async_id", "lost", "received_at", "received_seconds", "response")

    def __init__(self, async_id: str, response: AsyncResponse | None = None) -> None:
        self.async_id: str = async_id
        self.response: AsyncResponse | None = response
        self.received_at: datetime | None = None
        self.received_seconds: float | None = None
        self.lost: tuple[int | None, int | None] | None = None


class ResponseMatcher:
    """A matcher that delivers each response once, to the request that expects it.

    An awaited response lives as long as a request handle refers to it. So a wait that timed out can be resumed, and the
    memory of a dropped handle is freed. Of the responses that no request expects (yet), the newest ``keep`` are stored.

    Attributes:
        duplicates: How many responses came again for a request that had its own.
        dropped: How many unclaimed responses had to make room for newer ones.
        unreadable: How many entries could not be read.
    """

    def __init__(
        self,
        keep: int = MAX_UNCLAIMED,
        now: Callable[[], datetime] = utc_now,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keep = keep
        self._clock = clock
        self._now = now
        # Weak, so that a dropped handle does not leave its awaited response here forever.
        self._awaited_responses: WeakValueDictionary[str, AwaitedResponse] = WeakValueDictionary()
        # Those of them that have no response yet.
        self._open: WeakValueDictionary[str, AwaitedResponse] = WeakValueDictionary()
        self._unclaimed: OrderedDict[str, AsyncResponse] = OrderedDict()
        # Async-ids of responses that came with their requests, and that the log will bring again.
        self._early: set[str] = set()
        self.duplicates: int = 0
        self.dropped: int = 0
        self.unreadable: int = 0

    @property
    def unclaimed(self) -> int:
        """The number of stored responses that no request expects."""
        return len(self._unclaimed)

    @property
    def waiting(self) -> int:
        """The number of expected responses that have not arrived."""
        return len(self._open)

    @property
    def may_accept(self) -> bool:
        """Whether a request may get its response with the 202, without reading the log.

        If other requests wait, the log has to be read for them anyway. The log delivers each such response again, and
        the matcher has to remember it until then. So their number is limited.
        """
        return self.waiting <= 1 and len(self._early) < self._keep

    def expect(self, async_id: str) -> AwaitedResponse:
        """Return the awaited response to a request. Call this before sending the request, so that none is missed."""
        awaited_response = self._awaited_responses.get(async_id)
        if awaited_response is None:
            # For an async-id that was used before, the response may have arrived already.
            awaited_response = AwaitedResponse(async_id, self._unclaimed.pop(async_id, None))
            self._awaited_responses[async_id] = awaited_response
            if awaited_response.response is None:
                self._open[async_id] = awaited_response
        return awaited_response

    def give_up(self, awaited_response: AwaitedResponse) -> None:
        """Stop waiting for a response. An error of the request may still refer to this response."""
        self._open.pop(awaited_response.async_id, None)

    def feed(self, entries: Iterable[Entry]) -> set[str]:
        """Deliver the responses among the entries, and count the unreadable entries.

        Returns:
            The names of the lists with unreadable entries.
        """
        unreadable: set[str] = set()
        for entry in entries:
            if isinstance(entry.body, AsyncResponse):
                self._deliver(entry.body)
            elif isinstance(entry.body, Unreadable):
                self.unreadable += 1
                unreadable.add(entry.key)
        return unreadable

    def feed_responses(self, entries: Iterable[Entry], awaited: set[str]) -> None:
        """Deliver only the responses with these async-ids; the reader of the log delivers the others later."""
        for entry in entries:
            if isinstance(entry.body, AsyncResponse) and entry.body.id in awaited:
                awaited.discard(entry.body.id)
                self._deliver(entry.body)

    def pass_over_log(self) -> None:
        """Note that the current entries of the log will not be read."""
        self._early.clear()

    def accept(self, response: AsyncResponse, *, comes_again: bool) -> None:
        """Deliver a response that came with its request. If the log delivers it again, the matcher ignores it."""
        awaited_response = self._awaited_responses.get(response.id)
        # The log may have been faster.
        if awaited_response is not None and awaited_response.response is None:
            self._fulfil(awaited_response, response)
            if comes_again:
                self._early.add(response.id)

    def note_loss(self, first_seq: int | None, last_seq: int | None) -> None:
        """Note that entries of the log are lost, and that any missing response may be one of them."""
        # A list, because the garbage collector may remove an entry during the loop.
        for awaited_response in list(self._open.values()):
            awaited_response.lost = (first_seq, last_seq)

    def _deliver(self, response: AsyncResponse) -> None:
        awaited_response = self._awaited_responses.get(response.id)
        if response.id in self._early:
            # The 202 has already brought it, so the service did not send a duplicate.
            self._early.discard(response.id)
        elif awaited_response is not None and awaited_response.response is None:
            self._fulfil(awaited_response, response)
        elif awaited_response is not None or response.id in self._unclaimed:
            self.duplicates += 1
        else:
            # Another process with this key may have sent the request, or a later resume() may claim the response.
            self._unclaimed[response.id] = response
            if len(self._unclaimed) > self._keep:
                self._unclaimed.popitem(last=False)
                self.dropped += 1

    def _fulfil(self, awaited_response: AwaitedResponse, response: AsyncResponse) -> None:
        self._open.pop(awaited_response.async_id, None)
        awaited_response.response = response
        awaited_response.received_at = self._now()
        awaited_response.received_seconds = self._clock()
