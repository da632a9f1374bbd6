"""A resource of a device: its last reported value and its last desired value.

Source: specification 2.1 and 2.2; wire.md 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from mirror_sdk._visible import visible
from mirror_sdk.values.value import InstanceValues, PythonValue, Value
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.model import JsonForm, write_timestamp


@dataclass(frozen=True, slots=True, repr=False)
class ReportedValue(JsonForm):
    """The last value received from the device. It is fresh until ``expires_at``, if the device sent an expiry.

    ``origin`` is ``read``, ``subscription`` or ``auto_observation``; ``None`` if the service does not return it.
    ``revision`` is the number of the change in the mirror that stored it; ``None`` if the service does not return it
    (wire.md 1).
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
    """The last value requested to be written, and the result of the write.

    ``desired_at`` is the issue time while pending, then the time of the status update (specification 2.2);
    ``requested_at`` stays the issue time, ``status_updated_at`` is ``None`` while pending. ``category`` is the cause of
    a failed write; the service returns it only to the application that requested the write (specification 3.1 and 7).
    ``revision`` is the number of the change in the mirror that stored all of this; ``None`` if the service does not
    return it. ``acknowledged_at`` and ``acknowledged_by`` are the time and the author of the acknowledgement of a
    failed write; ``None`` without one.
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
    """One resource; ``reported`` and ``desired`` are ``None`` before the first value.

    ``value`` and ``desired_value`` are the plain Python values of the two; ``reported.value`` also has the payload.
    ``label`` and ``unit`` are empty if they are not declared. A unit that the device reports in resource 5701 of the
    same object instance takes precedence over the declared one. ``subscribed_at`` is ``None`` if the service does not
    return it.
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

        It is a number, a text, ``True`` or ``False``, an aware UTC ``datetime``, or ``bytes`` for an opaque payload. It
        is also ``bytes`` if the payload does not match the declaration; ``reported.value.problem`` then says why. For a
        resource with several instances it is a mapping by instance id: ``{0: 3800, 1: 5000}``.

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
        """Whether the value was reported after the last write was issued, or after it ended; ``None`` if unknown.

        It is also ``None`` if nothing was reported or nothing was written. Revisions decide, even within one
        millisecond. Without them the times decide, unless they are equal. Source: wire.md 1.

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
