"""What came in: the entries of notification messages, and the answers among them that somebody expects.

Nothing in here waits, locks or does I/O.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from weakref import WeakValueDictionary

from mirror_sdk.wire.log_entries import Entry, Unreadable
from mirror_sdk.wire.notifications import AsyncResponse

UNCLAIMED_KEPT = 10_000
UNREADABLE_KEPT = 100


class Expectation:
    """The place where the answer to one device request arrives; ``answer`` is ``None`` until then.

    ``received_seconds`` is when, by a clock that never jumps, and ``received_at`` by the clock on the wall here.
    ``lost`` is what of the log was gone before it could be read while the answer was awaited, by its first and last
    number as far as they are known: the answer may be in it. It is ``None`` where nothing was, or that has been told.
    """

    __slots__ = ("__weakref__", "answer", "async_id", "lost", "received_at", "received_seconds")

    def __init__(self, async_id: str, answer: AsyncResponse | None = None) -> None:
        self.async_id: str = async_id
        self.answer: AsyncResponse | None = answer
        self.received_at: datetime | None = None
        self.received_seconds: float | None = None
        self.lost: tuple[int | None, int | None] | None = None


class Inbox:
    """Brings each answer to whoever expects it, once.

    An expectation lives as long as somebody holds it. So a wait that timed out can be taken up again, and a request
    nobody asks about leaves nothing behind. Answers nobody expects (yet) are kept, the newest ``keep`` of them.

    Attributes:
        duplicates: How many answers came again for an expectation that had its own.
        dropped: How many unclaimed answers had to make room for newer ones.
        unreadable: How many entries could not be read; the newest stand in ``newest_unreadable``.
    """

    def __init__(
        self,
        keep: int = UNCLAIMED_KEPT,
        now: Callable[[], datetime] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keep = keep
        self._clock = clock
        self._now = now or partial(datetime.now, UTC)
        # Weak, because a handle that is thrown away must not leave its expectation and answer here for ever.
        self._expectations: WeakValueDictionary[str, Expectation] = WeakValueDictionary()
        # Those of them that have no answer yet.
        self._open: WeakValueDictionary[str, Expectation] = WeakValueDictionary()
        self._unclaimed: OrderedDict[str, AsyncResponse] = OrderedDict()
        self._told: set[str] = set()
        self.duplicates: int = 0
        self.dropped: int = 0
        self.unreadable: int = 0
        self.newest_unreadable: deque[Unreadable] = deque(maxlen=UNREADABLE_KEPT)

    @property
    def unclaimed(self) -> int:
        """How many answers are kept that nobody expects."""
        return len(self._unclaimed)

    @property
    def waiting(self) -> int:
        """How many answers are expected that have not come."""
        return len(self._open)

    @property
    def is_idle(self) -> bool:
        """Whether nobody expects an answer that has not come."""
        return self.waiting == 0

    def expect(self, async_id: str) -> Expectation:
        """The place for the answer to a request; to be asked for before the request is sent, so no answer is early."""
        expectation = self._expectations.get(async_id)
        if expectation is None:
            expectation = Expectation(async_id, self._unclaimed.pop(async_id, None))
            self._expectations[async_id] = expectation
            if expectation.answer is None:
                self._open[async_id] = expectation
        return expectation

    def give_up(self, expectation: Expectation) -> None:
        """Nobody waits for this answer any more, though an error of its request may still hold the place for it."""
        self._open.pop(expectation.async_id, None)

    def feed(self, entries: Iterable[Entry]) -> set[str]:
        """Hand out the answers among the entries and note what cannot be read; other entries are not looked at.

        Returns:
            The names of the lists in which something could not be read.
        """
        unreadable: set[str] = set()
        for entry in entries:
            if isinstance(entry.body, AsyncResponse):
                self._deliver(entry.body)
            elif isinstance(entry.body, Unreadable):
                self.unreadable += 1
                self.newest_unreadable.append(entry.body)
                unreadable.add(entry.key)
        return unreadable

    @property
    def may_take(self) -> bool:
        """Whether who expects an answer may have it with the request, so that the log is not read for that.

        Nobody else expects one, and the log has few that came so and will be brought again.
        """
        return self.waiting <= 1 and len(self._told) < self._keep

    def pass_over_log(self) -> None:
        """What the log has by now will not be read."""
        self._told.clear()

    def take(self, answer: AsyncResponse, *, comes_again: bool) -> None:
        """Hand out an answer that came with its request; where the log will bring it too it is passed over there."""
        expectation = self._expectations.get(answer.id)
        if expectation is None or expectation.answer is not None:
            # The log was faster.
            return
        self._hand_out(expectation, answer)
        if comes_again:
            self._told.add(answer.id)

    def note_loss(self, first_seq: int | None, last_seq: int | None) -> None:
        """Entries of the log are gone, among which any answer may be that has not come."""
        for expectation in list(self._open.values()):
            expectation.lost = (first_seq, last_seq)

    def feed_answers(self, entries: Iterable[Entry], awaited: set[str]) -> None:
        """Hand out the answers under these async-ids alone: whoever reads for all has the others still to come."""
        for entry in entries:
            if isinstance(entry.body, AsyncResponse) and entry.body.id in awaited:
                awaited.discard(entry.body.id)
                self._deliver(entry.body)

    def _deliver(self, answer: AsyncResponse) -> None:
        if answer.id in self._told:
            self._told.discard(answer.id)
            return
        expectation = self._expectations.get(answer.id)
        if expectation is None:
            self._keep_unclaimed(answer)
        elif expectation.answer is None:
            self._hand_out(expectation, answer)
        else:
            self.duplicates += 1

    def _hand_out(self, expectation: Expectation, answer: AsyncResponse) -> None:
        self._open.pop(expectation.async_id, None)
        expectation.answer = answer
        expectation.received_at = self._now()
        expectation.received_seconds = self._clock()

    def _keep_unclaimed(self, answer: AsyncResponse) -> None:
        if answer.id in self._unclaimed:
            self.duplicates += 1
            return
        self._unclaimed[answer.id] = answer
        if len(self._unclaimed) > self._keep:
            self._unclaimed.popitem(last=False)
            self.dropped += 1
