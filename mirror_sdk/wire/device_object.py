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
    """Accept the words of the specification too; ``fail`` is its other word for failure."""
    if isinstance(value, str):
        words = {"pending": 0, "success": 1, "failure": 2, "fail": 2}
        return words.get(value.lower(), value)
    return value


DesiredStatusField = Annotated[
    DesiredStatus, BeforeValidator(_read_status), PlainSerializer(int, return_type=int, when_used="json")
]


Origin = Literal["read", "subscription", "auto_observation"]
"""The origin of a reported value. An extension."""

Revision = Annotated[int, Field(ge=0, lt=2**63)]
"""The number of a change of the mirror; a larger one is later. An extension."""


class Reported(WireModel):
    """The last value received from the device; empty before the first one.

    Servers without the extensions leave them out.

    Attributes:
        value: The value, in JSON as base64.
        content_type: The format of the value.
        reported_at: When the value was received from the device.
        expires_at: Until when the value is fresh; absent if the device sent no such time.
        revision: The number of the mirror's change that stored it: a larger one is later, also within one millisecond;
            an extension.
        origin: The origin of the value: ``read``, ``subscription`` or ``auto_observation``; an extension.
    """

    value: Payload | None = None
    content_type: str | None = None
    reported_at: Timestamp | None = None
    expires_at: Timestamp | None = None
    revision: Revision | None = None
    origin: str | None = None


class Desired(WireModel):
    """The last value requested to be written, and the outcome of the write; empty before the first write.

    Servers without the extensions leave them out.

    Attributes:
        value: The value, in JSON as base64.
        content_type: The format it was written in; an extension.
        status: 0 pending, 1 success, 2 failure.
        desired_at: The issue time while the write is pending, then the time of the status update.
        status_updated_at: When the write succeeded or failed; absent while it is pending.
        requested_at: When the write was issued; an extension.
        category: Why the write failed, in one word, as in its async response; only for the key that submitted it; an
            extension.
        revision: The number of the mirror's last change of it, its status included: a larger one is later, also within
            one millisecond; an extension.
        acknowledged_at: When the failed write was acknowledged; absent when it was not. The next write clears it; an
            extension.
        acknowledged_by: The name of the person who acknowledged it, or of an access key; an extension.
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
    """One resource of a device object.

    Attributes:
        resource_path: The resource path.
        subscribed: Whether the device accepted a subscription that has not ended; null if that is unknown, as for an
            earlier instant.
        subscribed_at: Since when it is subscribed; absent when it is not; an extension.
        reported: The last value received from the device.
        desired: The last value requested to be written.
    """

    resource_path: str
    subscribed: bool | None
    subscribed_at: Timestamp | None = None
    reported: Reported
    desired: Desired


class DeviceObjectBody(WireModel):
    """The mirror of one device: a snapshot of every resource it has ever introduced.

    Attributes:
        device_id: The device's id.
        endpoint_name: The name the device registers with.
        created_at: When this response was made.
        updated_at: The device's last registration event.
        last_reported_at: The newest time of a reported value; absent when there is none.
        last_desired_at: The newest time of a desired value; absent when there is none.
        resources: Every resource the device has ever introduced.
    """

    object: Literal["device-echo"] = "device-echo"
    device_id: str
    endpoint_name: str | None = None
    created_at: Timestamp
    updated_at: Timestamp | None = None
    last_reported_at: Timestamp | None = None
    last_desired_at: Timestamp | None = None
    resources: list[ResourceState]
