"""Assignment of the responses in notification messages to the device requests that wait for them.

This module does not wait, uses no locks and performs no I/O.
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
    """A response to a device request, which may not have arrived yet.

    Attributes:
        async_id: The async-id of the request.
        response: The response, or ``None`` until it has arrived.
        received_at: The time at which the response arrived, by the wall clock of this machine.
        received_seconds: The same time by a monotonic clock.
        lost: The first and last number of the log entries that were lost while the request waited, as far as they are
            known. The response may be one of these entries. It is ``None`` if no entries were lost, or the program has
            already been warned.
    """

    __slots__ = ("__weakref__", "async_id", "lost", "received_at", "received_seconds", "response")

    def __init__(self, async_id: str, response: AsyncResponse | None = None) -> None:
        self.async_id: str = async_id
        self.response: AsyncResponse | None = response
        self.received_at: datetime | None = None
        self.received_seconds: float | None = None
        self.lost: tuple[int | None, int | None] | None = None


class ResponseMatcher:
    """Delivers each response once, to the request that expects it.

    An awaited response exists as long as a request handle refers to it. You can therefore wait again after a timeout,
    and the memory of a deleted handle is freed. Of the responses that no request expects yet, the newest ``keep`` are
    stored.

    Attributes:
        duplicates: The number of responses that arrived again for a request that already had its response.
        dropped: The number of unclaimed responses that were deleted to make room for newer ones.
        unreadable: The number of entries that could not be read.
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
        # Weak, so that the awaited response of a deleted handle does not stay here forever.
        self._awaited_responses: WeakValueDictionary[str, AwaitedResponse] = WeakValueDictionary()
        # The awaited responses that have not arrived yet.
        self._open: WeakValueDictionary[str, AwaitedResponse] = WeakValueDictionary()
        self._unclaimed: OrderedDict[str, AsyncResponse] = OrderedDict()
        # The async-ids of responses that arrived with the 202, and that the log will contain again.
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
        """Whether a request may receive its response with the 202, without reading the log.

        If other requests are waiting, the log has to be read for them anyway. The log also contains each response that
        arrived with a 202. The matcher has to remember these responses until then, so their number is limited.
        """
        return self.waiting <= 1 and len(self._early) < self._keep

    def expect(self, async_id: str) -> AwaitedResponse:
        """Return the awaited response to a request. Call this before you send the request, to miss no response."""
        awaited_response = self._awaited_responses.get(async_id)
        if awaited_response is None:
            # If the async-id was used before, its response may have arrived already.
            awaited_response = AwaitedResponse(async_id, self._unclaimed.pop(async_id, None))
            self._awaited_responses[async_id] = awaited_response
            if awaited_response.response is None:
                self._open[async_id] = awaited_response
        return awaited_response

    def give_up(self, awaited_response: AwaitedResponse) -> None:
        """Stop waiting for a response, even if an error of its request still refers to it."""
        self._open.pop(awaited_response.async_id, None)

    def feed(self, entries: Iterable[Entry]) -> set[str]:
        """Deliver the responses among log entries, and count the entries that cannot be read.

        Returns:
            The names of the lists that contain unreadable entries.
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
        """Deliver only the responses with these async-ids. The reader of the log delivers the other ones later."""
        for entry in entries:
            if isinstance(entry.body, AsyncResponse) and entry.body.id in awaited:
                awaited.discard(entry.body.id)
                self._deliver(entry.body)

    def pass_over_log(self) -> None:
        """Record that the current entries of the log will not be read."""
        self._early.clear()

    def accept(self, response: AsyncResponse, *, comes_again: bool) -> None:
        """Deliver a response that arrived with the 202. If the log contains it again, it is ignored there."""
        awaited_response = self._awaited_responses.get(response.id)
        # The response may already have arrived through the log.
        if awaited_response is not None and awaited_response.response is None:
            self._fulfil(awaited_response, response)
            if comes_again:
                self._early.add(response.id)

    def note_loss(self, first_seq: int | None, last_seq: int | None) -> None:
        """Record that entries of the log were lost, which may include any of the missing responses."""
        # A copy of the list, because the garbage collector may remove an entry during the loop.
        for awaited_response in list(self._open.values()):
            awaited_response.lost = (first_seq, last_seq)

    def _deliver(self, response: AsyncResponse) -> None:
        awaited_response = self._awaited_responses.get(response.id)
        if response.id in self._early:
            # The response arrived with the 202 before, so this is not a duplicate of the service.
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
