"""Values that came late."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from mirror_sdk.frames.questions.rows import NO_TIME, Ints, Rows, names_of, order_by, times_of, words_of
from mirror_sdk.frames.questions.steps import Timeline
from mirror_sdk.tables.columns import CATEGORY, INSTANT, TableColumn, schema_of

LATE_ARRIVALS_COLUMNS = (
    TableColumn("device_id", CATEGORY, "the device"),
    TableColumn("endpoint_name", CATEGORY, "its endpoint name; NA where that is not known"),
    TableColumn("path", CATEGORY, "the resource"),
    TableColumn("changed_at", INSTANT, "when it changed, as the device says"),
    TableColumn("received_at", INSTANT, "when it came"),
    TableColumn("delay", pa.duration("ms"), "from one to the other; NA where the table does not tell"),
    TableColumn("behind", pa.duration("ms"), "how much newer the newest value was that came before"),
)
"""The values that came late."""

LATE_ARRIVALS_SCHEMA = schema_of(LATE_ARRIVALS_COLUMNS)


def late_arrivals(told: Timeline, longer_than: int | None) -> pd.DataFrame:
    """The values that came late; see :meth:`mirror_sdk.frames.MirrorAccessor.late_arrivals`."""
    values = told.values()
    values = values.take(order_by(values.device, values.path, values.order))
    behind = _newest_before(values) - values.at
    delay = np.where(values.received == NO_TIME, 0, values.received - values.at)
    is_late = behind > 0 if longer_than is None else (behind > 0) | (delay > longer_than)
    is_late &= values.is_counted & (values.at >= told.begin) & (values.at < told.end)
    values, behind, delay = values.take(is_late), np.maximum(behind[is_late], 0), delay[is_late]
    columns = [
        words_of(values.device, values.devices),
        names_of(values.device, told.names),
        words_of(values.path, values.paths),
        times_of(values.at),
        times_of(values.received),
        pa.array(delay, mask=values.received == NO_TIME).view(pa.duration("ms")),
        pa.array(behind).view(pa.duration("ms")),
    ]
    return told.to_frame(pa.Table.from_arrays(columns, schema=LATE_ARRIVALS_SCHEMA))


def _newest_before(values: Rows) -> Ints:
    """The latest instant told of the resource of each value before it, and its own for the first one of a resource."""
    ranked, rank = np.unique(values.at, return_inverse=True)
    is_other = (values.device[1:] != values.device[:-1]) | (values.path[1:] != values.path[:-1])
    number = np.cumsum(np.append(0, is_other)[: len(values)])
    width = max(len(ranked), 1)
    # One number for resource and instant, so that what is told of one resource counts for no other.
    newest = np.maximum.accumulate(number * width + rank)
    before: Ints = ranked[newest % width]
    return before
