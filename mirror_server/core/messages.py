"""Notification messages: the JSON of log entries, and of the messages that contain them. Source: wire.md 5."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from mirror_server.core.timestamps import Instant

ASYNC_RESPONSES = "async-responses"
NOTIFICATIONS = "notifications"
REGISTRATIONS = "registrations"
REG_UPDATES = "reg-updates"
DE_REGISTRATIONS = "de-registrations"
REGISTRATIONS_EXPIRED = "registrations-expired"

_DEREGISTRATIONS = {DE_REGISTRATIONS, REGISTRATIONS_EXPIRED}
_ANNOUNCED = {REGISTRATIONS, REG_UPDATES}
# Members that are not in the public API. A reader receives them only with `include_seq`.
_WITH_SEQ = {
    ASYNC_RESPONSES: {"ep", "original-ep", "path"},
    DE_REGISTRATIONS: {"original-ep", "uid", "timestamp"},
    REGISTRATIONS_EXPIRED: {"original-ep", "uid", "timestamp"},
}


def encode(payload: bytes) -> str:
    """Return a payload in base64, which is the form of all payloads in JSON."""
    return b2a_base64(payload, newline=False).decode("ascii")


def async_response(
    *,
    async_id: str,
    device_id: str,
    endpoint_name: str,
    path: str,
    status: int,
    category: str | None,
    payload: bytes,
    content_type: str | None,
    max_age_seconds: int | None,
    at: Instant,
) -> dict[str, Any]:
    """Return the log entry with the outcome of a device request. ``content_type`` is set only with a payload."""
    body: dict[str, Any] = {"id": async_id, "status": status}
    if category is not None:
        body["error"] = category
    body["payload"] = encode(payload)
    if content_type is not None:
        body |= {"ct": content_type, "max-age": max_age_seconds or 0}
    return body | {"timestamp": at, "ep": device_id, "original-ep": endpoint_name, "path": path}


def notification(
    *,
    device_id: str,
    endpoint_name: str,
    path: str,
    payload: bytes,
    content_type: str,
    max_age_seconds: int | None,
    changed_at: Instant,
) -> dict[str, Any]:
    """Return the log entry for an observation event. ``changed_at`` is the device's time of the change."""
    return {
        "ep": device_id,
        "path": path,
        "ct": content_type,
        "payload": encode(payload),
        "max-age": max_age_seconds or 0,
        "timestamp": changed_at,
        "original-ep": endpoint_name,
    }


def registration(
    *,
    device_id: str,
    endpoint_name: str,
    endpoint_type: str,
    queue_mode: bool,
    resources: Iterable[tuple[str, str, str, bool]],
    at: Instant,
) -> dict[str, Any]:
    """Return the log entry for a registration or its update.

    ``resources`` contains the path, resource type, content type and observability of each resource.
    """
    return {
        "ep": device_id,
        "original-ep": endpoint_name,
        "ept": endpoint_type,
        "q": queue_mode,
        "timestamp": at,
        "resources": [
            {"path": path, "rt": resource_type, "ct": content_type, "obs": observable}
            for path, resource_type, content_type, observable in resources
        ],
    }


def deregistration(*, device_id: str, endpoint_name: str, at: Instant) -> dict[str, Any]:
    """Return the log entry for a device that deregistered or whose registration expired."""
    return {"ep": device_id, "original-ep": endpoint_name, "timestamp": at}


@dataclass(frozen=True, slots=True)
class MessageExtras:
    """The optional members of a message. An application selects them when it registers a channel."""

    include_timestamp: bool = False
    include_uid: bool = False
    include_original_ep: bool = False
    deregistrations_as_object: bool = False
    include_seq: bool = False


CURSOR_EXTRAS = MessageExtras(
    include_timestamp=True,
    include_uid=True,
    include_original_ep=True,
    deregistrations_as_object=True,
    include_seq=True,
)
"""All optional members, for readers with their own position."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of a notification log.

    It contains its number, the list of the message that it belongs to, its JSON, and the time at which it was logged.
    """

    seq: int
    kind: str
    body: Any
    logged_at: Instant


def first_message(entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
    """Return the first of these entries, as many as can be sent together in one message.

    A response with a 5xx status is sent alone, because clients of the public API drop the complete message that
    contains it.
    """
    for index, entry in enumerate(entries):
        if _is_server_error(entry):
            return entries[: max(index, 1)]
    return entries


def compose(entries: Iterable[LogEntry], extras: MessageExtras) -> dict[str, list[Any]]:
    """Return the body of a message, with a list for each kind that has entries."""
    message: dict[str, list[Any]] = {}
    for entry in entries:
        message.setdefault(entry.kind, []).append(entry_json(entry, extras))
    return message


def _is_server_error(entry: LogEntry) -> bool:
    return entry.kind == ASYNC_RESPONSES and bool(entry.body["status"] >= 500)


def entry_json(entry: LogEntry, extras: MessageExtras) -> Any:
    """Return the JSON of an entry, with the optional members in ``extras``."""
    body = entry.body
    if entry.kind in _DEREGISTRATIONS and not extras.deregistrations_as_object:
        return body["ep"]
    if extras.include_seq:
        body = {**body, "seq": entry.seq, "logged-at": entry.logged_at}
    dropped = _dropped_members(entry.kind, extras)
    return {name: value for name, value in body.items() if name not in dropped} if dropped else body


@cache  # A message can have thousands of entries.
def _dropped_members(kind: str, extras: MessageExtras) -> set[str]:
    dropped = set() if extras.include_uid else {"uid"}
    if kind not in _ANNOUNCED:
        dropped |= set() if extras.include_timestamp else {"timestamp"}
        dropped |= set() if extras.include_original_ep else {"original-ep"}
    if not extras.include_seq:
        dropped |= _WITH_SEQ.get(kind, set())
    return dropped
