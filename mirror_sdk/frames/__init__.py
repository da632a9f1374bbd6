"""Tables for pandas. A pyarrow schema defines each table: its columns, types and order.

Tables are built by column (lists to pyarrow arrays to pandas). Missing is ``NA``; times are UTC in milliseconds unless
a ``tz`` is given. All instants are told by the service, by its clock, so that they may be compared with each other;
``received_at`` alone is of the clock here. Spans of the client, such as ``latency``, are measured. What a table is
based on stands in ``attrs["mirror"]``, which pandas writes into Parquet files, and drops when it merges, joins or
pivots: ``frame.mirror.join(other)`` keeps it, ``frame.mirror.based_on(original)`` brings it back. With this module
imported, every frame has the accessor ``mirror``: see :class:`~mirror_sdk.frames.accessor.MirrorAccessor`. Type
checkers take ``frame.mirror`` for a column; ``mirror(frame)`` is the same to pandas, and known to them.

To hand a table on, ``to_parquet`` keeps all of it; a span such as ``latency`` is a number of milliseconds to readers
that do not know Arrow's types. ``to_csv`` and ``to_json(orient="records", date_format="iso")`` keep values as texts,
``to_sql`` makes a span a number of nanoseconds, and ``frame.mirror.for_excel()`` is what ``to_excel`` takes.
"""

import mirror_sdk._pandas  # noqa: F401
from mirror_sdk.frames.accessor import MirrorAccessor, mirror
from mirror_sdk.frames.columns import in_zone
from mirror_sdk.frames.drift import DRIFT_SCHEMA, DriftKind, drift_frame
from mirror_sdk.frames.events import EVENTS_RAW_SCHEMA, EVENTS_SCHEMA, events_frame
from mirror_sdk.frames.files import from_arrow, read_parquet, to_arrow
from mirror_sdk.frames.requests import REQUESTS_SCHEMA, RequestStatus, request_status, requests_frame
from mirror_sdk.frames.stale import STALE_SCHEMA, stale_devices
from mirror_sdk.frames.state import (
    DIRECTORY_SCHEMA,
    STATE_RAW_SCHEMA,
    STATE_SCHEMA,
    directory_frame,
    state_frame,
    value_column,
    wide,
)

__all__ = [
    "DIRECTORY_SCHEMA",
    "DRIFT_SCHEMA",
    "EVENTS_RAW_SCHEMA",
    "EVENTS_SCHEMA",
    "REQUESTS_SCHEMA",
    "STALE_SCHEMA",
    "STATE_RAW_SCHEMA",
    "STATE_SCHEMA",
    "DriftKind",
    "MirrorAccessor",
    "RequestStatus",
    "directory_frame",
    "drift_frame",
    "events_frame",
    "from_arrow",
    "in_zone",
    "mirror",
    "read_parquet",
    "request_status",
    "requests_frame",
    "stale_devices",
    "state_frame",
    "to_arrow",
    "value_column",
    "wide",
]
