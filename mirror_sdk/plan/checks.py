"""Checks of each requested write, which run before anything is sent."""

from __future__ import annotations

import numbers
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from mirror_sdk._formatting import visible
from mirror_sdk._table_arguments import ResourceKey
from mirror_sdk.device import DeviceObject
from mirror_sdk.errors import UNCERTAIN_CATEGORIES, InvalidValue
from mirror_sdk.object_definitions import lookup
from mirror_sdk.plan.requested_writes import RequestedWrite
from mirror_sdk.plan.undo import NO_EARLIER, later_change, restoring_write, since_text, value_text
from mirror_sdk.resource import DesiredValue, ReportedValue, Resource
from mirror_sdk.values import NO_VALUE, Value, ValueKind, decode, encode
from mirror_sdk.values.display import display_value
from mirror_sdk.values.value import plain_text, same
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.device_requests import DEFAULT_EXPIRY_SECONDS_QUEUE_MODE, MAX_EXPIRY_SECONDS, NEVER_WRITTEN
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.paths import parse_path

CONNECTED_EXPIRY_SECONDS = 60
"""The time for which a write waits for a connected device, in seconds."""
_SILENCES = 2
"""The expiry for a device that has been asleep for a long time, as a multiple of the time since its last contact."""


class Decision(StrEnum):
    """Whether a write is sent, skipped because it is not needed, or rejected."""

    WRITE = "write"
    SKIP = "skip"
    REFUSE = "refuse"


class Check(StrEnum):
    """The reason for a decision about a write."""

    OK = "ok"
    PENDING = "pending"
    OFFLINE = "offline"
    ALREADY_SO = "already_so"
    DUPLICATE = "duplicate"
    UNKNOWN_DEVICE = "unknown_device"
    UNKNOWN_RESOURCE = "unknown_resource"
    NOT_WRITABLE = "not_writable"
    WRONG_TYPE = "wrong_type"
    OUT_OF_RANGE = "out_of_range"
    NO_EARLIER_VALUE = "no_earlier_value"
    CHANGED = "changed"


class Finding(NamedTuple):
    """A decision about a write, and the reason for it as a constant and as a sentence."""

    decision: Decision
    check: Check
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """One write of a plan, with the requested value, the current value, and the decision.

    Attributes:
        async_id: The id of the write request, which stays the same for all attempts.
        device_id: The id of the device.
        path: The resource path.
        value: The input value. It is an error object if the input was a string that could not be parsed.
        content_type: The content type, as for ``client.requests.begin_write()``.
        if_match: The required revision of the desired value; ``None`` for any revision.
        requested: The requested value as it is sent. It has no value if the input value is the reason for a rejection.
        before: The value at the time when the plan was made, as far as the mirror knew it.
        endpoint_name: The name of the device; ``None`` for an unknown device.
        unit: The unit of the resource.
        decision: Whether the write is sent.
        check: The reason for the decision.
        reason: A sentence that explains the decision.
        sleeps: Whether the device sleeps, so that it accepts the write at its next contact.
        expiry_seconds: The time for which the write waits for the device, in seconds, unless ``apply`` sets another
            time.
    """

    async_id: str
    device_id: str
    path: str
    value: object
    content_type: str | None
    if_match: int | None
    requested: Value
    before: Value
    endpoint_name: str | None
    unit: str | None
    decision: Decision
    check: Check
    reason: str
    sleeps: bool = False
    expiry_seconds: int = CONNECTED_EXPIRY_SECONDS

    @property
    def may_be_sent(self) -> bool:
        """Whether the write is sent, at least with ``include_offline=True``."""
        return self.decision is Decision.WRITE or self.check is Check.OFFLINE

    @property
    def is_awake(self) -> bool:
        """Whether the device may respond at once."""
        return not self.sleeps and self.check is not Check.OFFLINE

    @property
    def undo(self) -> RequestedWrite:
        """The write that restores the earlier value."""
        return restoring_write(self.device_id, self.path, self.before)

    @property
    def undoable(self) -> bool:
        """Whether the earlier value can be restored, as far as the mirror knows."""
        return _value_of(self.undo)[1] is None


@dataclass(frozen=True, slots=True)
class TargetDevice:
    """A device in the directory, and its resources that will be written.

    ``read_at`` is the time of the read by the service's clock.
    """

    listed: Device
    read_at: datetime
    resources: Mapping[str, Resource]


ReadResources = tuple[datetime, Mapping[str, Resource]]
"""The time at which a device was read, by the service's clock, and some of its resources by path."""


def resources_at(paths: Collection[str], device: DeviceObject) -> ReadResources:
    """Return the time at which a device was read, and its resources at these paths.

    Storing all resources of a fleet would need too much memory.
    """
    return device.created_at, {path: one for path, one in device.resources.items() if path in paths}


def target_devices(listed: Iterable[Device], read: Iterable[ReadResources]) -> dict[str, TargetDevice]:
    """Return the devices by id."""
    return {device.id: TargetDevice(device, *state) for device, state in zip(listed, read, strict=True)}


_NO_SUCH_DEVICE = "there is no such device; client.devices.list() returns the existing ones"


def check_all(
    requested: Sequence[RequestedWrite],
    devices: Mapping[str, TargetDevice],
    reasons: Mapping[str, str],
    read_failures: Mapping[ResourceKey, str] | None = None,
    *,
    new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
) -> list[PlannedWrite]:
    """Check the writes, and return the planned writes in the same order.

    Args:
        requested: The requested writes.
        devices: The devices by id.
        reasons: The reasons why devices were not found, by the name of the device.
        read_failures: The reasons why reads of resources failed, by resource.
        new_id: A function that returns a new async-id.
    """
    # All values are collected first, because all rows that contradict each other are rejected, including the first one.
    values: dict[ResourceKey, list[object]] = defaultdict(list)
    for one in requested:
        values[one.device_id, one.path].append(one.value)
    checked: set[ResourceKey] = set()
    planned = []
    for one in requested:
        key = one.device_id, one.path
        reason = reasons.get(one.device_id, _NO_SUCH_DEVICE)
        write = _plan(one, devices.get(one.device_id), reason, values[key], new_id(), is_repeated=key in checked)
        planned.append(_with_undo_reason(write, (read_failures or {}).get(key)))
        checked.add(key)
    return planned


def resources_to_read(planned: Iterable[PlannedWrite], devices: Mapping[str, TargetDevice]) -> list[ResourceKey]:
    """Return the distinct resources of awake devices whose current value the mirror does not know."""
    return list(
        dict.fromkeys(
            (one.device_id, one.path)
            for one in planned
            if one.is_awake
            # Writes that seem unnecessary are included, because an expired value may no longer be the requested one.
            and (one.may_be_sent or one.check is Check.ALREADY_SO)
            and _is_to_be_read(one.path, devices[one.device_id])
        )
    )


def _is_to_be_read(path: str, device: TargetDevice) -> bool:
    definition, resource = lookup(path), device.resources[path]
    # A resource without a declaration may be readable, so it is worth trying to read it.
    if definition is not None and "R" not in definition.access:
        return False
    current = _current(resource)
    is_over = (
        isinstance(current, ReportedValue) and current.expires_at is not None and current.expires_at <= device.read_at
    )
    return current is None or is_over or _is_uncertain(resource)


def _plan(
    request: RequestedWrite,
    device: TargetDevice | None,
    cause: str,
    values: list[object],
    async_id: str,
    *,
    is_repeated: bool,
) -> PlannedWrite:
    resource = device.resources.get(request.path) if device else None
    requested, finding = _value_of(request)
    if finding is None:
        finding = _check_duplicate(values, is_repeated=is_repeated) or _check_device(
            request.path, device, cause, resource
        )
    if finding is None and resource is not None and device is not None:
        finding = _check_state(requested, resource, device.listed, request)
    if_match = request.if_match
    # An undo must not overwrite a value that another client wrote in the meantime.
    if request.undoes is not None:
        # The service also rejects the write if another write comes first.
        if_match = _revision(resource) if resource else None
    decision, check, reason = finding or Finding(Decision.WRITE, Check.OK)
    return PlannedWrite(
        async_id=async_id,
        device_id=request.device_id,
        path=request.path,
        value=request.value,
        content_type=request.content_type,
        if_match=if_match,
        requested=requested,
        before=current_value(resource) if resource else NO_VALUE,
        endpoint_name=device.listed.endpoint_name if device else None,
        unit=(resource.unit or None) if resource else None,
        decision=decision,
        check=check,
        reason=reason,
        sleeps=device is not None and device.listed.queue_mode,
        expiry_seconds=_expiry_seconds(device),
    )


def _expiry_seconds(device: TargetDevice | None) -> int:
    """Return the time until the next contact of the device in seconds, with a margin.

    The service does not report when a sleeping device makes contact. So the default is the service's own default for
    such devices. It is longer if the device was silent for long.
    """
    if device is None or not device.listed.queue_mode:
        return CONNECTED_EXPIRY_SECONDS
    contact_at = device.listed.last_contact_at or device.read_at
    silent_seconds = int((device.read_at - contact_at).total_seconds())
    return min(max(DEFAULT_EXPIRY_SECONDS_QUEUE_MODE, _SILENCES * silent_seconds), MAX_EXPIRY_SECONDS)


def _with_undo_reason(planned: PlannedWrite, read_failure: str | None) -> PlannedWrite:
    """Add an explanation to the reason of a write that will be sent but cannot be undone."""
    _, rejected = _value_of(planned.undo) if planned.may_be_sent else (None, None)
    if rejected is None:
        return planned
    because = rejected.reason if read_failure is None else f"a read of its value failed ({read_failure})"
    return replace(planned, reason="; ".join(filter(None, (planned.reason, f"this write cannot be undone: {because}"))))


def _value_of(request: RequestedWrite) -> tuple[Value, Finding | None]:
    if request.value is NO_EARLIER:
        return NO_VALUE, _reject(Check.NO_EARLIER_VALUE, "the mirror knows no earlier value to restore")
    definition = lookup(request.path)
    if definition is not None and "W" not in definition.access:
        return NO_VALUE, _reject(Check.NOT_WRITABLE, f"{definition.label} cannot be written")
    # The value is a string in a table that could not be parsed. Only its row is rejected.
    if isinstance(request.value, InvalidValue):
        return NO_VALUE, _reject(Check.WRONG_TYPE, str(request.value))
    try:
        payload, content_type = encode(request.value, request.path, request.content_type)
    except InvalidValue as error:
        # numpy numbers are real numbers, too.
        is_number = isinstance(request.value, numbers.Real) and not isinstance(request.value, bool)
        low, high = (definition and definition.range) or (-float("inf"), float("inf"))
        out_of_range = is_number and not low <= request.value <= high  # type: ignore[operator] # is_number says so
        return NO_VALUE, _reject(Check.OUT_OF_RANGE if out_of_range else Check.WRONG_TYPE, str(error))
    # The value is decoded again, so that it compares equal to the value that the device will report.
    return decode(payload, content_type, request.path), None


def _check_duplicate(values: list[object], *, is_repeated: bool) -> Finding | None:
    if any(_differs(other, values[0]) for other in values[1:]):
        return _reject(Check.DUPLICATE, f"{len(values)} different values are requested for this resource; pass one")
    return Finding(Decision.SKIP, Check.DUPLICATE, "an earlier row requests the same") if is_repeated else None


def _differs(one: object, other: object) -> bool:
    try:
        return bool(one != other)
    except (TypeError, ValueError):
        # The truth value of a comparison of arrays is undefined.
        return True


def _check_device(path: str, device: TargetDevice | None, cause: str, resource: Resource | None) -> Finding | None:
    if device is None:
        return _reject(Check.UNKNOWN_DEVICE, cause)
    if resource is None:
        try:
            parse_path(path)
        except ValueError as error:
            return _reject(Check.UNKNOWN_RESOURCE, str(error))
        return _reject(Check.UNKNOWN_RESOURCE, f"{visible(device.listed.endpoint_name)} has no resource {path}")
    return None


def _check_state(requested: Value, resource: Resource, listed: Device, request: RequestedWrite) -> Finding:
    desired, current = resource.desired, _current(resource)
    is_pending = desired is not None and desired.status is DesiredStatus.PENDING
    # The next two checks come before the conflict check: nothing has to be sent, even if another write came first.
    if desired is not None and is_pending and same(desired.value, requested):
        return Finding(Decision.SKIP, Check.PENDING, "a write of this value is pending already")
    if current is not None and not is_pending and not _is_uncertain(resource) and same(current.value, requested):
        return Finding(Decision.SKIP, Check.ALREADY_SO, since_text(current))
    if finding := _check_instances(current, request) or _check_conflict(resource, request):
        return finding
    # This is the last reason not to send the write, because include_offline=True overrides only this one.
    if listed.state != "registered":
        return Finding(
            Decision.SKIP, Check.OFFLINE, "the device is not registered; include_offline=True sends the write anyway"
        )
    if desired is not None and is_pending:
        earlier = display_value(desired.value)
        return Finding(Decision.WRITE, Check.PENDING, f"a write of {earlier} is pending before this one")
    return Finding(
        Decision.WRITE, Check.OK, "the device sleeps and receives it at its next contact" if listed.queue_mode else ""
    )


def _check_instances(current: ReportedValue | DesiredValue | None, request: RequestedWrite) -> Finding | None:
    """Check a string that is written to a resource with several instances, whose values tables show as JSON.

    Without this check, the JSON would replace all instances by a single string.
    """
    if current is None or current.value.kind is not ValueKind.MULTIPLE or not isinstance(request.value, str):
        return None
    if request.value == plain_text(current.value):
        return Finding(Decision.SKIP, Check.ALREADY_SO, since_text(current))
    return _reject(
        Check.WRONG_TYPE,
        "the resource has several instances; pass a mapping such as {0: 3800, 1: 5000}, in a list of (device, path,"
        " value)",
    )


def _check_conflict(resource: Resource, request: RequestedWrite) -> Finding | None:
    """Check a write that may only be sent if no other client wrote the resource."""
    if request.if_match is not None and request.if_match != _revision(resource):
        return changed_since(resource)
    change = later_change(resource, request.undoes) if request.undoes is not None else None
    if change is None:
        return None
    return _reject(
        Check.CHANGED,
        f"the resource was changed after the plan wrote it: {change}; to overwrite this change, make a new plan with"
        " client.plan()",
    )


def _revision(resource: Resource) -> int | None:
    return NEVER_WRITTEN if resource.desired is None else resource.desired.revision


def changed_since(resource: Resource | None) -> Finding:
    """Return the finding for a write after a conflicting change.

    The change is another write, or the end of an earlier write.
    """
    desired = None if resource is None else resource.desired
    if desired is None:
        return _reject(Check.CHANGED, "the desired value has changed since the table was read; read the table again")
    return _reject(
        Check.CHANGED,
        f"the desired value has changed to {value_text(desired)} since the table was read; read the table again",
    )


def _current(resource: Resource) -> ReportedValue | DesiredValue | None:
    """Return the current value: the last reported one, or one that was successfully written after that report."""
    reported, desired = resource.reported, resource.desired
    if desired is None or desired.status is not DesiredStatus.SUCCESS:
        return reported
    return reported if resource.is_reported_after_write else desired


def _is_uncertain(resource: Resource) -> bool:
    """Return whether a failed write may have changed the resource since its last report.

    The service does not report why the write of another application failed. Such a write is therefore treated as one
    that may have changed the resource.
    """
    desired = resource.desired
    if desired is None or desired.status is not DesiredStatus.FAILURE:
        return False
    if desired.category is not None and desired.category not in UNCERTAIN_CATEGORIES:
        return False
    return not resource.is_reported_after_write


def current_value(resource: Resource) -> Value:
    """Return the current value of the resource, as far as the mirror knows it."""
    current = _current(resource)
    return current.value if current else NO_VALUE


def _reject(check: Check, reason: str) -> Finding:
    return Finding(Decision.REFUSE, check, reason)
