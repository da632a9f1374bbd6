"""Values that arrived late."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from mirror_sdk.arrow_tables.columns import INSTANT, TableColumn
from mirror_sdk.frames.analysis.history_rows import NO_TIME, Ints, Rows, is_start, order_by
from mirror_sdk.frames.analysis.result_columns import RESOURCE_COLUMNS
from mirror_sdk.frames.analysis.timeline import Timeline

LATE_ARRIVALS_COLUMNS = (
    *RESOURCE_COLUMNS,
    TableColumn("changed_at", INSTANT, "when the value changed, by the device's clock"),
    TableColumn("received_at", INSTANT, "when the value was received"),
    TableColumn("delay", pa.duration("ms"), "``received_at`` minus ``changed_at``; NA if the receipt is unknown"),
    TableColumn(
        "lag", pa.duration("ms"), "how much older the value is than the newest value that arrived before it, or 0"
    ),
)
"""The columns of the table of values that arrived late."""


def late_arrivals(timeline: Timeline, longer_than: int | None) -> pd.DataFrame:
    """Find values that arrived late; see :meth:`mirror_sdk.frames.MirrorAccessor.late_arrivals`."""
    values = timeline.values()
    values = values.take(order_by(values.device, values.path, values.order))
    lag = _newest_before(values) - values.at
    delay = np.where(values.received == NO_TIME, NO_TIME, values.received - values.at)
    is_late = lag > 0 if longer_than is None else (lag > 0) | (delay > longer_than)
    is_late &= values.is_counted & (values.at >= timeline.begin) & (values.at < timeline.end)
    values = values.take(is_late)
    table = timeline.table(
        LATE_ARRIVALS_COLUMNS,
        device=values.device,
        path=values.path,
        changed_at=values.at,
        received_at=values.received,
        delay=delay[is_late],
        lag=np.maximum(lag[is_late], 0),
    )
    return timeline.to_frame(table)


def _newest_before(values: Rows) -> Ints:
    """Return, for each value, the newest time among the values of its resource that arrived up to then."""
    ranked, rank = np.unique(values.at, return_inverse=True)
    resource = np.cumsum(is_start(values.device, values.path))
    width = max(len(ranked), 1)
    # All numbers of a resource are larger than those of earlier resources.
    newest: Ints = ranked[np.maximum.accumulate(resource * width + rank) % width]
    return newest
