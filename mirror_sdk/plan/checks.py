"""What is right and wrong with each write that is wanted, before anything is sent."""

from __future__ import annotations

import numbers
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mirror_sdk.device import DesiredValue, DeviceObject, ReportedValue, Resource
from mirror_sdk.errors import UNCERTAIN_CATEGORIES, ValueRefused
from mirror_sdk.object_table import lookup
from mirror_sdk.plan.wanted import Want
from mirror_sdk.values import NO_VALUE, Value, decode, encode
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.model import write_timestamp


class Decision(StrEnum):
    """What is done about a write: it is sent, it is not needed, or it cannot be."""

    WRITE = "write"
    SKIP = "skip"
    REFUSE = "refuse"


class Check(StrEnum):
    """What was found."""

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


@dataclass(frozen=True, slots=True)
class Finding:
    """A decision and its reason, in words."""

    decision: Decision
    check: Check
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """One write of a plan: what is wanted, what is there now, and what is done about it.

    ``async_id`` is the identity under which it is sent, however often it is tried; ``before`` is what the resource had
    when the plan was made, as far as the mirror knew.
    """

    async_id: str
    want: Want
    wanted: Value
    before: Value
    endpoint_name: str | None
    unit: str | None
    finding: Finding


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """What the directory tells of a device, and the mirror of those of its resources that are written."""

    listed: Device
    resources: Mapping[str, Resource]


def resources_at(paths: Collection[str], device: DeviceObject) -> dict[str, Resource]:
    """The resources of a device at these paths alone: of a fleet, all would be too many to keep."""
    return {path: one for path, one in device.resources.items() if path in paths}


def known_devices(listed: Iterable[Device], resources: Iterable[Mapping[str, Resource]]) -> dict[str, KnownDevice]:
    """Devices by their ids, each with its resources."""
    return {device.id: KnownDevice(device, some) for device, some in zip(listed, resources, strict=True)}


_NO_SUCH_DEVICE = "there is no such device; client.list_devices() shows those there are"
NO_EARLIER = object()
"""In the place of a value: there was none to go back to."""


def check_all(
    wants: Sequence[Want], devices: Mapping[str, KnownDevice], reasons: Mapping[str, str]
) -> list[PlannedWrite]:
    """The writes of a plan, in the order in which they are wanted; ``reasons`` says of a name why it leads nowhere."""
    values: dict[tuple[str, str], list[object]] = defaultdict(list)
    for want in wants:
        values[want.device_id, want.path].append(want.value)
    seen: set[tuple[str, str]] = set()
    planned = []
    for want in wants:
        key = want.device_id, want.path
        why = reasons.get(want.device_id, _NO_SUCH_DEVICE)
        planned.append(_plan(want, devices.get(want.device_id), why, values[key], is_repeated=key in seen))
        seen.add(key)
    return planned


def _plan(want: Want, device: KnownDevice | None, why: str, values: list[object], *, is_repeated: bool) -> PlannedWrite:
    resource = device.resources.get(want.path) if device else None
    wanted, finding = _value_of(want)
    if finding is None:
        finding = _of_repetition(values, is_repeated=is_repeated) or _of_device(want, device, why, resource)
    if finding is None and resource is not None and device is not None:
        finding = _of_state(wanted, resource, device.listed)
    current = resource and _current(resource)
    return PlannedWrite(
        async_id=uuid.uuid4().hex,
        want=want,
        wanted=wanted,
        before=current.value if current else NO_VALUE,
        endpoint_name=device.listed.endpoint_name if device else None,
        unit=(resource.unit or None) if resource else None,
        finding=finding or Finding(Decision.WRITE, Check.OK),
    )


def _value_of(want: Want) -> tuple[Value, Finding | None]:
    if want.value is NO_EARLIER:
        return NO_VALUE, _refuse(Check.NO_EARLIER_VALUE, "nothing was reported before that could be gone back to")
    definition = lookup(want.path)
    if definition is not None and "W" not in definition.access:
        return NO_VALUE, _refuse(Check.NOT_WRITABLE, f"{definition.label} cannot be written")
    if isinstance(want.value, ValueRefused):
        return NO_VALUE, _refuse(Check.WRONG_TYPE, str(want.value))
    try:
        payload, content_type = encode(want.value, want.path, want.content_type)
    except ValueRefused as error:
        # numpy's numbers are such, too.
        is_number = isinstance(want.value, numbers.Real) and not isinstance(want.value, bool)
        low, high = (definition and definition.range) or (-float("inf"), float("inf"))
        out_of_range = is_number and not low <= want.value <= high  # type: ignore[operator] # is_number says so
        return NO_VALUE, _refuse(Check.OUT_OF_RANGE if out_of_range else Check.WRONG_TYPE, str(error))
    return decode(payload, content_type, want.path), None


def _of_repetition(values: list[object], *, is_repeated: bool) -> Finding | None:
    if any(_differs(other, values[0]) for other in values[1:]):
        return _refuse(Check.DUPLICATE, f"{len(values)} different values are wanted here; give one")
    return Finding(Decision.SKIP, Check.DUPLICATE, "it is wanted once already") if is_repeated else None


def _differs(one: object, other: object) -> bool:
    try:
        return bool(one != other)
    except (TypeError, ValueError):
        # Arrays, for instance, are compared one by one.
        return True


def _of_device(want: Want, device: KnownDevice | None, why: str, resource: Resource | None) -> Finding | None:
    if device is None:
        return _refuse(Check.UNKNOWN_DEVICE, why)
    if resource is None:
        return _refuse(Check.UNKNOWN_RESOURCE, f"{device.listed.endpoint_name} has no resource {want.path}")
    return None


def _of_state(wanted: Value, resource: Resource, listed: Device) -> Finding:
    desired, current = resource.desired, _current(resource)
    is_pending = desired is not None and desired.status is DesiredStatus.PENDING
    if desired is not None and is_pending and _same(desired.value, wanted):
        return Finding(Decision.SKIP, Check.PENDING, "a write of this value is under way already")
    if current is not None and not is_pending and not _is_uncertain(resource) and _same(current.value, wanted):
        return Finding(Decision.SKIP, Check.ALREADY_SO, _since(current))
    if listed.state != "registered":
        return Finding(
            Decision.SKIP, Check.OFFLINE, "the device is not registered; include_offline=True sends it all the same"
        )
    if desired is not None and is_pending:
        return Finding(Decision.WRITE, Check.PENDING, f"a write of {desired.value} is under way before this one")
    return Finding(
        Decision.WRITE, Check.OK, "the device sleeps and takes it at its next contact" if listed.queue_mode else ""
    )


def _current(resource: Resource) -> ReportedValue | DesiredValue | None:
    """What the resource has: the last reported value, or one that was written with success since."""
    reported, desired = resource.reported, resource.desired
    if desired is None or desired.status is not DesiredStatus.SUCCESS:
        return reported
    return reported if resource.is_reported_since else desired


def _is_uncertain(resource: Resource) -> bool:
    """Whether a write may have changed it since it was reported, though it failed.

    Why a write of another application failed is not told: then it may have.
    """
    desired = resource.desired
    if desired is None or desired.status is not DesiredStatus.FAILURE:
        return False
    if desired.category is not None and desired.category not in UNCERTAIN_CATEGORIES:
        return False
    return not resource.is_reported_since


def _since(current: ReportedValue | DesiredValue) -> str:
    word, at = (
        ("reported", current.reported_at) if isinstance(current, ReportedValue) else ("written", current.desired_at)
    )
    return word if at is None else f"{word} at {write_timestamp(at)}"


def _same(one: Value, other: Value) -> bool:
    return one.kind is other.kind and one.python == other.python


def _refuse(check: Check, reason: str) -> Finding:
    return Finding(Decision.REFUSE, check, reason)
