"""The forms of the fleet snapshot as its description shows them. Source: wire.md 7."""

from __future__ import annotations

from mirror_sdk.wire.snapshot import ARROW, NDJSON
from mirror_server.description.parts import text_of

_LINES = (
    '{"object":"device-echo","device_id":"015f2ab4c6d80000000000010010003f","endpoint_name":"sensor-1",'
    '"created_at":"2026-11-20T12:37:55.576Z","updated_at":"2026-11-20T12:00:00.000Z","resources":[]}\n'
    '{"object":"snapshot-end","taken_at":"2026-11-20T12:37:55.576Z","device_count":1,"revision":482113,"seq":57}\n'
)
_COLUMNS = """\
An Arrow IPC stream, a row a device:

- `device_id` string
- `endpoint_name` string
- `resources` list, null for a device that has not changed after `changed_after`; of each resource, by path:
    - `path` string
    - `subscribed` bool
    - `reported_value` binary, the payload as it came
    - `reported_content_type` string
    - `reported_at` timestamp[ms, tz=UTC]
    - `reported_expires_at` timestamp[ms, tz=UTC]
    - `reported_revision` int64, as `revision` of a reported value in JSON
    - `reported_origin` string, as `origin` of a reported value in JSON
- `desired` list, of the resources that have a desired value:
    - `resource` int32, the place of its resource in `resources`, from 0
    - `desired_value` binary
    - `desired_content_type` string
    - `desired_status` int8: 0 pending, 1 success, 2 failure
    - `desired_at` timestamp[ms, tz=UTC]
    - `requested_at` timestamp[ms, tz=UTC]
    - `desired_revision` int64, as `revision` of a desired value in JSON
    - `acknowledged_at` timestamp[ms, tz=UTC]
    - `acknowledged_by` string

`path`, the content types, the origin and `acknowledged_by` are encoded as dictionaries with int32 indices. The last
batch has no rows, and the snapshot's end in its metadata `mirror.end`."""
FORMS = (text_of(NDJSON, _LINES), text_of(ARROW, "an Arrow IPC stream", _COLUMNS))
