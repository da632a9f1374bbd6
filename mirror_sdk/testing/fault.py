"""A fault: how often it acts, on which requests or entries, and what it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Self

import httpx

from mirror_sdk.wire.paths import matches

EntryTarget = Literal["notification", "async-response"]
Target = Literal["request", "response"] | EntryTarget
Action = Literal["drop", "duplicate", "delay", "reorder", "reject", "silent"]


@dataclass(slots=True, eq=False, repr=False)
class Fault:
    """A fault that was set: it acts for its number of times, or until it is ended, by hand or by ``with``.

    Attributes:
        action: What it does.
        target: What it acts on; ``None`` for a fault of a device.
        times: How often it acts at most; ``None`` for no limit.
        path: The path it acts on; ``*`` at its end matches anything.
        method: The HTTP method it acts on; ``None`` for all.
        device_id: The device it acts on; ``None`` for all.
        delay_seconds: How late the response is.
        until_at: Until when the notification channel delivers nothing.
        acted: How often it has acted; it is not counted for devices and for a channel that is late.

    Raises:
        ValueError: ``times`` is below 1.
    """

    action: Action
    target: Target | None
    times: int | None
    _on_end: Callable[[], object]
    path: str = "*"
    method: str | None = None
    device_id: str | None = None
    delay_seconds: float = 0.0
    until_at: datetime | None = None
    acted: int = field(default=0, init=False)
    _is_ended: bool = field(default=False, init=False)
    _uids: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        if self.times is not None and self.times < 1:
            raise ValueError(f"times={self.times} is not a number of times; give 1 or more, or None for no end")

    def __repr__(self) -> str:
        return f"<Fault {self.action} acted {self.acted} times{'' if self.is_live else ', ended'}>"

    @property
    def is_live(self) -> bool:
        """Whether it will act again."""
        return not self._is_ended and (self.times is None or self.acted < self.times)

    def end(self) -> None:
        """Stop acting; what it did is not undone."""
        if not self._is_ended:
            self._is_ended = True
            self._on_end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def takes_request(self, request: httpx.Request) -> bool:
        """Whether it acts on this request, which then counts."""
        is_matched = self.method in {None, request.method} and matches(self.path, request.url.path)
        if is_matched and self.is_live:
            self.acted += 1
            return True
        return False

    def take_entries(self, entries: Iterable[Mapping[str, Any]]) -> list[bool]:
        """Return for each entry whether the fault acts on it.

        An entry counts once: every later reader of the log gets it changed in the same way.
        """
        return [self._takes(entry) for entry in entries]

    def _takes(self, entry: Mapping[str, Any]) -> bool:
        uid = str(entry.get("uid"))
        if uid in self._uids:
            return True
        is_matched = self.device_id in {None, entry.get("ep")} and matches(self.path, str(entry.get("path", "")))
        if is_matched and self.is_live:
            self._uids.add(uid)
            self.acted += 1
            return True
        return False

    def alter(self, entries: list[Any]) -> list[Any]:
        """Return the entries of one list of a message as they arrive."""
        if self.action == "delay":
            return entries
        taken = self.take_entries(entries)
        match self.action:
            case "drop":
                return [entry for entry, is_taken in zip(entries, taken, strict=True) if not is_taken]
            case "duplicate":
                copies = [[entry] * (2 if is_taken else 1) for entry, is_taken in zip(entries, taken, strict=True)]
                return [entry for each in copies for entry in each]
        return _reversed(entries, taken) if self.acted == self.times else entries


def _reversed(entries: list[Any], taken: list[bool]) -> list[Any]:
    positions = [position for position, is_taken in enumerate(taken) if is_taken]
    numbers = list(dict.fromkeys(entries[position].get("seq") for position in positions))
    # In a log the number belongs to the position; an entry that comes twice has the same one twice.
    renumbered = dict(zip(numbers, reversed(numbers), strict=True))
    altered = list(entries)
    for position, other in zip(positions, reversed(positions), strict=True):
        entry = entries[other]
        altered[position] = {**entry, "seq": renumbered[entry["seq"]]} if "seq" in entry else entry
    return altered
