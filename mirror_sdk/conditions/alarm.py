"""Alarms, which report that a condition has started or ended."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from mirror_sdk._formatting import visible
from mirror_sdk.conditions.clause import Scalar
from mirror_sdk.wire.model import JsonForm, write_timestamp


class AlarmKind(StrEnum):
    """Whether a condition has started or ended."""

    STARTED = "started"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm(JsonForm):
    """The start or the end of an interval in which a condition is met.

    Attributes:
        kind: ``started`` or ``ended``.
        id: The id of the interval. It is the same for its start and its end, and each time the same events are
            evaluated. An alarm with the same ``id`` and ``kind`` as an earlier one is a repetition.
        condition: The condition as text.
        device_id: The id of the device.
        endpoint_name: The endpoint name of the device, or ``None`` if it is unknown.
        path: The resource path, or ``None`` for a combination of conditions.
        at: When the condition started or ended. With ``for_``, it starts that long after ``begin``.
        begin: When the interval began, which is the time since which the test is met. For a combination, it is the
            time since which all required conditions are met.
        value: The newest value of the resource, or ``None`` for a combination.
        extreme: The most extreme number since ``begin``: the largest one of ``above``, the smallest one of ``below``,
            and the one farthest outside of ``outside``. It is ``None`` for all other tests.
        hidden: The part of the interval in which the state was unknown, because of a gap or because the device was not
            registered.
        gap: Whether unknown time is part of the interval, or directly precedes it. In the latter case, the condition
            may have been met before ``begin``.
    """

    kind: AlarmKind
    id: str
    condition: str
    device_id: str
    endpoint_name: str | None
    path: str | None
    at: datetime
    begin: datetime
    value: Scalar | None
    extreme: float | None
    hidden: timedelta
    gap: bool

    def __str__(self) -> str:
        """Format the alarm as one line for users."""
        value = "" if self.value is None else f", value {self.value}"
        gap = f", unknown for {self.hidden}" if self.hidden else ""
        device = self.endpoint_name or self.device_id
        path = "" if self.path is None else f" {self.path}"
        return visible(f"{write_timestamp(self.at)} {self.kind} {device}{path}: {self.condition}{value}{gap}")
