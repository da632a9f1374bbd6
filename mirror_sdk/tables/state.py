"""The rows of the state table, one per device and resource. Source: specification 2.2; wire.md 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Protocol

import pyarrow as pa

from mirror_sdk.resource import Resource
from mirror_sdk.tables.columns import CATEGORY, INSTANT, boolean, fixed_category, number, text, to_table
from mirror_sdk.values import NO_VALUE, Value, ValueKind
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.paths import PathParts, matches_any, parse_path

STATE_SCHEMA = pa.schema(
    [
        pa.field("device_id", CATEGORY),
        pa.field("endpoint_name", CATEGORY),
        pa.field("path", CATEGORY),
        pa.field("object_id", pa.int32()),
        pa.field("instance_id", pa.int32()),
        pa.field("resource_id", pa.int32()),
        pa.field("label", CATEGORY),
        pa.field("unit", CATEGORY),
        pa.field("reported_num", pa.float64()),
        pa.field("reported_text", pa.string()),
        pa.field("reported_bool", pa.bool_()),
        fixed_category("value_kind", [kind.value for kind in ValueKind]),
        pa.field("reported_at", INSTANT),
        pa.field("fresh_until", INSTANT),
        pa.field("desired_num", pa.float64()),
        pa.field("desired_text", pa.string()),
        pa.field("desired_bool", pa.bool_()),
        fixed_category("desired_status", [status.name.lower() for status in DesiredStatus], ordered=True),
        pa.field("requested_at", INSTANT),
        pa.field("desired_at", INSTANT),
        pa.field("subscribed", pa.bool_()),
        pa.field("reported_revision", pa.int64()),
        pa.field("desired_revision", pa.int64()),
        pa.field("acknowledged_at", INSTANT),
        pa.field("acknowledged_by", pa.string()),
    ]
)
"""The state table without its raw columns."""

REVISIONS = ("reported_revision", "desired_revision")
"""The columns that tell the order of changes."""

STATE_RAW_SCHEMA = pa.schema(
    [
        *STATE_SCHEMA,
        pa.field("reported_raw", pa.binary()),
        pa.field("desired_raw", pa.binary()),
        pa.field("reported_origin", pa.string()),
    ]
)
"""The state table with ``raw=True``."""

DIRECTORY_SCHEMA = pa.schema(
    [
        pa.field("device_id", pa.string()),
        pa.field("endpoint_name", pa.string()),
        pa.field("endpoint_type", CATEGORY),
        pa.field("state", CATEGORY),
        pa.field("queue_mode", pa.bool_()),
        pa.field("created_at", INSTANT),
        pa.field("updated_at", INSTANT),
        pa.field("last_contact", INSTANT),
    ]
)
"""The table of devices."""


@lru_cache(maxsize=4096)
def parts_of(path: str) -> PathParts | tuple[None, None, None, None]:
    """The numbers of a path; none of a text that is no path."""
    try:
        return parse_path(path)
    except ValueError:
        return (None, None, None, None)


def _reported(resource: Resource) -> Value:
    return resource.reported.value if resource.reported else NO_VALUE


def _desired(resource: Resource) -> Value:
    return resource.desired.value if resource.desired else NO_VALUE


def _status(resource: Resource) -> str | None:
    status = resource.desired.status if resource.desired else None
    return None if status is None else status.name.lower()


_RESOURCE_COLUMNS: Mapping[str, Callable[[Resource], object]] = {
    "path": lambda resource: resource.path,
    "object_id": lambda resource: parts_of(resource.path)[0],
    "instance_id": lambda resource: parts_of(resource.path)[1],
    "resource_id": lambda resource: parts_of(resource.path)[2],
    "label": lambda resource: resource.label or None,
    "unit": lambda resource: resource.unit or None,
    "reported_num": lambda resource: number(_reported(resource)),
    "reported_text": lambda resource: text(_reported(resource)),
    "reported_bool": lambda resource: boolean(_reported(resource)),
    "value_kind": lambda resource: _reported(resource).kind.value,
    "reported_at": lambda resource: resource.reported and resource.reported.reported_at,
    "fresh_until": lambda resource: resource.reported and resource.reported.expires_at,
    "desired_num": lambda resource: number(_desired(resource)),
    "desired_text": lambda resource: text(_desired(resource)),
    "desired_bool": lambda resource: boolean(_desired(resource)),
    "desired_status": _status,
    "requested_at": lambda resource: resource.desired and resource.desired.requested_at,
    "desired_at": lambda resource: resource.desired and resource.desired.desired_at,
    "subscribed": lambda resource: resource.subscribed,
    "reported_revision": lambda resource: resource.reported and resource.reported.revision,
    "desired_revision": lambda resource: resource.desired and resource.desired.revision,
    "acknowledged_at": lambda resource: resource.desired and resource.desired.acknowledged_at,
    "acknowledged_by": lambda resource: resource.desired and resource.desired.acknowledged_by,
    "reported_raw": lambda resource: _reported(resource).raw,
    "desired_raw": lambda resource: _desired(resource).raw,
    "reported_origin": lambda resource: resource.reported and resource.reported.origin,
}


class DeviceState(Protocol):
    """What of a device object its rows are made of; see :class:`mirror_sdk.DeviceObject`."""

    @property
    def device_id(self) -> str:
        """The device."""

    @property
    def endpoint_name(self) -> str | None:
        """Its endpoint name."""

    @property
    def created_at(self) -> datetime:
        """When it was read, by the service's clock."""

    @property
    def resources(self) -> Mapping[str, Resource]:
        """Its resources by path."""


def state_table(
    devices: Iterable[DeviceState], *, paths: Sequence[str] | None, raw: bool = False
) -> tuple[pa.Table, int]:
    """The state table for Arrow, and the number of the devices; see :func:`mirror_sdk.frames.state_frame`."""
    rows = StateRows(paths=paths, raw=raw)
    for device in devices:
        rows.add(rows.of(device))
    return rows.pop_table(), rows.device_count


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """The rows of one device: few objects, however many rows, since hundreds of devices may wait for their turn.

    Attributes:
        taken_at: When the device was read, by the service's clock.
        row_count: How many rows they are.
        cells: Their cells, column by column.
    """

    taken_at: datetime
    row_count: int
    cells: list[object]


class StateRows:
    """Rows of the state table, column by column, of which nothing of a device but its values is kept.

    Args:
        paths: Path patterns, checked; ``None`` takes every resource.
        raw: Whether the payloads are columns too.

    Attributes:
        device_count: Of how many devices they are.
        taken_at: When the first of these was read, by the service's clock; ``None`` without any.
    """

    def __init__(self, *, paths: Sequence[str] | None, raw: bool) -> None:
        self._paths = paths
        self._schema = STATE_RAW_SCHEMA if raw else STATE_SCHEMA
        self._readers = [_RESOURCE_COLUMNS[name] for name in self._schema.names if name in _RESOURCE_COLUMNS]
        self._columns: dict[str, list[object]] = {name: [] for name in self._schema.names}
        self.device_count: int = 0
        self.taken_at: datetime | None = None

    def __len__(self) -> int:
        return len(self._columns["device_id"])

    def of(self, device: DeviceState) -> DeviceRows:
        """The rows of a device, to be added when it is its turn."""
        resources = [resource for resource in device.resources.values() if matches_any(self._paths, resource.path)]
        cells: list[object] = [device.device_id] * len(resources) + [device.endpoint_name] * len(resources)
        for read in self._readers:
            cells.extend(map(read, resources))
        return DeviceRows(device.created_at, len(resources), cells)

    def add(self, rows: DeviceRows) -> None:
        """The rows of one more device."""
        self.device_count += 1
        # The oldest, so that no row is older than the table says it is.
        self.taken_at = min(self.taken_at or rows.taken_at, rows.taken_at)
        for place, column in enumerate(self._columns.values()):
            column.extend(rows.cells[place * rows.row_count : (place + 1) * rows.row_count])

    def pop_table(self) -> pa.Table:
        """All rows, for Arrow; none of them is here any more."""
        table = to_table(self._columns, self._schema)
        for column in self._columns.values():
            column.clear()
        return table
