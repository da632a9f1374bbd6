"""The forms of the history as its description shows them. Source: wire.md 10."""

from __future__ import annotations

from mirror_sdk.wire.snapshot import ARROW, NDJSON
from mirror_server.views.description import text_of

_LINES = (
    '{"object":"history-row","device_id":"015f2ab4c6d80000000000010010003f","endpoint_name":"sensor-1",'
    '"path":"/3303/0/5700","changed_at":"2026-11-20T12:37:50.001Z","received_at":"2026-11-20T12:37:50.214Z",'
    '"what":"reported","origin":"observation","value":"MjEuNQ==","content_type":"text/plain","revision":482109}\n'
    '{"object":"history-cursor","after":"WyJlODZlZDhhMjA3NTczZDFmIiwxLDJd"}\n'
    '{"object":"history-end","taken_at":"2026-11-21T12:37:55.576Z","oldest_at":"2026-10-22T00:00:00.000Z",'
    '"row_count":1,"revision":483113}\n'
)
_COLUMNS = """\
An Arrow IPC stream, a row for each thing that happened, null where something is not known or does not apply:

- `device_id` string, null where it happened to all devices
- `endpoint_name` string
- `path` string, null where it happened to a device as a whole
- `changed_at` timestamp[ms, tz=UTC], by the device's own clock where it told the time; of a gap where it begins
- `received_at` timestamp[ms, tz=UTC], when the service took it in
- `what` string: `reported`, `desired` (a write ended), `registration`, `reg_update`, `deregistration`, `expired`, `gap`
- `origin` string: `read`, `observation`, `auto_observation`, `registration`, `write`
- `value` binary, the payload as it came, or as it was to be written
- `content_type` string
- `status` int8, how a write ended: 1 success, 2 failure
- `category` string, why a write failed; told to the application that placed it alone
- `requested_at` timestamp[ms, tz=UTC], when a write was issued
- `until` timestamp[ms, tz=UTC], where a gap ends
- `revision` int64, the number of the row

Strings are encoded as dictionaries with int32 indices. Each batch has in its metadata `mirror.after` what goes on
behind its rows; the last one has no rows, and the end in its metadata `mirror.end`."""
FORMS = (text_of(NDJSON, _LINES), text_of(ARROW, "an Arrow IPC stream", _COLUMNS))
