"""A fault: its effect, the requests or log entries that it affects, and how often it acts."""

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
    """An active fault.

    It ends after it has acted ``times`` times, when :meth:`end` is called, or at the end of a ``with`` block.

    Attributes:
        action: The effect of the fault.
        target: The kind of message that it affects, or ``None`` for a fault that affects a device.
        times: The maximum number of times that it acts; ``None`` for no limit.
        path: The path that it affects. ``*`` at the end matches anything.
        method: The HTTP method that it affects; ``None`` for all methods.
        device_id: The id of the device that it affects; ``None`` for all devices.
        delay_seconds: The delay of the response, in seconds.
        until_at: The time at which the delay of the notification channel ends.
        acted: The number of times that it has acted. Faults of devices and a delayed channel are not counted.

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
        """Whether the fault can act again."""
        return not self._is_ended and (self.times is None or self.acted < self.times)

    def end(self) -> None:
        """End the fault. Its earlier effects remain."""
        if not self._is_ended:
            self._is_ended = True
            self._on_end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def acts_on_request(self, request: httpx.Request) -> bool:
        """Return whether the fault acts on this request, and count the action."""
        is_matched = self.method in {None, request.method} and matches(self.path, request.url.path)
        if is_matched and self.is_live:
            self.acted += 1
            return True
        return False

    def affected_entries(self, entries: Iterable[Mapping[str, Any]]) -> list[bool]:
        """Return for each entry whether the fault acts on it.

        An entry counts only once, because every later reader of the log receives the same changed entry.
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
        """Apply the fault to a list of notifications, and return the changed list."""
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
    # A number belongs to a position in the log, so the entries exchange their numbers. A repeated entry has its number
    # twice.
    renumbered = dict(zip(numbers, reversed(numbers), strict=True))
    altered = list(entries)
    for position, other in zip(positions, reversed(positions), strict=True):
        entry = entries[other]
        altered[position] = {**entry, "seq": renumbered[entry["seq"]]} if "seq" in entry else entry
    return altered
