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
        reported_at: The time at which the mirror received the value.
        expires_at: The time until which the value is fresh, or ``None`` if the device did not send this time.
        origin: The reason why the device sent the value: ``read``, ``subscription`` or ``auto_observation``. It is
            ``None`` if the service does not return it.
        revision: The number of the change in the mirror that stored the value. It is ``None`` if the service does not
            return it.
    """

    value: Value
    reported_at: datetime | None
    expires_at: datetime | None
    origin: str | None = None
    revision: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return :meth:`Value.to_dict` and the other attributes as one mapping, which any JSON encoder accepts."""
        members = JsonForm.to_dict(self)
        return {**members.pop("value"), **members}

    def __repr__(self) -> str:
        return f"<ReportedValue {self.value}{_at(self.reported_at)}>"


@dataclass(frozen=True, slots=True, repr=False)
class DesiredValue(JsonForm):
    """The value of the last write, and the result of that write.

    Attributes:
        value: The value.
        status: Whether the write is pending, has succeeded or has failed.
        desired_at: The time at which the write was requested, while it is pending. Afterwards, it equals
            ``status_updated_at``.
        status_updated_at: The time at which the write succeeded or failed, or ``None`` while it is pending.
        requested_at: The time at which the write was requested.
        category: The cause of a failure. Only the application that requested the write receives it.
        revision: The number of the change in the mirror that stored this value or status. It is ``None`` if the service
            does not return it.
        acknowledged_at: The time at which someone acknowledged the failed write, or ``None`` if no one did.
        acknowledged_by: The person who acknowledged the failed write.
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
        """Return :meth:`Value.to_dict` and the other attributes as one mapping, which any JSON encoder accepts."""
        members = JsonForm.to_dict(self)
        return {**members.pop("value"), **members}

    def __repr__(self) -> str:
        status = "" if self.status is None else f" {self.status.name}"
        return f"<DesiredValue {self.value}{status}{_at(self.desired_at)}>"


@dataclass(frozen=True, slots=True, repr=False)
class Resource(JsonForm):
    """One resource of a device, with its last reported and last desired value.

    Attributes:
        path: The resource path, such as ``/3303/0/5700``.
        label: The declared name, or an empty string if the resource is not declared.
        unit: The unit that the device reports in resource 5701 of the same object instance, or else the declared unit.
        subscribed: Whether any application is subscribed to the resource.
        reported: The last reported value with its payload, or ``None`` before the first one. See also :attr:`value`.
        desired: The last desired value, or ``None`` before the first write. See also :attr:`desired_value`.
        subscribed_at: The time at which the subscription started, or ``None`` if the service does not return it.
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
        """The last reported value as a plain Python value, or ``None`` before the first report.

        The value is a number, a string, ``True`` or ``False``, a UTC ``datetime`` with a time zone, or ``bytes`` for an
        opaque payload. If the payload does not match the declaration, the value is the ``bytes`` of the payload, and
        ``reported.value.problem`` contains the reason. For a resource with several instances, the value is a mapping
        from instance ids to values, such as ``{0: 3800, 1: 5000}``.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> client.get_device(station)["/3303/0/5700"].value
        21.5
        """
        return None if self.reported is None else self.reported.value.python

    @property
    def desired_value(self) -> PythonValue | InstanceValues | None:
        """The last desired value as a plain Python value, even if the write failed, or ``None`` before the first write.

        >>> client.write_value(light, "/3311/0/5851", 40)
        >>> client.get_device(light)["/3311/0/5851"].desired_value
        40
        """
        return None if self.desired is None else self.desired.value.python

    @property
    def is_reported_after_write(self) -> bool | None:
        """Whether the device reported its value after the last change of the desired value, or ``None`` if unknown.

        Revisions determine the order. If the service returns no revisions, the times determine it, unless they are
        equal. The result is also ``None`` if there is no reported or no desired value.

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
"""The desired value that a write expects: a resource that was read before, its desired value, or the revision."""


def _at(moment: datetime | None) -> str:
    return "" if moment is None else f" at {write_timestamp(moment)}"
