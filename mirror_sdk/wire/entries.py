"""What a message of the notification log holds: its entries in their order, and what was lost before them.

Nothing in here waits or does I/O. Source: wire.md 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

from pydantic import ValidationError

from mirror_sdk.wire.model import JsonForm
from mirror_sdk.wire.notifications import AsyncResponse, Notification, RegistrationEvent
from mirror_sdk.wire.routes import MAX_SEQ_DIGITS


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


NUMBERS_LEFT_OUT = 2**40
"""How many numbers a log that went back to an earlier state leaves out at once: more than a log ever had entries.

It may do so 8000 times until a number is none that every JSON has.
"""


@dataclass(frozen=True, slots=True)
class Gap:
    """Entries of the notification log that are gone; numbers are ``None`` where nobody knows them any more."""

    first_seq: int | None
    last_seq: int | None


def count_missing(first_seq: int | None, last_seq: int | None) -> int | None:
    """How many entries are gone from one number to another; ``None`` where the numbers do not tell."""
    if first_seq is None or last_seq is None:
        return None
    count = last_seq - first_seq + 1
    return count if count < NUMBERS_LEFT_OUT // 2 else None


@dataclass(frozen=True, slots=True)
class Batch:
    """What one look into the log gave.

    Attributes:
        entries: In the order of the log; each may be read when its turn comes.
        seq: Number of the last entry, the position behind all of them.
        gap: What was lost before these entries.
        served_at: By the service's clock, the instant before which all that it took in stands in the log up to
            ``seq``; ``None`` where it does not tell. See :class:`mirror_sdk._protocol.operations.Poll`.
    """

    entries: Iterable[Entry] = ()
    seq: int | None = None
    gap: Gap | None = None
    served_at: datetime | None = None


NOTHING = Batch()
