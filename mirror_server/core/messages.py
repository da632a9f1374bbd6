"""Notification messages: which log entries go together, and what a reader sees of each. Source: wire.md 5."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

ASYNC_RESPONSES = "async-responses"
NOTIFICATIONS = "notifications"
REGISTRATIONS = "registrations"
REG_UPDATES = "reg-updates"
DE_REGISTRATIONS = "de-registrations"
REGISTRATIONS_EXPIRED = "registrations-expired"

_LEAVING = {DE_REGISTRATIONS, REGISTRATIONS_EXPIRED}


@dataclass(frozen=True, slots=True)
class Extras:
    """What a message carries only for a channel that asked for it."""

    include_timestamp: bool = False
    include_uid: bool = False
    include_original_ep: bool = False
    deregistrations_as_object: bool = False


CURSOR_EXTRAS = Extras(include_timestamp=True, include_uid=True, include_original_ep=True)
"""What a reader with a cursor of its own is given."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a notification log: its number, the list it belongs to, and its JSON."""

    seq: int
    kind: str
    body: Any


def first_message(entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
    """The entries at the front that may share a message.

    A response with a 5xx status goes alone, because a public client drops the whole message with one.
    """
    for index, entry in enumerate(entries):
        if _is_server_error(entry):
            return entries[: max(index, 1)]
    return entries


def compose(entries: Iterable[LogEntry], extras: Extras) -> dict[str, list[Any]]:
    """The body of a message: a list for each kind that has entries."""
    message: dict[str, list[Any]] = {}
    for entry in entries:
        message.setdefault(entry.kind, []).append(shown(entry, extras))
    return message


def _is_server_error(entry: LogEntry) -> bool:
    return entry.kind == ASYNC_RESPONSES and bool(entry.body["status"] >= 500)


def shown(entry: LogEntry, extras: Extras) -> Any:
    """The entry's JSON with the extras that were asked for."""
    if entry.kind in _LEAVING:
        return {"ep": entry.body} if extras.deregistrations_as_object else entry.body
    dropped = set() if extras.include_uid else {"uid"}
    if entry.kind in {ASYNC_RESPONSES, NOTIFICATIONS} and not extras.include_timestamp:
        dropped.add("timestamp")
    if entry.kind == NOTIFICATIONS and not extras.include_original_ep:
        dropped.add("original-ep")
    return {name: value for name, value in entry.body.items() if name not in dropped} if dropped else entry.body
