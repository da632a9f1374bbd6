"""The entries in a message of the notification log in their order, and the gap before them.

This module does not wait and performs no I/O. Source: wire.md 5.
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
    """An entry that this version cannot read, in the form in which it was received, and the name of its list."""

    key: str
    content: object


EntryBody: TypeAlias = AsyncResponse | Notification | RegistrationEvent | Unreadable


class Entry(NamedTuple):
    """An entry of a message, with the name of its list (``notifications``) and its number if the service sends it."""

    key: str
    body: EntryBody
    seq: int | None = None


def _read_leaving(content: object) -> RegistrationEvent:
    """Read a deregistered device, which is an id, or an object if the channel requested objects."""
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
    # A later version of the service may have added this list.
    if reader is None:
        return Unreadable(key, content)
    try:
        return reader(content)
    except ValidationError:
        return Unreadable(key, content)


class Entries:
    """The entries of a message in the order of the notification log.

    Each entry is read separately during the iteration, so an unreadable entry does not affect others. If some entries
    have no number, they are in the order of the message, which lists them by kind.

    Args:
        message: The notification message.

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
        """Return a description of the error in the numbers of the entries, or ``None`` if they are valid.

        Args:
            after: The number after which the entries begin, or ``None`` if it is unknown.
            last: The number of the last entry.
        """
        numbered = [(seq, content) for seq, _, content in self._listed if seq is not None]
        for seq, _ in numbered:
            if not _is_number(seq):
                return f"the number of an entry is {seq!r}, which is not a whole number"
            if not (after or 0) < seq <= last:
                return f"the number of an entry is {seq}; it must be above {after or 0} and at most {last}"
        for (seq, content), (next_seq, other) in pairwise(sorted(numbered, key=itemgetter(0))):
            # The same entry may occur twice. In this case, its contents are equal.
            if seq == next_seq and content != other:
                return f"two entries have the number {seq}"
        return None


def _seq_of(content: object) -> Any:
    return content.get("seq") if isinstance(content, dict) else None


def _is_number(seq: object) -> bool:
    return isinstance(seq, int) and not isinstance(seq, bool) and abs(seq) < 10**MAX_SEQ_DIGITS


NUMBERS_LEFT_OUT = 2**40
"""The number of entry numbers that a log skips after a restore from a backup. No log ever contains as many entries.

After 8000 restores, the numbers would exceed those that all JSON parsers can read.
"""


@dataclass(frozen=True, slots=True)
class Gap:
    """A range of lost entries of the notification log. The numbers are ``None`` if they are unknown."""

    first_seq: int | None
    last_seq: int | None


def count_missing(first_seq: int | None, last_seq: int | None) -> int | None:
    """Return how many entries from the first to the last number are lost, or ``None`` if that is unknown."""
    if first_seq is None or last_seq is None:
        return None
    count = last_seq - first_seq + 1
    return count if count < NUMBERS_LEFT_OUT // 2 else None


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of a poll of the notification log.

    Attributes:
        entries: The entries in the order of the log. Each entry is read during the iteration.
        seq: The number of the last entry, which is the position after all entries.
        gap: The lost entries before the entries of this batch.
        served_at: A time of the service's clock. All entries that the service received before it are in the log up to
            ``seq``. It is ``None`` if the service does not send it. See :class:`mirror_sdk._protocol.operations.Poll`.
    """

    entries: Iterable[Entry] = ()
    seq: int | None = None
    gap: Gap | None = None
    served_at: datetime | None = None


NOTHING = Batch()
