"""The models of the device object (E1). Source: specification 2.1, 2.2 and E1; wire.md 1."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from mirror_sdk.wire.model import Payload, Timestamp, WireModel


class DesiredStatus(IntEnum):
    """The status of the last desired value: 0 is pending, 1 is success, 2 is failure."""

    # Source: specification 2.2.

    PENDING = 0
    SUCCESS = 1
    FAILURE = 2


def _read_status(value: Any) -> Any:
    """Convert the words of the specification to a status. The specification also uses ``fail`` for a failure."""
    if isinstance(value, str):
        words = {"pending": 0, "success": 1, "failure": 2, "fail": 2}
        return words.get(value.lower(), value)
    return value


DesiredStatusField = Annotated[
    DesiredStatus, BeforeValidator(_read_status), PlainSerializer(int, return_type=int, when_used="json")
]


Origin = Literal["read", "subscription", "auto_observation"]
"""The reason why a device sent a reported value. An extension of the specification."""

Revision = Annotated[int, Field(ge=0, lt=2**63)]
"""The number of a change in the mirror. A later change has a larger number. An extension of the specification."""


class Reported(WireModel):
    """The last value that the mirror received from the device. It has no members before the first value.

    A server may not support the members that are marked as an extension.

    Attributes:
        value: The value. In JSON, it is base64.
        content_type: The content type of the value.
        reported_at: The time at which the mirror received the value from the device.
        expires_at: The time until which the value is fresh. Absent if the device sent no such time.
        revision: The number of the change that stored the value. A later change has a larger number, even within one
            millisecond. An extension of the specification.
        origin: The reason why the device sent the value: ``read``, ``subscription`` or ``auto_observation``. An
            extension of the specification.
    """

    value: Payload | None = None
    content_type: str | None = None
    reported_at: Timestamp | None = None
    expires_at: Timestamp | None = None
    revision: Revision | None = None
    origin: str | None = None


class Desired(WireModel):
    """The value of the last write, and the result of that write. It has no members before the first write.

    A server may not support the members that are marked as an extension.

    Attributes:
        value: The value. In JSON, it is base64.
        content_type: The content type in which the value was written. An extension of the specification.
        status: The status of the write: 0 is pending, 1 is success, 2 is failure.
        desired_at: The time at which the write was requested, while it is pending. Afterwards, it equals
            ``status_updated_at``.
        status_updated_at: The time at which the write succeeded or failed. Absent while it is pending.
        requested_at: The time at which the write was requested. An extension of the specification.
        category: The reason in one word why the write failed, as in its async response. Only the key that requested the
            write receives it. An extension of the specification.
        revision: The number of the last change of the value or of its status. A later change has a larger number, even
            within one millisecond. An extension of the specification.
        acknowledged_at: The time at which someone acknowledged the failed write. The next write removes it. An
            extension of the specification.
        acknowledged_by: The name of the person or the access key that acknowledged the failed write. An extension of
            the specification.
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
        subscribed: Whether the device accepted a subscription that has not ended. Null if this is unknown, for example
            in the state at an earlier time.
        subscribed_at: The time at which the subscription started. Absent if there is no subscription. An extension of
            the specification.
        reported: The last value that the mirror received from the device.
        desired: The value of the last write.
    """

    resource_path: str
    subscribed: bool | None
    subscribed_at: Timestamp | None = None
    reported: Reported
    desired: Desired


class DeviceObjectBody(WireModel):
    """The state of one device, with all resources that it has ever had.

    Attributes:
        device_id: The id of the device.
        endpoint_name: The name with which the device registers.
        created_at: The time at which the server created this response.
        updated_at: The time of the last registration, registration update or deregistration.
        last_reported_at: The time of the newest reported value. Absent if there is no reported value.
        last_desired_at: The time of the newest desired value. Absent if there is no desired value.
        resources: All resources that the device has ever had.
    """

    object: Literal["device-echo"] = "device-echo"
    device_id: str
    endpoint_name: str | None = None
    created_at: Timestamp
    updated_at: Timestamp | None = None
    last_reported_at: Timestamp | None = None
    last_desired_at: Timestamp | None = None
    resources: list[ResourceState]
