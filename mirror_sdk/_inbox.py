"""What came in: the entries of notification messages, and the answers among them that somebody expects.

Nothing in here waits, locks or does I/O.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakValueDictionary

from pydantic import ValidationError

from mirror_sdk.wire.model import JsonForm
from mirror_sdk.wire.notifications import AsyncResponse, Notification, RegistrationEvent
from mirror_sdk.wire.routes import MAX_SEQ_DIGITS

UNCLAIMED_KEPT = 10_000
UNREADABLE_KEPT = 100


@dataclass(frozen=True, slots=True)
class Unreadable(JsonForm):
    """An entry that this version cannot read, as it came, and the list it stood in."""

    key: str
    content: object


EntryBody: TypeAlias = AsyncResponse | Notification | RegistrationEvent | Unreadable


class Entry(NamedTuple):
    """One entry of a message, the list it stood in (``notifications``), and its number where the service tells it."""

    key: str
    body: EntryBody
    seq: int | None = None


def _read_leaving(content: object) -> RegistrationEvent:
    """Devices that left are listed by their id alone, or as objects where a channel asks for those."""
    return RegistrationEvent.model_validate({"ep": content} if isinstance(content, str) else content)


_READERS: dict[str, Callable[[object], EntryBody]] = {
    "async-responses": AsyncResponse.model_validate,
    "notifications": Notification.model_validate,
    "registrations": RegistrationEvent.model_validate,
    "reg-updates": RegistrationEvent.model_validate,
    "de-registrations": _read_leaving,
    "registrations-expired": _read_leaving,
}


def _read_entry(key: str, content: object) -> EntryBody:
    reader = _READERS.get(key)
    if reader is None:
        return Unreadable(key, content)
    try:
        return reader(content)
    except ValidationError:
        return Unreadable(key, content)


class Entries:
    """The entries of a message in the order of the log, each read on its own and when its turn comes.

    So thousands at once are no burden, and one that cannot be read never takes another with it. Where the service
    tells no numbers, or not of every entry, they come in the order of the message, which lists them by kind.

    Args:
        message: The message.

    Source: wire.md 5.
    """

    def __init__(self, message: Mapping[str, object]) -> None:
        self._listed = [
            (_seq_of(one), key, one)
            for key, content in message.items()
            for one in (content if isinstance(content, list) else [content])
        ]
        self._is_numbered = all(_is_number(seq) for seq, _, _ in self._listed)
        if self._is_numbered:
            self._listed.sort(key=itemgetter(0))

    def __iter__(self) -> Iterator[Entry]:
        for seq, key, content in self._listed:
            yield Entry(key, _read_entry(key, content), seq if self._is_numbered else None)

    def __len__(self) -> int:
        return len(self._listed)

    def fault(self, after: int | None, last: int) -> str | None:
        """What is wrong with the numbers that are told; ``None`` where nothing is.

        Args:
            after: The number behind which they begin, where it is known.
            last: The number of the last of them.
        """
        told = [(seq, content) for seq, _, content in self._listed if seq is not None]
        for seq, _ in told:
            if not _is_number(seq):
                return f"an entry has the number {seq!r}, which is none"
            if not (after or 0) < seq <= last:
                return f"an entry has the number {seq}, which is not behind {after or 0} and up to {last}"
        for (seq, content), (next_seq, other) in pairwise(sorted(told, key=itemgetter(0))):
            # The same once more is no lie: its identity shows it.
            if seq == next_seq and content != other:
                return f"two entries have the number {seq}"
        return None


def _seq_of(content: object) -> Any:
    return content.get("seq") if isinstance(content, dict) else None


def _is_number(seq: object) -> bool:
    return isinstance(seq, int) and not isinstance(seq, bool) and abs(seq) < 10**MAX_SEQ_DIGITS


class Expectation:
    """The place where the answer to one device request arrives; ``answer`` is ``None`` until then.

    ``received_seconds`` is when, by a clock that never jumps, and ``received_at`` by the clock on the wall here.
    ``lost`` is what of the log was gone before it could be read while the answer was awaited, by its first and last
    number as far as they are known: the answer may be in it. It is ``None`` where nothing was, or that has been told.
    """

    __slots__ = ("__weakref__", "answer", "async_id", "lost", "received_at", "received_seconds")

    def __init__(self, async_id: str, answer: AsyncResponse | None = None) -> None:
        self.async_id = async_id
        self.answer = answer
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
        self._unclaimed: OrderedDict[str, AsyncResponse] = OrderedDict()
        self.duplicates = 0
        self.dropped = 0
        self.unreadable = 0
        self.newest_unreadable: deque[Unreadable] = deque(maxlen=UNREADABLE_KEPT)

    @property
    def unclaimed(self) -> int:
        """How many answers are kept that nobody expects."""
        return len(self._unclaimed)

    @property
    def waiting(self) -> int:
        """How many answers are expected that have not come."""
        return sum(expectation.answer is None for expectation in list(self._expectations.values()))

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
        return expectation

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

    def note_loss(self, first_seq: int | None, last_seq: int | None) -> None:
        """Entries of the log are gone, among which any answer may be that has not come."""
        for expectation in list(self._expectations.values()):
            if expectation.answer is None:
                expectation.lost = (first_seq, last_seq)

    def feed_answers(self, entries: Iterable[Entry], awaited: set[str]) -> None:
        """Hand out the answers under these async-ids alone: whoever reads for all has the others still to come."""
        for entry in entries:
            if isinstance(entry.body, AsyncResponse) and entry.body.id in awaited:
                awaited.discard(entry.body.id)
                self._deliver(entry.body)

    def _deliver(self, answer: AsyncResponse) -> None:
        expectation = self._expectations.get(answer.id)
        if expectation is None:
            self._keep_unclaimed(answer)
        elif expectation.answer is None:
            expectation.answer = answer
            expectation.received_at = self._now()
            expectation.received_seconds = self._clock()
        else:
            self.duplicates += 1

    def _keep_unclaimed(self, answer: AsyncResponse) -> None:
        if answer.id in self._unclaimed:
            self.duplicates += 1
            return
        self._unclaimed[answer.id] = answer
        if len(self._unclaimed) > self._keep:
            self._unclaimed.popitem(last=False)
            self.dropped += 1
