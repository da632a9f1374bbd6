"""A fault: the requests or entries it acts on, how often, and its effect."""

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
    """An active fault. It ends after ``times`` times, at :meth:`end`, or at the end of a ``with`` block.

    Attributes:
        action: Its effect.
        target: The kind of message it acts on; ``None`` for a fault of a device.
        times: The maximum number of times it acts; ``None`` for no limit.
        path: The path it acts on; ``*`` at its end matches anything.
        method: The HTTP method it acts on; ``None`` for all.
        device_id: The device it acts on; ``None`` for all.
        delay_seconds: The delay of the response.
        until_at: The end of the delay of the notification channel.
        acted: The number of times it has acted; not counted for devices and for a delayed channel.

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
            raise ValueError(f"times={self.times} must be 1 or more, or None for no limit")

    def __repr__(self) -> str:
        return f"<Fault {self.action} acted {self.acted} times{'' if self.is_live else ', ended'}>"

    @property
    def is_live(self) -> bool:
        """Whether the fault will act again."""
        return not self._is_ended and (self.times is None or self.acted < self.times)

    def end(self) -> None:
        """Stop acting. Earlier effects remain."""
        if not self._is_ended:
            self._is_ended = True
            self._on_end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def acts_on_request(self, request: httpx.Request) -> bool:
        """Return whether the fault acts on this request, and count it."""
        is_matched = self.method in {None, request.method} and matches(self.path, request.url.path)
        if is_matched and self.is_live:
            self.acted += 1
            return True
        return False

    def affected_entries(self, entries: Iterable[Mapping[str, Any]]) -> list[bool]:
        """Return for each entry whether the fault acts on it.

        An entry counts only once, because every later reader of the log receives the same change.
        """
        return [self._acts_on(entry) for entry in entries]

    def _acts_on(self, entry: Mapping[str, Any]) -> bool:
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
        """Return the entries of one list of a message with this fault applied."""
        if self.action == "delay":
            return entries
        affected = self.affected_entries(entries)
        match self.action:
            case "drop":
                return [entry for entry, is_affected in zip(entries, affected, strict=True) if not is_affected]
            case "duplicate":
                copies = [
                    [entry] * (2 if is_affected else 1) for entry, is_affected in zip(entries, affected, strict=True)
                ]
                return [entry for each in copies for entry in each]
        return _reversed(entries, affected) if self.acted == self.times else entries


def _reversed(entries: list[Any], affected: list[bool]) -> list[Any]:
    positions = [position for position, is_affected in enumerate(affected) if is_affected]
    numbers = list(dict.fromkeys(entries[position].get("seq") for position in positions))
    # A number belongs to a position in the log, so the entries swap their numbers. A repeated entry repeats it.
    renumbered = dict(zip(numbers, reversed(numbers), strict=True))
    altered = list(entries)
    for position, other in zip(positions, reversed(positions), strict=True):
        entry = entries[other]
        altered[position] = {**entry, "seq": renumbered[entry["seq"]]} if "seq" in entry else entry
    return altered
