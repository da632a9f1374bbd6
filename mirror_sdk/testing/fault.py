"""What a fault is: how often it acts, on which requests or entries, and what it makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Self

import httpx

from mirror_sdk.wire.paths import matches

ExchangePart = Literal["request", "answer"]
EntryKind = Literal["notification", "async-response"]
ExchangeVerb = Literal["drop", "duplicate", "delay"]
EntryVerb = Literal["drop", "duplicate", "reorder"]

ENTRY_LISTS: Mapping[str, EntryKind] = {"notifications": "notification", "async-responses": "async-response"}


class Fault:
    """A fault that was set: it acts for its number of times, or until it is ended, by hand or by ``with``.

    Attributes:
        acted: How often it has acted; it is not counted for devices and for a channel that is late.
    """

    def __init__(self, times: int | None, on_end: Callable[[], object]) -> None:
        if times is not None and times < 1:
            raise ValueError(f"times={times} is no number of times; give 1 or more, or None for no end")
        self.times = times
        self.acted = 0
        self._on_end = on_end
        self._is_ended = False

    def __repr__(self) -> str:
        left = "" if self.is_live else ", ended"
        return f"<{type(self).__name__} acted {self.acted} times{left}>"

    @property
    def is_live(self) -> bool:
        """Whether it will act again."""
        return not self._is_ended and (self.times is None or self.acted < self.times)

    def end(self) -> None:
        """Let it act no more; what it did is not undone."""
        if not self._is_ended:
            self._is_ended = True
            self._on_end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class ExchangeFault(Fault):
    """A fault of requests or their answers."""

    def __init__(
        self,
        verb: ExchangeVerb,
        part: ExchangePart,
        *,
        times: int | None,
        path: str | None,
        method: str | None,
        late_seconds: float,
        on_end: Callable[[], object],
    ) -> None:
        super().__init__(times, on_end)
        self.verb = verb
        self.part = part
        self.late_seconds = late_seconds
        self._path = path or "*"
        self._method = method

    def takes(self, request: httpx.Request) -> bool:
        """Whether it acts on this request, which then counts."""
        is_meant = self._method in {None, request.method} and matches(self._path, request.url.path)
        if not self.is_live or not is_meant:
            return False
        self.acted += 1
        return True


class EntryFault(Fault):
    """A fault of entries of notification messages. What became of an entry is the same for each reader of the log."""

    def __init__(
        self,
        verb: EntryVerb,
        kind: EntryKind,
        *,
        times: int | None,
        path: str | None,
        device_id: str | None,
        on_end: Callable[[], object],
    ) -> None:
        super().__init__(times, on_end)
        self.verb = verb
        self.kind = kind
        self._path = path or "*"
        self._device_id = device_id
        self.uids: dict[str, None] = {}

    def takes(self, kind: EntryKind, entry: Mapping[str, Any]) -> bool:
        """Whether it acts on this entry, which counts when it is seen first."""
        if kind != self.kind:
            return False
        uid = str(entry.get("uid"))
        if uid in self.uids:
            return True
        if not self.is_live or not self._matches(entry):
            return False
        self.uids[uid] = None
        self.acted += 1
        return True

    def _matches(self, entry: Mapping[str, Any]) -> bool:
        return self._device_id in {None, entry.get("ep")} and matches(self._path, str(entry.get("path", "")))


def _dropped(_: EntryFault, entries: list[Any], taken: list[bool]) -> list[Any]:
    return [entry for entry, is_taken in zip(entries, taken, strict=True) if not is_taken]


def _duplicated(_: EntryFault, entries: list[Any], taken: list[bool]) -> list[Any]:
    copies = [[entry, entry] if is_taken else [entry] for entry, is_taken in zip(entries, taken, strict=True)]
    return [entry for pair in copies for entry in pair]


def _reversed(fault: EntryFault, entries: list[Any], taken: list[bool]) -> list[Any]:
    if fault.acted != fault.times:
        return entries
    places = [place for place, is_taken in enumerate(taken) if is_taken]
    numbers = list(dict.fromkeys(entries[place].get("seq") for place in places))
    # In a log the number belongs to the place; an entry that comes twice has the same one twice.
    renumbered = dict(zip(numbers, reversed(numbers), strict=True))
    altered = list(entries)
    for place, other in zip(places, reversed(places), strict=True):
        entry = entries[other]
        altered[place] = {**entry, "seq": renumbered[entry["seq"]]} if "seq" in entry else entry
    return altered


ALTER: Mapping[EntryVerb, Callable[[EntryFault, list[Any], list[bool]], list[Any]]] = {
    "drop": _dropped,
    "duplicate": _duplicated,
    "reorder": _reversed,
}
"""What each kind of fault makes of the entries of one list, of which some are taken."""
