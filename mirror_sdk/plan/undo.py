"""The writes that undo a plan by restoring earlier values, and the later changes that prevent them.

``Plan.undo`` requests a restoring write for each write that may have had an effect. ``checks`` rejects the restoring
write if the earlier value is unknown, or if another client or the device changed the resource afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from mirror_sdk._formatting import utc_text
from mirror_sdk.plan.requested_writes import EarlierWrite, RequestedWrite
from mirror_sdk.resource import DesiredValue, ReportedValue, Resource
from mirror_sdk.values import Value, ValueKind
from mirror_sdk.values.display import display_value
from mirror_sdk.values.value import same
from mirror_sdk.wire.device_object import DesiredStatus

NO_EARLIER = object()
"""The value of a restoring write for which the mirror knows no earlier value."""

_WRITTEN: Mapping[DesiredStatus | None, str] = {
    DesiredStatus.PENDING: "write requested",
    DesiredStatus.FAILURE: "write failed",
}

# A 32-bit float has about seven decimal digits.
_FLOAT32_PRECISION = 1e-6


def restoring_write(device_id: str, path: str, before: Value) -> RequestedWrite:
    """Return the write that restores the earlier value."""
    value = before.python
    # The declaration determines how other values are encoded. Bytes and instances need an explicit content type.
    content_type = before.content_type if isinstance(value, bytes | Mapping) else None
    return RequestedWrite(device_id, path, NO_EARLIER if value is None else value, content_type)


def later_change(resource: Resource, write: EarlierWrite) -> str | None:
    """Return the later change of a resource after a write; ``None`` if there is no later change.

    A write or the device itself can make the change. A later write of the same value is not a change, unless the later
    write failed. In that case, the device might still have a value that it had between the two writes.
    """
    desired, reported = resource.desired, resource.reported
    if desired is None:
        # The service may not have accepted the write at all.
        return None if write.accepted_at is None else "the desired value was removed"
    is_later = write.accepted_at not in (None, desired.requested_at)
    if not _is_close(desired.value, write.written) or (is_later and desired.status is DesiredStatus.FAILURE):
        return value_text(desired)
    if reported is None or not resource.is_reported_after_write:
        return None
    # While the write was waiting for the device, the device may have reported the old value.
    is_expected = _is_close(reported.value, write.written) or same(reported.value, write.before)
    return None if is_expected else value_text(reported)


def since_text(current: ReportedValue | DesiredValue) -> str:
    """Return how and when a value was set, such as ``reported at 2026-11-22 10:20:30 UTC``."""
    if isinstance(current, ReportedValue):
        word, at = "reported", current.reported_at
    else:
        word, at = _WRITTEN.get(current.status, "written"), current.desired_at
    return word if at is None else f"{word} at {utc_text(at)}"


def value_text(current: ReportedValue | DesiredValue) -> str:
    """Return a value, and how and when it was set."""
    return f"{display_value(current.value)} ({since_text(current)})"


def _is_close(one: Value, other: Value) -> bool:
    """Return whether two values are equal within the precision of a device that stores 32-bit floats."""
    if one.kind is other.kind is ValueKind.NUMBER:
        return math.isclose(one.python, other.python, rel_tol=_FLOAT32_PRECISION)  # type: ignore[arg-type] # kind says so
    return same(one, other)
