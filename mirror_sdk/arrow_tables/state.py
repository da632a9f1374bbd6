"""The rows of the state table, with one row per device and resource."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any, Protocol

import pyarrow as pa

from mirror_sdk._arguments import path_patterns
from mirror_sdk.arrow_tables.columns import (
    CATEGORY,
    INSTANT,
    NUMBER_MEANING,
    TEXT_MEANING,
    TableColumn,
    Words,
    boolean,
    number,
    schema_of,
    text,
    to_table,
)
from mirror_sdk.resource import DesiredValue, ReportedValue, Resource
from mirror_sdk.values import NO_VALUE, ValueKind
from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.model import write_timestamp
from mirror_sdk.wire.paths import PathParts, matches_any, parse_path

_KINDS = Words([kind.value for kind in ValueKind])
_STATUSES = Words([status.name.lower() for status in DesiredStatus], ordered=True)

STATE_COLUMNS = (
    TableColumn("device_id", CATEGORY, "the device", "device.device_id"),
    TableColumn("endpoint_name", CATEGORY, "its endpoint name", "device.endpoint_name"),
    TableColumn("path", CATEGORY, "resource path", "resource.path"),
    TableColumn("object_id", pa.int32(), "object id in the path; NA for an invalid path"),
    TableColumn("instance_id", pa.int32(), "object instance id in the path"),
    TableColumn("resource_id", pa.int32(), "resource id in the path"),
    TableColumn("label", CATEGORY, "object and resource name; NA if undeclared"),
    TableColumn(
        "unit", CATEGORY, "unit of the ``_num`` columns: the one reported in resource 5701, or else the declared one"
    ),
    TableColumn("reported_num", pa.float64(), NUMBER_MEANING),
    TableColumn("reported_text", pa.string(), TEXT_MEANING),
    TableColumn("reported_bool", pa.bool_(), "a boolean"),
    TableColumn("value_kind", _KINDS, "what was reported: one of ``ValueKind``"),
    TableColumn("reported_at", INSTANT, "when the device reported the value", "reported.reported_at"),
    TableColumn(
        "fresh_until", INSTANT, "when the max-age of the value ends, if the device sent one", "reported.expires_at"
    ),
    TableColumn("desired_num", pa.float64(), "the last requested number; see ``reported_num``"),
    TableColumn("desired_text", pa.string(), "the last requested text; see ``reported_text``"),
    TableColumn("desired_bool", pa.bool_(), "the last requested boolean"),
    TableColumn(
        "desired_status",
        _STATUSES,
        "status of the last write; the category order is pending < success < failure",
        "desired.status",
    ),
    TableColumn("requested_at", INSTANT, "when the write was requested", "desired.requested_at"),
    TableColumn(
        "desired_at", INSTANT, "``requested_at`` while pending, then when the write ended", "desired.desired_at"
    ),
    TableColumn("subscribed", pa.bool_(), "whether the device accepted a subscription", "resource.subscribed"),
    TableColumn(
        "reported_revision",
        pa.int64(),
        "revision of the mirror at the change that set the value",
        "reported.revision",
        since="0.1.0",
    ),
    TableColumn(
        "desired_revision",
        pa.int64(),
        "revision of the mirror at the change that issued or completed the write",
        "desired.revision",
        since="0.1.0",
    ),
    TableColumn(
        "acknowledged_at",
        INSTANT,
        "when the failed write was acknowledged; NA if it was not",
        "desired.acknowledged_at",
        since="0.1.0",
    ),
    TableColumn(
        "acknowledged_by", pa.string(), "who acknowledged the failed write", "desired.acknowledged_by", since="0.1.0"
    ),
    TableColumn("reported_raw", pa.binary(), "payload (bytes)", is_raw=True),
    TableColumn("desired_raw", pa.binary(), "payload (bytes)", is_raw=True),
    TableColumn(
        "reported_origin",
        pa.string(),
        "the origin of the value: see ``ReportedValue``",
        "reported.origin",
        since="0.1.0",
        is_raw=True,
    ),
)
"""The columns of the state table. Columns with a source are copies; :data:`_COMPUTED` computes the others."""

STATE_SCHEMA = schema_of(STATE_COLUMNS)
"""The schema of the state table without its raw columns."""

STATE_RAW_SCHEMA = schema_of(STATE_COLUMNS, raw=True)
"""The schema of the state table with ``raw=True``."""

DIRECTORY_COLUMNS = (
    TableColumn("device_id", pa.string(), "the device", "id"),
    TableColumn("endpoint_name", pa.string(), "its endpoint name", "endpoint_name"),
    TableColumn("endpoint_type", CATEGORY, "its endpoint type", "endpoint_type"),
    TableColumn("state", CATEGORY, "registered or deregistered", "state"),
    TableColumn("queue_mode", pa.bool_(), "whether the device sleeps between contacts", "queue_mode"),
    TableColumn("created_at", INSTANT, "when the device was added to the directory", "created_at"),
    TableColumn(
        "updated_at", INSTANT, "when the device last registered, updated its registration or deregistered", "updated_at"
    ),
    TableColumn(
        "last_contact",
        INSTANT,
        "when the device last made contact; NA if the service does not send it",
        "last_contact_at",
    ),
)
"""The columns of the table of devices. Each column is a member of :class:`mirror_sdk.wire.directory.Device`."""

DIRECTORY_SCHEMA = schema_of(DIRECTORY_COLUMNS)
"""The schema of the table of devices."""


@lru_cache(maxsize=4096)
def path_numbers(path: str) -> PathParts | tuple[None, None, None, None]:
    """Return the numbers of a path. All of them are ``None`` if the string is not a path."""
    try:
        return parse_path(path)
    except ValueError:
        return (None, None, None, None)


_NOTHING: Mapping[str, ReportedValue | DesiredValue] = {
    "reported": ReportedValue(NO_VALUE, None, None),
    "desired": DesiredValue(NO_VALUE, None, None, None, None),
}
"""The placeholders for missing values, which allow each column to be read from all resources in the same way."""

_COMPUTED: Mapping[str, tuple[str, Callable[[Any], object]]] = {
    "object_id": ("resource", lambda resource: path_numbers(resource.path)[0]),
    "instance_id": ("resource", lambda resource: path_numbers(resource.path)[1]),
    "resource_id": ("resource", lambda resource: path_numbers(resource.path)[2]),
    "label": ("resource", lambda resource: resource.label or None),
    "unit": ("resource", lambda resource: resource.unit or None),
    "reported_num": ("reported", lambda part: number(part.value)),
    "reported_text": ("reported", lambda part: text(part.value)),
    "reported_bool": ("reported", lambda part: boolean(part.value)),
    "value_kind": ("reported", lambda part: part.value.kind.value),
    "desired_num": ("desired", lambda part: number(part.value)),
    "desired_text": ("desired", lambda part: text(part.value)),
    "desired_bool": ("desired", lambda part: boolean(part.value)),
    "desired_status": ("desired", lambda part: None if part.status is None else part.status.name.lower()),
    "reported_raw": ("reported", lambda part: part.value.raw),
    "desired_raw": ("desired", lambda part: part.value.raw),
}
"""The part of a resource from which each column is computed, and the function that computes the column."""


def _reader(column: TableColumn) -> tuple[str, Callable[[Any], object]]:
    if column.name in _COMPUTED:
        return _COMPUTED[column.name]
    part, _, member = column.source.partition(".")
    return part, attrgetter(member)


_ROWS_AT_A_TIME = 10_000
"""The number of rows in a chunk of the table.

A thread converts a chunk in a few milliseconds per column.
"""


class DeviceState(Protocol):
    """The members of a device object that are needed to build its rows; see :class:`mirror_sdk.DeviceObject`."""

    @property
    def device_id(self) -> str:
        """The id of the device."""

    @property
    def endpoint_name(self) -> str | None:
        """The endpoint name of the device."""

    @property
    def created_at(self) -> datetime:
        """The time at which the device was read, by the service's clock."""

    @property
    def resources(self) -> Mapping[str, Resource]:
        """The resources of the device by path."""


def state_table(
    devices: Iterable[DeviceState], *, paths: Sequence[str] | None, raw: bool = False
) -> tuple[pa.Table, int]:
    """Return the Arrow state table and the number of devices; see :func:`mirror_sdk.frames.state_frame`."""
    tables: list[pa.Table] = []
    rows = StateRows(tables.append, paths=paths, raw=raw)
    rows.add(map(rows.rows_of, devices))
    device_count = rows.finish()[1]
    return pa.concat_tables(tables).unify_dictionaries(), device_count


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """The rows of one device.

    They consist of few objects, because the rows of hundreds of devices may be queued.

    Attributes:
        taken_at: The time at which the device was read, by the service's clock.
        row_count: The number of rows.
        cells: The cells of each column.
    """

    taken_at: datetime
    row_count: int
    cells: list[object]


class StateRows:
    """A builder of the state table from device objects.

    It builds the table in chunks, column by column, so that no device object stays in memory.

    Args:
        sink: A function that accepts the chunks in order. It is called at least once.
        paths: The path patterns. ``None`` selects every resource.
        raw: Whether to add the columns with payloads.

    Raises:
        InvalidValue: A pattern is invalid.
    """

    def __init__(self, sink: Callable[[pa.Table], object], *, paths: Sequence[str] | None, raw: bool) -> None:
        self._sink = sink
        self._paths = path_patterns(paths)
        self._schema = STATE_RAW_SCHEMA if raw else STATE_SCHEMA
        # The raw columns are the last ones of the schema.
        self._readers = list(map(_reader, STATE_COLUMNS[: len(self._schema)]))
        self._columns: dict[str, list[object]] = {name: [] for name in self._schema.names}
        self._device_count = 0
        self._first_read_at: datetime | None = None

    def rows_of(self, device: DeviceState) -> DeviceRows:
        """Return the rows of a device, for :meth:`add`."""
        resources = [resource for resource in device.resources.values() if matches_any(self._paths, resource.path)]
        parts: dict[str, Sequence[object]] = {
            "device": [device] * len(resources),
            "resource": resources,
            "reported": [resource.reported or _NOTHING["reported"] for resource in resources],
            "desired": [resource.desired or _NOTHING["desired"] for resource in resources],
        }
        cells = list(chain.from_iterable(map(read, parts[part]) for part, read in self._readers))
        return DeviceRows(device.created_at, len(resources), cells)

    def add(self, devices: Iterable[DeviceRows]) -> None:
        """Append the rows of devices."""
        for rows in devices:
            self._device_count += 1
            # The earliest time is used, so that no row is older than the timestamp of the table.
            self._first_read_at = min(self._first_read_at or rows.taken_at, rows.taken_at)
            for index, column in enumerate(self._columns.values()):
                column.extend(rows.cells[index * rows.row_count : (index + 1) * rows.row_count])
            if len(self._columns["device_id"]) >= _ROWS_AT_A_TIME:
                self._end_chunk()

    def finish(self) -> tuple[str | None, int]:
        """Return the time of the first read, by the service's clock, and the number of devices."""
        self._end_chunk()
        return None if self._first_read_at is None else write_timestamp(self._first_read_at), self._device_count

    def _end_chunk(self) -> None:
        self._sink(to_table(self._columns, self._schema))
        for column in self._columns.values():
            column.clear()
