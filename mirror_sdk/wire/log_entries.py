"""The entries of a message of the notification log, in their order, and the gap before them.

Nothing in this module waits or does I/O. Source: wire.md 5.
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
    """An entry that this version cannot read: the entry as received, and the name of its list."""

    key: str
    content: object


EntryBody: TypeAlias = AsyncResponse | Notification | RegistrationEvent | Unreadable


class Entry(NamedTuple):
    """One entry of a message, the name of its list (``notifications``), and its number if the service sends it."""

    key: str
    body: EntryBody
    seq: int | None = None


def _read_leaving(content: object) -> RegistrationEvent:
    """Read a deregistered device, which is an id, or an object if the channel requests that."""
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
    # A list that a later version of the service has added.
    if reader is None:
        return Unreadable(key, content)
    try:
        return reader(content)
    except ValidationError:
        return Unreadable(key, content)


class Entries:
    """The entries of a message in the order of the log.

    Each is read on its own during the iteration, so an unreadable entry does not affect others. If some entries have no
    number, they are in the order of the message, which lists them by kind.

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

    def numbering_error(self, after: int | None, last: int) -> str | None:
        """Return the error in the numbers of the entries; ``None`` if there is none.

        Args:
            after: The number after which they begin, if it is known.
            last: The number of the last of them.
        """
        numbered = [(seq, content) for seq, _, content in self._listed if seq is not None]
        for seq, _ in numbered:
            if not _is_number(seq):
                return f"the number of an entry is {seq!r}, which is not a whole number"
            if not (after or 0) < seq <= last:
                return f"the number of an entry is {seq}; it must be above {after or 0} and at most {last}"
        for (seq, content), (next_seq, other) in pairwise(sorted(numbered, key=itemgetter(0))):
            # The same entry may come twice: its identity shows it.
            if seq == next_seq and content != other:
                return f"two entries have the number {seq}"
        return None


def _seq_of(content: object) -> Any:
    return content.get("seq") if isinstance(content, dict) else None


def _is_number(seq: object) -> bool:
    return isinstance(seq, int) and not isinstance(seq, bool) and abs(seq) < 10**MAX_SEQ_DIGITS


NUMBERS_LEFT_OUT = 2**40
"""Number of entry numbers that a log skips after a restore from a backup: more than a log ever had entries.

After 8000 times, numbers would exceed those that every JSON reader has.
"""


@dataclass(frozen=True, slots=True)
class Gap:
    """Entries of the notification log that are lost; the numbers are ``None`` if they are unknown."""

    first_seq: int | None
    last_seq: int | None


def count_missing(first_seq: int | None, last_seq: int | None) -> int | None:
    """Return how many entries are lost from one number to another. ``None`` if the numbers do not show how many."""
    if first_seq is None or last_seq is None:
        return None
    count = last_seq - first_seq + 1
    return count if count < NUMBERS_LEFT_OUT // 2 else None


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of one poll of the log.

    Attributes:
        entries: The entries in the order of the log; each is read during the iteration.
        seq: The number of the last entry, which is the position after all of them.
        gap: The lost entries before these.
        served_at: An instant by the service's clock: everything it received before is in the log up to ``seq``;
            ``None`` if the service does not send it. See :class:`mirror_sdk._protocol.operations.Poll`.
    """

    entries: Iterable[Entry] = ()
    seq: int | None = None
    gap: Gap | None = None
    served_at: datetime | None = None


NOTHING = Batch()
