"""Rates of counters, which may have resets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa

from mirror_sdk.arrow_tables.columns import INSTANT, TableColumn
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.analysis.bins import Bins, bins_of, check_count
from mirror_sdk.frames.analysis.history_rows import NUMBER, is_end
from mirror_sdk.frames.analysis.resample import BinnedSegments
from mirror_sdk.frames.analysis.result_columns import BIN_COLUMNS, COVERED, RESOURCE_COLUMNS
from mirror_sdk.frames.analysis.timeline import Segments, Timeline, warn_of_units

RATES_COLUMNS = (
    *RESOURCE_COLUMNS,
    TableColumn("begin", INSTANT, "the time of the first value"),
    TableColumn("end", INSTANT, "the time of the second value"),
    TableColumn("duration", pa.duration("ms"), "the time between the two values"),
    TableColumn("increase", pa.float64(), "the increase of the counter"),
    TableColumn("rate", pa.float64(), "the increase in the time ``per``"),
    TableColumn("reset", pa.bool_(), "whether the counter was reset between the two values"),
)
"""The columns of the rates table, which has one row for each pair of consecutive values of a counter."""

BINNED_RATES_COLUMNS = (
    *BIN_COLUMNS,
    TableColumn("increase", pa.float64(), "the increase in the bin; NA if no value is known"),
    TableColumn("rate", pa.float64(), "the increase in the time ``per``; NA if no value is known"),
    TableColumn("resets", pa.int64(), "how many times the counter was reset in the bin"),
    COVERED,
)
"""The columns of the rates table with bins."""


def rates(timeline: Timeline, *, per: int, span: int | None) -> pd.DataFrame:
    """Compute the rates of counters; see :meth:`mirror_sdk.frames.MirrorAccessor.rates`.

    Args:
        timeline: The timeline.
        per: The unit of time of a rate, in milliseconds.
        span: The length of a bin in milliseconds. With ``None``, the result has one row per pair of values.

    Raises:
        InvalidValue: Some values are not numbers, or the result would have too many rows.
    """
    warn_of_units(timeline)
    # A number that is too large for a float becomes infinite.
    with np.errstate(over="ignore"):
        rises = _rises(timeline)
        if span is None:
            table = _each(timeline, rises, per)
        else:
            bins = bins_of(span, timeline.begin, timeline.end, timeline.tz)
            table = _binned(replace(timeline, own_segments=rises), bins, per)
        return timeline.to_frame(table)


def _rises(timeline: Timeline) -> Segments:
    """Return the segments from each value to the next one without an unknown interval in between.

    Their ``number`` is the increase per millisecond, and ``is_counted`` is true if the counter was reset.
    """
    segments = timeline.segments
    is_other = segments.is_known & (segments.kind != NUMBER)
    if is_other.any():
        raise InvalidValue(f"{timeline.path_at(is_other)} has values that are not numbers; pass the path of a counter")
    # Of several values with the same time, the last one counts.
    segments = segments.take(is_end(segments.resource, segments.at))
    is_next = (segments.resource[1:] == segments.resource[:-1]) & (segments.until[:-1] == segments.at[1:])
    is_next &= (segments.kind[1:] == NUMBER) & (segments.kind[:-1] == NUMBER)
    is_next &= segments.unit[1:] == segments.unit[:-1]
    is_next &= (segments.until[:-1] > timeline.begin) & (segments.at[:-1] < timeline.end)
    before, after = segments.take(np.append(is_next, False)[: len(segments)]), segments.number[1:][is_next]
    is_reset = after < before.number
    increase = np.where(is_reset, after, after - before.number)
    return replace(before, number=increase / (before.until - before.at), is_counted=is_reset)


def _each(timeline: Timeline, rises: Segments, per: int) -> pa.Table:
    return timeline.table(
        RATES_COLUMNS,
        **rises.keys(rises.resource),
        begin=rises.at,
        end=rises.until,
        duration=rises.until - rises.at,
        increase=rises.number * (rises.until - rises.at),
        rate=rises.number * per,
        reset=rises.is_counted,
    )


def _binned(timeline: Timeline, bins: Bins, per: int) -> pa.Table:
    rises = timeline.segments
    count = len(rises.of_device) * len(bins)
    check_count(count)
    binned = BinnedSegments(timeline, bins)
    mean = binned.mean()
    is_in = rises.is_counted & (rises.until >= timeline.begin) & (rises.until < timeline.end)
    cell = rises.resource[is_in] * len(bins) + bins.index(rises.until[is_in])
    return binned.table(
        BINNED_RATES_COLUMNS,
        increase=mean * binned.known,
        rate=mean * per,
        resets=np.bincount(cell, minlength=count),
    )
