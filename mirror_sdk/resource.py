"""A resource of a device: its last reported value and its last desired value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from mirror_sdk._formatting import visible
from mirror_sdk.values.value import InstanceValues, PythonValue, Value
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.model import JsonForm, write_timestamp


@dataclass(frozen=True, slots=True, repr=False)
class ReportedValue(JsonForm):
    """The last value that the mirror received from the device.

    Attributes:
        value: The value.
        reported_at: When the mirror received it.
        expires_at: The time up to which the value is fresh; ``None`` if the device sent no expiry.
        origin: ``read``, ``subscription`` or ``auto_observation``; ``None`` if the service does not return it.
        revision: The number of the change in the mirror that stored the value; ``None`` if the service does not return
            it.
    """

    value: Value
    reported_at: datetime | None
    expires_at: datetime | None
    origin: str | None = None
    revision: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return :meth:`Value.to_dict` together with the other attributes, for any JSON encoder."""
        members = JsonForm.to_dict(self)
        return {**members.pop("value"), **members}

    def __repr__(self) -> str:
        return f"<ReportedValue {self.value}{_at(self.reported_at)}>"


@dataclass(frozen=True, slots=True, repr=False)
class DesiredValue(JsonForm):
    """The value of the last write, and the result of that write.

    Attributes:
        value: The value.
        status: Whether the write is pending, succeeded or failed.
        desired_at: When the write was requested, while it is pending; afterwards equal to ``status_updated_at``.
        status_updated_at: When the write succeeded or failed; ``None`` while it is pending.
        requested_at: When the write was requested.
        category: The cause of a failure. Only the application that requested the write receives it.
        revision: The number of the change in the mirror that stored this; ``None`` if the service does not return it.
        acknowledged_at: When someone acknowledged the failed write; ``None`` if no one did.
        acknowledged_by: Who acknowledged it.
    """

    value: Value
    status: DesiredStatus | None
    desired_at: datetime | None
    status_updated_at: datetime | None
    requested_at: datetime | None
    category: str | None = None
    revision: int | None = None
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return :meth:`Value.to_dict` together with the other attributes, for any JSON encoder."""
        members = JsonForm.to_dict(self)
        return {**members.pop("value"), **members}

    def __repr__(self) -> str:
        status = "" if self.status is None else f" {self.status.name}"
        return f"<DesiredValue {self.value}{status}{_at(self.desired_at)}>"


@dataclass(frozen=True, slots=True, repr=False)
class Resource(JsonForm):
    """One resource of a device, with its last reported and last desired value.

    Attributes:
        path: The path, such as ``/3303/0/5700``.
        label: The declared name; empty if the resource is not declared.
        unit: The unit that the device reports in resource 5701 of the same object instance, else the declared one.
        subscribed: Whether any application is subscribed to it.
        reported: The last reported value, with its payload. ``None`` before the first report. See also :attr:`value`.
        desired: The last desired value; ``None`` before the first write. See also :attr:`desired_value`.
        subscribed_at: When the subscription started; ``None`` if the service does not return it.
    """

    path: str
    label: str
    unit: str
    subscribed: bool
    reported: ReportedValue | None
    desired: DesiredValue | None
    subscribed_at: datetime | None = None

    @property
    def value(self) -> PythonValue | InstanceValues | None:
        """The last reported value as a plain Python value; ``None`` before the first one.

        The value is a number, a string, ``True`` or ``False``, an aware UTC ``datetime``, or ``bytes`` for an opaque
        payload. If the payload does not match the declaration, the value is its ``bytes``, and
        ``reported.value.problem`` has the reason. A resource with several instances has a mapping by instance id, such
        as ``{0: 3800, 1: 5000}``.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> client.get_device(station)["/3303/0/5700"].value
        21.5
        """
        return None if self.reported is None else self.reported.value.python

    @property
    def desired_value(self) -> PythonValue | InstanceValues | None:
        """The last desired value as a plain Python value, even if the write failed; ``None`` before the first write.

        >>> client.write_value(light, "/3311/0/5851", 40)
        >>> client.get_device(light)["/3311/0/5851"].desired_value
        40
        """
        return None if self.desired is None else self.desired.value.python

    @property
    def is_reported_after_write(self) -> bool | None:
        """Whether the device reported its value after the last change of the desired value; ``None`` if unknown.

        Revisions determine the order. Without revisions the times do, unless they are equal. The result is also
        ``None`` if there is no reported or no desired value.

        >>> client.read_value(light, "/3311/0/5851")
        10
        >>> client.write_value(light, "/3311/0/5851", 40)
        >>> client.get_device(light)["/3311/0/5851"].is_reported_after_write
        False
        """
        reported, desired = self.reported, self.desired
        if reported is None or desired is None:
            return None
        if reported.revision is not None and desired.revision is not None and reported.revision != desired.revision:
            return reported.revision > desired.revision
        if reported.reported_at is None or desired.desired_at is None or reported.reported_at == desired.desired_at:
            return None
        return reported.reported_at > desired.desired_at

    def __repr__(self) -> str:
        return f"<Resource {visible(self.path)} {self.label!r} reported={self.reported!r} desired={self.desired!r}>"


ExpectedValue: TypeAlias = int | Resource | DesiredValue
"""The desired value that a write expects: the resource as it was read before, its desired value, or its revision."""


def _at(moment: datetime | None) -> str:
    return "" if moment is None else f" at {write_timestamp(moment)}"
