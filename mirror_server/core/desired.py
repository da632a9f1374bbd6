"""The status of the last desired value, as a table of transitions. Source: specification 3.1; wire.md 2.

If ``TRANSITIONS`` does not contain a pair of status and event, the event raises an error and changes nothing. A
desired value contains the number of the command that set it. So the outcome of an older command, which was superseded,
is ignored.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from mirror_sdk.wire.device_object import DesiredStatus
from mirror_server.core.timestamps import Instant


class DesiredEvent(Enum):
    """An event that changes the status of a desired value."""

    WRITE_ACCEPTED = "write accepted (202)"
    WRITE_SUCCEEDED = "device responds with success"
    WRITE_FAILED = "device rejects, deregisters or does not respond in time"


TRANSITIONS: dict[tuple[DesiredStatus | None, DesiredEvent], DesiredStatus] = {
    (None, DesiredEvent.WRITE_ACCEPTED): DesiredStatus.PENDING,
    (DesiredStatus.PENDING, DesiredEvent.WRITE_ACCEPTED): DesiredStatus.PENDING,
    (DesiredStatus.SUCCESS, DesiredEvent.WRITE_ACCEPTED): DesiredStatus.PENDING,
    (DesiredStatus.FAILURE, DesiredEvent.WRITE_ACCEPTED): DesiredStatus.PENDING,
    (DesiredStatus.PENDING, DesiredEvent.WRITE_SUCCEEDED): DesiredStatus.SUCCESS,
    (DesiredStatus.PENDING, DesiredEvent.WRITE_FAILED): DesiredStatus.FAILURE,
}


class IllegalTransition(Exception):
    """The event cannot happen while the desired value has this status."""


@dataclass(frozen=True, slots=True)
class DesiredState:
    """The last desired value of a resource. ``category`` is the error category of a failed write.

    ``app_id`` is the application that submitted the write. Only this application receives the category.
    """

    command_id: int
    app_id: str | None
    value: bytes
    content_type: str
    status: DesiredStatus
    desired_at: Instant
    requested_at: Instant
    status_updated_at: Instant | None = None
    category: str | None = None


def next_status(status: DesiredStatus | None, event: DesiredEvent) -> DesiredStatus:
    """Return the status after an event.

    Raises:
        IllegalTransition: The event cannot happen while the desired value has this status.
    """
    try:
        return TRANSITIONS[status, event]
    except KeyError:
        raise IllegalTransition(f"{event.name} in status {status.name if status is not None else None}") from None


def write_accepted(
    current: DesiredState | None, *, command_id: int, app_id: str, value: bytes, content_type: str, at: Instant
) -> DesiredState:
    """Return the desired value after a write command was accepted.

    Its status is pending, and its time is the request time.
    """
    status = next_status(current.status if current else None, DesiredEvent.WRITE_ACCEPTED)
    return DesiredState(
        command_id=command_id,
        app_id=app_id,
        value=value,
        content_type=content_type,
        status=status,
        desired_at=at,
        requested_at=at,
    )


def write_finished(
    current: DesiredState | None, *, command_id: int, category: str | None, at: Instant
) -> DesiredState | None:
    """Return the desired value after a write command ended, or ``None`` if a newer write has superseded the command.

    ``category`` is the error category, or ``None`` if the write succeeded.

    Raises:
        IllegalTransition: The command had already ended.
    """
    if current is None or current.command_id != command_id:
        return None
    event = DesiredEvent.WRITE_SUCCEEDED if category is None else DesiredEvent.WRITE_FAILED
    status = next_status(current.status, event)
    return replace(current, status=status, desired_at=at, status_updated_at=at, category=category)
