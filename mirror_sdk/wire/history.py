"""The history: what happened, a row each; the forms it comes in, and how it ends. Source: wire.md 10."""

from __future__ import annotations

from typing import Literal

from mirror_sdk.wire.device_object import DesiredStatusField, Revision
from mirror_sdk.wire.errors import ErrorBody
from mirror_sdk.wire.model import Payload, Timestamp, WireModel, kinds_of

HAPPENINGS = ("reported", "desired", "registration", "reg_update", "deregistration", "expired", "gap")
"""What may have happened; a gap is an interval in which nothing could be heard."""

ORIGINS = ("read", "observation", "auto_observation", "registration", "write")
"""By what a value came."""

MAX_DEVICES = 1000
"""How often ``device_id`` may be given; more devices are asked for in parts, or by a filter."""

MAX_ROWS = 10_000_000
"""The most rows that a page may be asked to have; without a limit all come."""

AFTER_KEY = b"mirror.after"
"""The key under which a batch of an Arrow stream has, in its metadata, the ``after`` that goes on behind its rows."""

NO_HISTORY = "NO_HISTORY"
"""The reason where the operator keeps no history."""

YET_TO_COME = "YET_TO_COME"
"""The reason where the fleet is asked for as of an instant that has not been."""

BEFORE_HISTORY = "BEFORE_HISTORY"
"""The reason where an instant lies before what is kept; see :class:`BeforeHistoryBody`."""


class HistoryRow(WireModel):
    """A thing that happened; what is not known of it, or does not apply, is left out.

    Attributes:
        object: The kind of this object.
        device_id: The device; absent where it happened to all, as a gap of the service did.
        endpoint_name: The name the device registers with.
        path: The resource; absent where it happened to the device as a whole.
        changed_at: When it happened, by the device's own clock where it told the time, else ``received_at``. Of a gap
            where it begins; of the end of a write when it ended.
        received_at: When the service took it in.
        what: One of :data:`HAPPENINGS`: ``reported`` is a value that the device told, ``desired`` the end of a write.
        origin: One of :data:`ORIGINS`: by what the value came.
        value: The raw payload that was reported, or that was to be written.
        content_type: The format of it.
        status: How a write ended: success or failure.
        category: Why a write failed; told only to the application that placed it.
        requested_at: When a write was issued.
        until: Where a gap ends.
        revision: Number of the row, which no other row has: a larger one was stored later.
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
``revision`` int64; null where a member is left out. The last batch is empty and has the end in its metadata, as that of
a snapshot has.
"""


class HistoryCursor(WireModel):
    """A line of NDJSON among the rows: with this ``after`` the same request goes on behind the rows before it."""

    object: Literal["history-cursor"] = "history-cursor"
    after: str


class HistoryEnd(WireModel):
    """How an answer ends: the last line of NDJSON. What breaks off before it is not whole.

    Attributes:
        object: The kind of this object.
        taken_at: When the answer was begun, of later pages the first one: all of them show what was known then.
        oldest_at: From when on the service has kept everything.
        row_count: How many rows stand before this.
        revision: Number of the mirror's last change at ``taken_at``.
        after: What to give as ``after`` for the next page; absent where there is no more.
    """

    object: Literal["history-end"] = "history-end"
    taken_at: Timestamp
    oldest_at: Timestamp
    row_count: int
    revision: Revision
    after: str | None = None


class BeforeHistoryBody(ErrorBody):
    """The 400 about an instant that lies before what is kept, of which ``oldest_at`` is the oldest."""

    oldest_at: Timestamp
