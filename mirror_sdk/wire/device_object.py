"""E1, the device object. Source: specification 2.1, 2.2 and E1; wire.md 1."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from mirror_sdk.wire.model import Payload, Timestamp, WireModel


class DesiredStatus(IntEnum):
    """Status of the last desired value. Source: specification 2.2."""

    PENDING = 0
    SUCCESS = 1
    FAILURE = 2


def _read_status(value: Any) -> Any:
    """Take the words of the specification too; ``fail`` is its other word for failure."""
    if isinstance(value, str):
        words = {"pending": 0, "success": 1, "failure": 2, "fail": 2}
        return words.get(value.lower(), value)
    return value


DesiredStatusField = Annotated[
    DesiredStatus, BeforeValidator(_read_status), PlainSerializer(int, return_type=int, when_used="json")
]


Origin = Literal["read", "subscription", "auto_observation"]
"""What brought a reported value. An extension."""

Revision = Annotated[int, Field(ge=0, lt=2**63)]
"""Number of a change of the mirror: a larger one is later. An extension."""


class Reported(WireModel):
    """The last value received from the device; empty before the first one.

    ``origin`` says by what it came, ``revision`` is the number of the mirror's change that brought it: a larger one is
    later, also within one millisecond. Servers without these extensions leave them out.
    """

    value: Payload | None = None
    content_type: str | None = None
    reported_at: Timestamp | None = None
    expires_at: Timestamp | None = None
    origin: str | None = None
    revision: Revision | None = None


class Desired(WireModel):
    """The last value requested to be written, and what became of the write; empty before the first write.

    ``content_type`` is the format it was written in, ``category`` why the write failed, told only to
    the application that placed it, ``revision`` the number of the mirror's change that made it what it is, its status
    included: a larger one is later, also within one millisecond. ``acknowledged_at`` and ``acknowledged_by`` say when
    and by whom a failed write was acknowledged; the next write clears them. Servers without these extensions leave them
    out.
    ``desired_at`` is the issue time while pending, then the time of the status update; ``requested_at`` stays the
    issue time.
    """

    value: Payload | None = None
    content_type: str | None = None
    status: DesiredStatusField | None = None
    desired_at: Timestamp | None = None
    status_updated_at: Timestamp | None = None
    requested_at: Timestamp | None = None
    category: str | None = None
    revision: Revision | None = None
    acknowledged_at: Timestamp | None = None
    acknowledged_by: str | None = None


class ResourceState(WireModel):
    """One resource of a device object; ``subscribed_at`` is an extension.

    ``subscribed`` is ``None`` where it is not known, of a snapshot as of an earlier instant alone.
    """

    resource_path: str
    subscribed: bool | None
    subscribed_at: Timestamp | None = None
    reported: Reported
    desired: Desired


class DeviceObject(WireModel):
    """The mirror of one device: a snapshot of every resource it has ever introduced."""

    object: Literal["device-echo"] = "device-echo"
    device_id: str
    endpoint_name: str | None = None
    created_at: Timestamp
    updated_at: Timestamp | None = None
    last_reported_at: Timestamp | None = None
    last_desired_at: Timestamp | None = None
    resources: list[ResourceState]
