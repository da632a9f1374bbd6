"""The history, which has one row for each event: its formats and the end of a response. Source: wire.md 10."""

from __future__ import annotations

from typing import Literal

from mirror_sdk.wire.device_object import DesiredStatusField, Revision
from mirror_sdk.wire.errors import ErrorBody
from mirror_sdk.wire.model import Payload, Timestamp, WireModel, kinds_of

EVENT_KINDS = ("reported", "desired", "registration", "reg_update", "deregistration", "expired", "gap")
"""The kinds of events. A gap is an interval in which the service received nothing."""

ORIGINS = ("read", "observation", "auto_observation", "registration", "write")
"""The possible origins of a value."""

MAX_DEVICES = 1000
"""The maximum number of ``device_id`` parameters. For more devices, send several requests or use a filter."""

MAX_ROWS = 10_000_000
"""The maximum limit of a page. Without a limit, a page contains all rows."""

AFTER_KEY = b"mirror.after"
"""The key in a batch's metadata of an Arrow stream whose value is the ``after`` to continue after these rows."""

NO_HISTORY = "NO_HISTORY"
"""The reason of the error if the service stores no history."""

YET_TO_COME = "YET_TO_COME"
"""The reason of the error if a requested time is in the future."""

BEFORE_HISTORY = "BEFORE_HISTORY"
"""The reason of the error if a time is before the start of the history; see :class:`BeforeHistoryBody`."""


class HistoryRow(WireModel):
    """One event of the history. Members that are unknown or do not apply are absent.

    Attributes:
        object: The kind of this object.
        device_id: The id of the device. Absent if the event concerns all devices, like a gap of the service.
        endpoint_name: The name with which the device registers.
        path: The resource path. Absent if the event concerns the whole device.
        changed_at: The time of the event, by the device's own clock if it sent a time, or else the same as
            ``received_at``. For a gap, it is the start. For a completed write, it is the time at which the write ended.
        received_at: The time at which the service received the event.
        what: The kind of the event, one of :data:`EVENT_KINDS`. ``reported`` is a value that the device sent, and
            ``desired`` is a completed write.
        origin: The origin of the value, one of :data:`ORIGINS`.
        value: The payload that was reported or written.
        content_type: The content type of the payload.
        status: The result of a write: success or failure.
        category: The reason why a write failed. Only the application that requested the write receives it.
        requested_at: The time at which the write was requested.
        until: The end of a gap.
        revision: The unique number of the row. A row that was stored later has a larger number.
    """

    object: Literal["history-row"] = "history-row"
    device_id: str | None = None
    endpoint_name: str | None = None
    path: str | None = None
    changed_at: Timestamp
    received_at: Timestamp | None = None
    what: str
    origin: str | None = None
    value: Payload | None = None
    content_type: str | None = None
    status: DesiredStatusField | None = None
    category: str | None = None
    requested_at: Timestamp | None = None
    until: Timestamp | None = None
    revision: Revision


COLUMNS = kinds_of(HistoryRow)
"""The columns of the Arrow form and their types. They are the members of :class:`HistoryRow`, in the same order.

Strings are dictionary-encoded, and times are UTC timestamps in milliseconds. ``value`` is binary, ``status`` is int8
and ``revision`` is int64. An absent member is null. The last batch has no rows, and its metadata contains the end of
the response, as in a snapshot.
"""


class HistoryCursor(WireModel):
    """A line between the rows of NDJSON. With its ``after``, a request continues after the rows before this line."""

    object: Literal["history-cursor"] = "history-cursor"
    after: str


class HistoryEnd(WireModel):
    """The end of a response: the last line of NDJSON. A response without it is incomplete.

    Attributes:
        object: The kind of this object.
        taken_at: The time at which the first page was requested. All pages show the history at this time.
        oldest_at: The start of the stored history.
        row_count: The number of rows before this line.
        revision: The number of the mirror's last change at ``taken_at``.
        after: The value of ``after`` for the next page. Absent on the last page.
    """

    object: Literal["history-end"] = "history-end"
    taken_at: Timestamp
    oldest_at: Timestamp
    row_count: int
    revision: Revision
    after: str | None = None


class BeforeHistoryBody(ErrorBody):
    """The body of a 400 response to a time before the stored history, which starts at ``oldest_at``."""

    oldest_at: Timestamp
