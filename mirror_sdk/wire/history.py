"""The history: a row for each event, its formats, and its end. Source: wire.md 10."""

from __future__ import annotations

from typing import Literal

from mirror_sdk.wire.device_object import DesiredStatusField, Revision
from mirror_sdk.wire.errors import ErrorBody
from mirror_sdk.wire.model import Payload, Timestamp, WireModel, kinds_of

EVENT_KINDS = ("reported", "desired", "registration", "reg_update", "deregistration", "expired", "gap")
"""The kinds of events; a gap is an interval in which the service received nothing."""

ORIGINS = ("read", "observation", "auto_observation", "registration", "write")
"""The origins of a value."""

MAX_DEVICES = 1000
"""How often ``device_id`` may be given; for more devices, send several requests or a filter."""

MAX_ROWS = 10_000_000
"""The largest limit of a page; without a limit a page has all rows."""

AFTER_KEY = b"mirror.after"
"""The key in the metadata of a batch of an Arrow stream for the ``after`` that continues after its rows."""

NO_HISTORY = "NO_HISTORY"
"""The reason if the operator keeps no history."""

YET_TO_COME = "YET_TO_COME"
"""The reason if the requested instant is in the future."""

BEFORE_HISTORY = "BEFORE_HISTORY"
"""The reason if an instant is before the start of the history; see :class:`BeforeHistoryBody`."""


class HistoryRow(WireModel):
    """An event; members that are unknown or do not apply are left out.

    Attributes:
        object: The kind of this object.
        device_id: The device; absent if the event concerns all, as a gap of the service does.
        endpoint_name: The name the device registers with.
        path: The resource; absent if the event concerns the device.
        changed_at: When it happened, by the device's own clock if it sent a time, else ``received_at``. For a gap its
            begin, for a completed write its end.
        received_at: When the service received it.
        what: One of :data:`EVENT_KINDS`: ``reported`` is a value that the device sent, ``desired`` a completed write.
        origin: One of :data:`ORIGINS`: the origin of the value.
        value: The raw payload that was reported or written.
        content_type: The format of it.
        status: The outcome of a write: success or failure.
        category: Why a write failed; only for the application that submitted it.
        requested_at: When a write was issued.
        until: The end of a gap.
        revision: The unique number of the row: a larger one was stored later.
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
"""The columns of the Arrow form and their types, in their order: the members of :class:`HistoryRow`.

Texts are dictionaries of strings, instants timestamps in milliseconds and UTC, ``value`` is binary, ``status`` int8 and
``revision`` int64; null if a member is left out. The last batch is empty and has the end in its metadata, as in a
snapshot.
"""


class HistoryCursor(WireModel):
    """A line of NDJSON among the rows: with this ``after``, the same request continues after the rows before it."""

    object: Literal["history-cursor"] = "history-cursor"
    after: str


class HistoryEnd(WireModel):
    """The end of a response: the last line of NDJSON. A response without it is incomplete.

    Attributes:
        object: The kind of this object.
        taken_at: When the response was started, for later pages the first one: all pages show the state at this
            instant.
        oldest_at: The start of the history.
        row_count: The number of rows before this line.
        revision: The number of the mirror's last change at ``taken_at``.
        after: The ``after`` of the next page; absent on the last page.
    """

    object: Literal["history-end"] = "history-end"
    taken_at: Timestamp
    oldest_at: Timestamp
    row_count: int
    revision: Revision
    after: str | None = None


class BeforeHistoryBody(ErrorBody):
    """The 400 for an instant before the start of the history, ``oldest_at``."""

    oldest_at: Timestamp
