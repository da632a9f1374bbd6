"""The formats of the fleet snapshot, for the OpenAPI document. Source: wire.md 7."""

from __future__ import annotations

from collections.abc import Mapping

from mirror_sdk.wire.model import Kind
from mirror_sdk.wire.snapshot import ARROW, NDJSON, Part, ResourceColumn, streamed_columns
from mirror_server.views.description import text_of

_LINES = (
    '{"object":"device-echo","device_id":"015f2ab4c6d80000000000010010003f","endpoint_name":"sensor-1",'
    '"created_at":"2026-11-20T12:37:55.576Z","updated_at":"2026-11-20T12:00:00.000Z","resources":[]}\n'
    '{"object":"snapshot-end","taken_at":"2026-11-20T12:37:55.576Z","device_count":1,"revision":482113,"seq":57}\n'
)
_TYPES: Mapping[Kind, str] = {
    "word": "string",
    "bytes": "binary",
    "instant": "timestamp[ms, tz=UTC]",
    "integer": "int64",
    "small integer": "int8",
    "flag": "bool",
}
_NOTES = {"reported_value": ", the payload as received", "desired_status": ": 0 pending, 1 success, 2 failure"}


def _streamed(*parts: Part) -> str:
    columns = streamed_columns(*parts)
    return "\n".join(f"    - `{each.name}` {_TYPES[each.kind]}{_NOTES.get(each.name) or _as(each)}" for each in columns)


def _as(column: ResourceColumn) -> str:
    has_same_name = column.part == "resource" or column.name == column.member
    return "" if has_same_name else f", as `{column.member}` of a {column.part} value in JSON"


_COLUMNS = f"""\
An Arrow IPC stream with a row per device:

- `device_id` string
- `endpoint_name` string
- `resources` list, null for a device that has not changed after `changed_after`. Members of each resource, by path:
{_streamed("resource", "reported")}
- `desired` list of desired values:
    - `resource` int32, the index of its resource in `resources`, from 0
{_streamed("desired")}

The strings in the lists are encoded as dictionaries with int32 indices. The last batch has no rows. Its metadata
`mirror.end` contains the end of the snapshot."""
FORMS = (text_of(NDJSON, _LINES), text_of(ARROW, "an Arrow IPC stream", _COLUMNS))
