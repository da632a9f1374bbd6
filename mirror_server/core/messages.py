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

_EXTRAS = {
    ASYNC_RESPONSES: ("uid", "timestamp"),
    NOTIFICATIONS: ("uid", "timestamp", "original-ep"),
    REGISTRATIONS: ("uid",),
    REG_UPDATES: ("uid",),
}
"""What only a reader with a cursor of its own, or a channel that asked for it, is given."""


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


def compose(entries: Iterable[LogEntry], *, extras: bool) -> dict[str, list[Any]]:
    """The body of a message: a list for each kind that has entries.

    Args:
        entries: What goes into the message, in order.
        extras: Whether to keep uid, timestamp and original endpoint name.
    """
    message: dict[str, list[Any]] = {}
    for entry in entries:
        body = entry.body if extras else _without_extras(entry)
        message.setdefault(entry.kind, []).append(body)
    return message


def _is_server_error(entry: LogEntry) -> bool:
    return entry.kind == ASYNC_RESPONSES and bool(entry.body["status"] >= 500)


def _without_extras(entry: LogEntry) -> Any:
    dropped = _EXTRAS.get(entry.kind)
    if not dropped:
        return entry.body
    return {name: value for name, value in entry.body.items() if name not in dropped}
