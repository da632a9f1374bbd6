"""A resource of a device as the mirror shows it: what was reported last, and what was asked for last.

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
    """The last value received from the device; fresh until ``expires_at`` where the device said how long it holds.

    ``origin`` is ``read``, ``subscription`` or ``auto_observation``, where the service tells that. ``revision`` is the
    number of the mirror's change that brought it, ``None`` where the service does not tell it (wire.md 1).
    """

    value: Value
    reported_at: datetime | None
    expires_at: datetime | None
    origin: str | None = None
    revision: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """What :meth:`Value.to_dict` gives with the other attributes beside it, for any JSON encoder."""
        told = JsonForm.to_dict(self)
        return {**told.pop("value"), **told}

    def __repr__(self) -> str:
        return f"<ReportedValue {self.value}{_at(self.reported_at)}>"


@dataclass(frozen=True, slots=True, repr=False)
class DesiredValue(JsonForm):
    """The last value requested to be written, and what became of the write.

    ``desired_at`` is the issue time while pending, then the time of the status update (specification 2.2);
    ``requested_at`` stays the issue time, ``status_updated_at`` is ``None`` while pending. ``category`` says why the
    write failed; the service tells that only to the application that placed it (specification 3.1 and 7). ``revision``
    is the number of the mirror's change that made all of this what it is, ``None`` where the service does not tell it.
    ``acknowledged_at`` and ``acknowledged_by`` say when and by whom a failed write was acknowledged; ``None`` if it was
    not.
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
        """What :meth:`Value.to_dict` gives with the other attributes beside it, for any JSON encoder."""
        told = JsonForm.to_dict(self)
        return {**told.pop("value"), **told}

    def __repr__(self) -> str:
        status = "" if self.status is None else f" {self.status.name}"
        return f"<DesiredValue {self.value}{status}{_at(self.desired_at)}>"


@dataclass(frozen=True, slots=True, repr=False)
class Resource(JsonForm):
    """One resource; ``reported`` and ``desired`` are ``None`` before the first value.

    ``value`` and ``desired_value`` are the plain values of the two; ``reported.value`` has the payload too.
    ``label`` and ``unit`` are empty where nothing declares them; a unit the device reports in resource 5701 of the
    same object instance goes before the declared one. ``subscribed_at`` is ``None`` where the service does not tell it.
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

        A number, a text, ``True`` or ``False``, an aware UTC ``datetime``, or ``bytes`` where the payload is opaque or
        could not be read as what is declared; ``reported.value`` then says why, in ``problem``. Of a resource with
        several instances, a mapping of these by instance id: ``{0: 3800, 1: 5000}``.

        >>> client.read_value(station, "/3303/0/5700")
        21.5
        >>> client.get_device(station)["/3303/0/5700"].value
        21.5
        """
        return None if self.reported is None else self.reported.value.python

    @property
    def desired_value(self) -> PythonValue | InstanceValues | None:
        """The last desired value as a plain Python value, whatever became of the write; ``None`` before the first one.

        >>> client.write_value(light, "/3311/0/5851", 40)
        >>> client.get_device(light)["/3311/0/5851"].desired_value
        40
        """
        return None if self.desired is None else self.desired.value.python

    @property
    def is_reported_after_write(self) -> bool | None:
        """Whether the value was reported after the last write of it was issued, or has ended; ``None`` if unknown.

        The revisions tell, also within one millisecond; without them the times do, unless they are the same. It is
        unknown too where nothing was reported or nothing was written. Source: wire.md 1.

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
"""The desired value that a write expects, as it was read before: the resource, its desired value, or its revision."""


def _at(moment: datetime | None) -> str:
    return "" if moment is None else f" at {write_timestamp(moment)}"
