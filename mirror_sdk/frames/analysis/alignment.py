"""Functions that put resources into adjacent columns, and that compare two periods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from mirror_sdk.arrow_tables.columns import TableColumn
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.analysis.bins import Bins, bins_of, check_count
from mirror_sdk.frames.analysis.history_rows import Floats, Ints
from mirror_sdk.frames.analysis.resample import Statistic, binned_segments, checked
from mirror_sdk.frames.analysis.result_columns import BIN_COLUMNS, RESOURCE_COLUMNS, column_of
from mirror_sdk.frames.analysis.timeline import Timeline, warn_of_units
from mirror_sdk.wire.paths import matches

COMPARED_COLUMNS = (
    *RESOURCE_COLUMNS,
    TableColumn("offset", pa.duration("ms"), "time from the start of the period to the start of the bin"),
    TableColumn("a", pa.float64(), "the statistic in the first period; NA if no value is known"),
    TableColumn("b", pa.float64(), "the statistic in the second period"),
    TableColumn("difference", pa.float64(), "``b`` minus ``a``"),
    TableColumn("covered_a", pa.float64(), "the share of the bin in which a value is known, in the first period"),
    TableColumn("covered_b", pa.float64(), "the share of the bin in which a value is known, in the second period"),
)
"""The columns of a comparison of two periods."""


def align(timeline: Timeline, span: int, how: Statistic) -> pd.DataFrame:
    """Return one column for each resource; see :meth:`mirror_sdk.frames.MirrorAccessor.align`.

    Raises:
        InvalidValue: The statistic has several columns, it is not defined for the values, or the result would have too
            many rows.
    """
    name = _one(how)
    bins = bins_of(span, timeline.begin, timeline.end, timeline.tz)
    warn_of_units(timeline)
    devices = np.unique(timeline.segments.of_device)
    paths = _in_order_of_patterns(timeline)
    check_count(len(devices) * len(bins) * max(len(paths), 1))
    columns = {str(timeline.rows.paths[path]): _column(timeline.of_path(path), devices, bins, name) for path in paths}
    times = timeline.to_frame(pa.table({"bin": column_of(bins.begins, BIN_COLUMNS[0])}))["bin"]
    index = pd.MultiIndex.from_product([timeline.rows.devices[devices], times], names=["device_id", "bin"])
    table = pd.DataFrame(columns, index=index)
    if timeline.metadata:
        table.attrs["mirror"] = timeline.metadata
    return table


def compare(timeline: Timeline, begins: Sequence[int], length: int, span: int | None, how: Statistic) -> pd.DataFrame:
    """Compare two periods; see :meth:`mirror_sdk.frames.MirrorAccessor.compare`.

    Raises:
        InvalidValue: The statistic is not defined for numbers.
    """
    name = _one(how)
    span = span or length
    check_count(length // span)
    warn_of_units(timeline.within(min(begins), max(begins) + length))
    (a, unit_a, covered_a), (b, unit_b, covered_b) = (_window(timeline, begin, length, span, name) for begin in begins)
    is_other = ((unit_a != unit_b) | (unit_a == -2)) & (name != "count")
    offsets = np.arange(0, length, span)
    segments = timeline.segments
    table = timeline.table(
        COMPARED_COLUMNS,
        device=segments.of_device,
        path=segments.of_path,
        positions=np.repeat(np.arange(len(segments.of_device)), len(offsets)),
        offset=np.tile(offsets, len(segments.of_device)),
        a=a,
        b=b,
        difference=np.where(is_other, np.nan, b - a),
        covered_a=covered_a,
        covered_b=covered_b,
    )
    return timeline.to_frame(table)


def _one(how: Statistic) -> Statistic:
    (name, *others) = checked(how)
    if others or name == "duration":
        raise InvalidValue(f"how={how!r} must be time_weighted_mean, last, min, max or count")
    return name


def _window(timeline: Timeline, begin: int, length: int, span: int, name: Statistic) -> tuple[Floats, Ints, pa.Array]:
    """Return the statistic of each cell, its unit, and the fraction of its bin in which values are known.

    :meth:`BinnedSegments.unit` describes the unit.
    """
    bins = Bins(np.append(np.arange(begin, begin + length, span), begin + length))
    binned = binned_segments(timeline.within(begin, begin + length), bins, [name])
    table = binned.statistics([name])
    if pa.types.is_string(table[name].type):
        raise InvalidValue(
            f"how={name!r}: cannot compare strings; select resources that have numbers, with paths=[...]"
        )
    values = table[name].cast(pa.float64()).to_numpy(zero_copy_only=False)
    return values, binned.unit(), table["covered"].combine_chunks()


def _in_order_of_patterns(timeline: Timeline) -> list[int]:
    """Return the selected paths in the order of the patterns. Paths that match the same pattern are sorted."""
    paths = np.unique(timeline.segments.of_path).tolist()
    patterns = ["*"] if timeline.patterns is None else timeline.patterns
    found = [path for pattern in patterns for path in paths if matches(pattern, str(timeline.rows.paths[path]))]
    return list(dict.fromkeys(found))


def _column(timeline: Timeline, devices: Ints, bins: Bins, name: Statistic) -> Any:
    """Return one statistic of one path, with missing cells for devices that do not have the path."""
    of_device = timeline.segments.of_device
    cells = timeline.to_frame(binned_segments(timeline, bins, [name]).statistics([name]))[name]
    position = np.full((len(devices), len(bins)), -1)
    position[np.searchsorted(devices, of_device)] = np.arange(len(cells)).reshape(len(of_device), len(bins))
    return cells.array.take(position.ravel(), allow_fill=True)
