"""What is right and wrong with each write that is wanted, before anything is sent."""

from __future__ import annotations

import math
import numbers
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from mirror_sdk._visible import visible
from mirror_sdk.device import DeviceObject
from mirror_sdk.errors import UNCERTAIN_CATEGORIES, InvalidValue
from mirror_sdk.object_table import lookup
from mirror_sdk.plan.wanted import EarlierWrite, Want
from mirror_sdk.resource import DesiredValue, ReportedValue, Resource
from mirror_sdk.values import NO_VALUE, Value, ValueKind, decode, encode
from mirror_sdk.values.value import plain_text
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.device_requests import DEFAULT_EXPIRY_SECONDS_QUEUE_MODE, MAX_EXPIRY_SECONDS, NEVER_WRITTEN
from mirror_sdk.wire.directory import Device
from mirror_sdk.wire.model import write_timestamp
from mirror_sdk.wire.paths import parse_path

CONNECTED_EXPIRY_SECONDS = 60
"""How long a write waits for a device that stays connected."""
_SILENCES = 2
"""A device that sleeps for long is given so many times the span in which nothing was heard of it."""

_FLOAT32_PRECISION = 1e-6

Place = tuple[str, str]
"""A device's id and a path."""


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
    CHANGED = "changed"


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
    when the plan was made, as far as the mirror knew. ``sleeps`` says whether the device does, and takes the write at
    its next contact; ``expiry_seconds`` is for how long the write waits for it, unless ``apply`` is told otherwise.
    """

    async_id: str
    want: Want
    wanted: Value
    before: Value
    endpoint_name: str | None
    unit: str | None
    finding: Finding
    sleeps: bool = False
    expiry_seconds: int = CONNECTED_EXPIRY_SECONDS

    @property
    def may_be_sent(self) -> bool:
        """Whether it is sent, or would be with ``include_offline=True``."""
        return self.finding.decision is Decision.WRITE or self.finding.check is Check.OFFLINE

    @property
    def is_awake(self) -> bool:
        """Whether its device may answer at once."""
        return not self.sleeps and self.finding.check is not Check.OFFLINE

    @property
    def way_back(self) -> Want:
        """What undoes it."""
        before = self.before.python
        return Want(
            self.want.device_id,
            self.want.path,
            NO_EARLIER if before is None else before,
            self.before.content_type if isinstance(before, bytes | Mapping) else None,
        )

    @property
    def undoable(self) -> bool:
        """Whether the way back can be written, as far as is known now."""
        return _value_of(self.way_back)[1] is None


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """What the directory tells of a device, and the mirror of those of its resources that are written, at an instant.

    All instants are of the service's clock.
    """

    listed: Device
    seen_at: datetime
    resources: Mapping[str, Resource]


Seen = tuple[datetime, Mapping[str, Resource]]
"""When a device was seen, by the service's clock, and some of its resources."""


def resources_at(paths: Collection[str], device: DeviceObject) -> Seen:
    """When it was seen, and the resources at these paths alone: of a fleet, all would be too many to keep."""
    return device.created_at, {path: one for path, one in device.resources.items() if path in paths}


def known_devices(listed: Iterable[Device], seen: Iterable[Seen]) -> dict[str, KnownDevice]:
    """Devices by their ids, each with its resources."""
    return {device.id: KnownDevice(device, *some) for device, some in zip(listed, seen, strict=True)}


_NO_SUCH_DEVICE = "there is no such device; client.devices.list() shows those there are"
NO_EARLIER = object()
"""Stands in the place of a value where there was none to go back to."""


def check_all(
    wants: Sequence[Want],
    devices: Mapping[str, KnownDevice],
    reasons: Mapping[str, str],
    unread: Mapping[Place, str] | None = None,
    *,
    new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
) -> list[PlannedWrite]:
    """The writes of a plan, in the order in which they are wanted.

    Args:
        wants: What is wanted.
        devices: The devices there are.
        reasons: Why a name leads nowhere.
        unread: Why a resource that was asked for its value told none.
        new_id: Makes the async-id of each.
    """
    values: dict[tuple[str, str], list[object]] = defaultdict(list)
    for want in wants:
        values[want.device_id, want.path].append(want.value)
    seen: set[tuple[str, str]] = set()
    planned = []
    for want in wants:
        key = want.device_id, want.path
        why = reasons.get(want.device_id, _NO_SUCH_DEVICE)
        one = _plan(want, devices.get(want.device_id), why, values[key], new_id(), is_repeated=key in seen)
        planned.append(_with_way_back(one, (unread or {}).get(key)))
        seen.add(key)
    return planned


def places_to_read(planned: Iterable[PlannedWrite], devices: Mapping[str, KnownDevice]) -> list[Place]:
    """What the mirror does not know, or not any more, though a device that is awake may be asked; each once."""
    return list(
        dict.fromkeys(
            (one.want.device_id, one.want.path)
            for one in planned
            if one.is_awake
            and (one.may_be_sent or one.finding.check is Check.ALREADY_SO)
            and _is_to_be_read(one.want, devices[one.want.device_id])
        )
    )


def _is_to_be_read(want: Want, device: KnownDevice) -> bool:
    definition, resource = lookup(want.path), device.resources[want.path]
    if definition is not None and "R" not in definition.access:
        return False
    current = _current(resource)
    is_over = (
        isinstance(current, ReportedValue) and current.expires_at is not None and current.expires_at <= device.seen_at
    )
    return current is None or is_over or _is_uncertain(resource)


def _plan(
    want: Want, device: KnownDevice | None, why: str, values: list[object], async_id: str, *, is_repeated: bool
) -> PlannedWrite:
    resource = device.resources.get(want.path) if device else None
    wanted, finding = _value_of(want)
    if finding is None:
        finding = _of_repetition(values, is_repeated=is_repeated) or _of_device(want, device, why, resource)
    if finding is None and resource is not None and device is not None:
        finding = _of_state(wanted, resource, device.listed, want)
    if want.undoes is not None:
        # Refused by the service too, if another write comes before this one is sent.
        want = want._replace(if_match=_revision(resource) if resource else None, undoes=None)
    return PlannedWrite(
        async_id=async_id,
        want=want,
        wanted=wanted,
        before=current_value(resource) if resource else NO_VALUE,
        endpoint_name=device.listed.endpoint_name if device else None,
        unit=(resource.unit or None) if resource else None,
        finding=finding or Finding(Decision.WRITE, Check.OK),
        sleeps=device is not None and device.listed.queue_mode,
        expiry_seconds=_expiry_seconds(device),
    )


def _expiry_seconds(device: KnownDevice | None) -> int:
    """The seconds until the next contact of the device, with a margin, as far as can be told.

    When a sleeping device makes contact the service does not say: it has the service's own time for such devices, and
    more if it was silent for long.
    """
    if device is None or not device.listed.queue_mode:
        return CONNECTED_EXPIRY_SECONDS
    heard_at = device.listed.last_contact_at or device.seen_at
    silent_seconds = int((device.seen_at - heard_at).total_seconds())
    return min(max(DEFAULT_EXPIRY_SECONDS_QUEUE_MODE, _SILENCES * silent_seconds), MAX_EXPIRY_SECONDS)


def _with_way_back(planned: PlannedWrite, unread: str | None) -> PlannedWrite:
    """The same, which says why it cannot be undone, if it is sent and cannot."""
    _, refused = _value_of(planned.way_back) if planned.may_be_sent else (None, None)
    if refused is None:
        return planned
    because = refused.reason if unread is None else f"asked for its value now, it told none ({unread})"
    parts = (planned.finding.reason, f"it cannot be undone: {because}")
    return replace(planned, finding=replace(planned.finding, reason="; ".join(filter(None, parts))))


def _value_of(want: Want) -> tuple[Value, Finding | None]:
    if want.value is NO_EARLIER:
        return NO_VALUE, _refuse(Check.NO_EARLIER_VALUE, "nothing was reported before that could be gone back to")
    definition = lookup(want.path)
    if definition is not None and "W" not in definition.access:
        return NO_VALUE, _refuse(Check.NOT_WRITABLE, f"{definition.label} cannot be written")
    if isinstance(want.value, InvalidValue):
        return NO_VALUE, _refuse(Check.WRONG_TYPE, str(want.value))
    try:
        payload, content_type = encode(want.value, want.path, want.content_type)
    except InvalidValue as error:
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
        try:
            parse_path(want.path)
        except ValueError as error:
            return _refuse(Check.UNKNOWN_RESOURCE, str(error))
        return _refuse(Check.UNKNOWN_RESOURCE, f"{visible(device.listed.endpoint_name)} has no resource {want.path}")
    return None


def _of_state(wanted: Value, resource: Resource, listed: Device, want: Want) -> Finding:
    desired, current = resource.desired, _current(resource)
    is_pending = desired is not None and desired.status is DesiredStatus.PENDING
    if desired is not None and is_pending and same(desired.value, wanted):
        return Finding(Decision.SKIP, Check.PENDING, "a write of this value is under way already")
    if current is not None and not is_pending and not _is_uncertain(resource) and same(current.value, wanted):
        return Finding(Decision.SKIP, Check.ALREADY_SO, _since(current))
    if finding := _of_shown_instances(current, want) or _conflict(resource, want):
        return finding
    if listed.state != "registered":
        return Finding(
            Decision.SKIP, Check.OFFLINE, "the device is not registered; include_offline=True sends it all the same"
        )
    if desired is not None and is_pending:
        return Finding(Decision.WRITE, Check.PENDING, f"a write of {desired.value} is under way before this one")
    return Finding(
        Decision.WRITE, Check.OK, "the device sleeps and takes it at its next contact" if listed.queue_mode else ""
    )


def _of_shown_instances(current: ReportedValue | DesiredValue | None, want: Want) -> Finding | None:
    """The finding of a text for a resource with several instances, which a table shows as JSON.

    Written as it is, the JSON would take the place of all instances as a single text.
    """
    if current is None or current.value.kind is not ValueKind.MULTIPLE or not isinstance(want.value, str):
        return None
    if want.value == plain_text(current.value):
        return Finding(Decision.SKIP, Check.ALREADY_SO, _since(current))
    return _refuse(
        Check.WRONG_TYPE,
        "it has several instances, and a text is for one; give their ids and values, such as {0: 3800, 1: 5000}, in a"
        " list of (device, path, value)",
    )


def _conflict(resource: Resource, want: Want) -> Finding | None:
    """The finding of a write that is wanted only while nobody else wrote."""
    if want.if_match is not None and want.if_match != _revision(resource):
        return changed_since(resource)
    change = _later_change(resource, want.undoes) if want.undoes is not None else None
    if change is None:
        return None
    reason = f"it was changed after the plan wrote it: {change}; to overwrite it, plan the value with client.plan()"
    return _refuse(Check.CHANGED, reason)


def _later_change(resource: Resource, write: EarlierWrite) -> str | None:
    """What changed the resource after a write: another write, or the device itself; ``None`` if nothing did.

    A later write of the same value changed nothing, unless it failed: the device may have kept a value from in between.
    """
    desired, reported = resource.desired, resource.reported
    if desired is None:
        # The service may not have accepted the write at all.
        return None if write.accepted_at is None else "its desired value is gone"
    is_later = write.accepted_at not in (None, desired.requested_at)
    if not _is_close(desired.value, write.written) or (is_later and desired.status is DesiredStatus.FAILURE):
        return repr(desired)
    if reported is None or not resource.is_reported_since:
        return None
    # The old value may have been reported while the write was waiting for the device.
    is_expected = _is_close(reported.value, write.written) or same(reported.value, write.before)
    return None if is_expected else repr(reported)


def _is_close(one: Value, other: Value) -> bool:
    """Whether two values mean the same, as far as a device that keeps 32-bit floats can tell."""
    if one.kind is other.kind is ValueKind.NUMBER:
        return math.isclose(one.python, other.python, rel_tol=_FLOAT32_PRECISION)  # type: ignore[arg-type] # kind says so
    return same(one, other)


def _revision(resource: Resource) -> int | None:
    return NEVER_WRITTEN if resource.desired is None else resource.desired.revision


def changed_since(resource: Resource | None) -> Finding:
    """The finding of a write that somebody else came before, or the end of an earlier one."""
    desired = resource and resource.desired
    told = f": {desired!r}" if desired else ""
    return _refuse(Check.CHANGED, f"what is desired there is not what was seen any more{told}; look again")


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


def current_value(resource: Resource) -> Value:
    """The value the resource has, as far as the mirror knows."""
    current = _current(resource)
    return current.value if current else NO_VALUE


def _since(current: ReportedValue | DesiredValue) -> str:
    word, at = (
        ("reported", current.reported_at) if isinstance(current, ReportedValue) else ("written", current.desired_at)
    )
    return word if at is None else f"{word} at {write_timestamp(at)}"


def same(one: Value, other: Value) -> bool:
    """Whether two values mean the same, whatever their content types."""
    return one.kind is other.kind and one.python == other.python


def _refuse(check: Check, reason: str) -> Finding:
    return Finding(Decision.REFUSE, check, reason)
