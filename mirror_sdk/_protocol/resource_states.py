"""Conversion of resources in the wire format to typed values. Source: specification 2.1 and 2.2; wire.md 1."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mirror_sdk.object_definitions import IN_SENSOR_UNITS, SENSOR_UNITS, lookup
from mirror_sdk.resource import DesiredValue, ReportedValue, Resource
from mirror_sdk.values import ValueKind, decode
from mirror_sdk.wire import device_object as wire_object
from mirror_sdk.wire.paths import parse_path


def resources_of(states: Sequence[wire_object.ResourceState]) -> dict[str, Resource]:
    """Return the resources of a device object by path. A payload that does not match its declaration becomes opaque."""
    units = _units_by_instance(states)
    return {state.resource_path: _resource(state, units) for state in states}


def _units_by_instance(states: Iterable[wire_object.ResourceState]) -> dict[str, str]:
    """Return the unit that each object instance reports in resource 5701, by the path of the instance (``/3303/0``)."""
    suffix = f"/{SENSOR_UNITS}"
    values = {
        state.resource_path.removesuffix(suffix): _reported(state)
        for state in states
        if state.resource_path.endswith(suffix)
    }
    return {
        instance: str(reported.value.python)
        for instance, reported in values.items()
        if reported is not None and reported.value.kind is ValueKind.TEXT
    }


def _resource(state: wire_object.ResourceState, units: Mapping[str, str]) -> Resource:
    path = state.resource_path
    definition = lookup(path)
    unit = definition.unit if definition else ""
    if definition is not None and definition.resource_id in IN_SENSOR_UNITS:
        parts = parse_path(path)
        unit = units.get(f"/{parts.object_id}/{parts.instance_id}", unit)
    return Resource(
        path=path,
        label=definition.label if definition else "",
        unit=unit,
        subscribed=bool(state.subscribed),
        reported=_reported(state),
        desired=_desired(state),
        subscribed_at=state.subscribed_at,
    )


def _reported(state: wire_object.ResourceState) -> ReportedValue | None:
    reported = state.reported
    if reported.value is None:
        return None
    value = decode(reported.value, reported.content_type, state.resource_path)
    return ReportedValue(value, **_copies(ReportedValue, reported))


def _desired(state: wire_object.ResourceState) -> DesiredValue | None:
    desired = state.desired
    if desired.value is None:
        return None
    value = decode(desired.value, desired.content_type, state.resource_path)
    return DesiredValue(value, **_copies(DesiredValue, desired))


def _copies(
    kind: type[ReportedValue | DesiredValue], part: wire_object.Reported | wire_object.Desired
) -> dict[str, Any]:
    """Return the attributes of a value that have the same names in the wire format, which are all but the value."""
    members = part.__dict__
    return {name: members[name] for name in kind.__slots__ if name != "value"}
