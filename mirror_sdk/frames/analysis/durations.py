"""Intervals in which values meet a condition, or do not change, and their total durations."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from mirror_sdk._arguments import real
from mirror_sdk.arrow_tables.columns import INSTANT, TableColumn
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.analysis.history_rows import BOOLEAN, NUMBER, TEXT, Flags, Ints, following, is_end, is_start
from mirror_sdk.frames.analysis.result_columns import RESOURCE_COLUMNS
from mirror_sdk.frames.analysis.timeline import Segments, Timeline, is_change, warn_of_units

DURATIONS_COLUMNS = (
    *RESOURCE_COLUMNS,
    TableColumn("duration", pa.duration("ms"), "how long the condition was met"),
    TableColumn("intervals", pa.int64(), "the number of these intervals"),
    TableColumn("longest", pa.duration("ms"), "the length of the longest interval"),
    TableColumn("known", pa.duration("ms"), "how long a value is known, whether or not the condition is met"),
    TableColumn("share", pa.float64(), "``duration`` divided by ``known``; NA if no value is known"),
)
"""The columns of the durations table, which has one row per resource."""

DURATION_INTERVALS_COLUMNS = (
    *RESOURCE_COLUMNS,
    TableColumn("begin", INSTANT, "when the interval begins"),
    TableColumn("end", INSTANT, "when the interval ends"),
    TableColumn("duration", pa.duration("ms"), "how long it is"),
    TableColumn("begin_seen", pa.bool_(), "whether another known value precedes the interval"),
    TableColumn("end_seen", pa.bool_(), "whether another known value follows the interval"),
)
"""The columns of the table of intervals in which a condition was met."""

UNCHANGED_COLUMNS = (
    *RESOURCE_COLUMNS,
    TableColumn("value_num", pa.float64(), "the value, if it is a number"),
    TableColumn("value_text", pa.string(), "the value, if it is a string"),
    TableColumn("value_bool", pa.bool_(), "the value, if it is a boolean"),
    TableColumn("begin", INSTANT, "when the interval begins"),
    TableColumn("end", INSTANT, "when the interval ends"),
    TableColumn("duration", pa.duration("ms"), "how long it is"),
    TableColumn("count", pa.int64(), "how many values have a time in the interval"),
    TableColumn("ongoing", pa.bool_(), "whether the interval lasts until the end of the period or of the data"),
)
"""The columns of the table of intervals in which a value did not change."""

_KINDS = {NUMBER: "numbers", BOOLEAN: "booleans", TEXT: "strings"}
_CURES = {
    NUMBER: "pass above=, below= or equals=, such as above=24.0",
    BOOLEAN: "omit the condition, or pass equals=False",
    TEXT: 'pass equals=, such as equals="on"',
}


class _Runs(NamedTuple):
    """Intervals that consist of consecutive segments, in order.

    ``first`` and ``last`` are the positions of these segments.
    """

    resource: Ints
    begin: Ints
    end: Ints
    first: Ints
    last: Ints


def durations(
    timeline: Timeline,
    *,
    above: float | None,
    below: float | None,
    equals: float | bool | str | None,
    per_interval: bool,
) -> pd.DataFrame:
    """Measure how long a condition was met; see :meth:`mirror_sdk.frames.MirrorAccessor.durations`.

    Raises:
        InvalidValue: The condition is invalid, or it is not defined for the values.
    """
    segments = _clipped(timeline)
    runs = _runs(segments, _meets(timeline, segments, above, below, equals), _is_break(segments))
    table = _each(timeline, segments, runs) if per_interval else _by_resource(timeline, segments, runs)
    return timeline.to_frame(table)


def unchanged(timeline: Timeline, longer_than: int) -> pd.DataFrame:
    """Find values that did not change; see :meth:`mirror_sdk.frames.MirrorAccessor.unchanged`."""
    segments = _clipped(timeline)
    runs = _runs(segments, segments.is_known, _is_break(segments) | is_change(segments))
    runs = _Runs(*(column[runs.end - runs.begin > longer_than] for column in runs))
    kind, number, text = (column[runs.first] for column in (segments.kind, segments.number, segments.text))
    counted = np.append(0, np.cumsum(_counts(timeline)))
    table = timeline.table(
        UNCHANGED_COLUMNS,
        **segments.keys(runs.resource),
        value_num=np.where(kind == NUMBER, number, np.nan),
        value_text=pa.array(timeline.rows.texts, pa.string()).take(pa.array(text, mask=kind != TEXT)),
        value_bool=pa.array(number == 1.0, mask=kind != BOOLEAN),
        begin=runs.begin,
        end=runs.end,
        duration=runs.end - runs.begin,
        count=counted[runs.last + 1] - counted[runs.first],
        ongoing=runs.end == min(timeline.known_until, timeline.end),
    )
    return timeline.to_frame(table)


def totals(group: Ints, lengths: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """Return the sum, the number and the maximum of the interval lengths in each group.

    ``count`` is the number of groups.
    """
    longest = np.zeros(count, dtype=np.int64)
    np.maximum.at(longest, group, lengths)
    # The intermediate sums are floats, which are exact up to 2**53 milliseconds, or 285,000 years.
    sums = np.bincount(group, weights=lengths, minlength=count).astype(np.int64)
    return sums, np.bincount(group, minlength=count), longest


def share_of(part: Ints, total: Ints) -> pa.Array:
    """Return each part divided by its total. The result is missing if the total is 0."""
    return pa.array(part / np.maximum(total, 1), mask=total == 0)


def _clipped(timeline: Timeline) -> Segments:
    """Return the segments, cut at the start and end of the timeline and without segments of length 0."""
    segments = timeline.segments
    begin, until = np.maximum(segments.at, timeline.begin), np.minimum(segments.until, timeline.end)
    return replace(segments, at=begin, until=until).take(until > begin)


def _counts(timeline: Timeline) -> Ints:
    """Return the number of values that lie in each clipped segment."""
    segments = timeline.segments
    counted = np.cumsum(segments.is_counted & (segments.at >= timeline.begin))
    # Of several values with the same time, only the last one has a length.
    is_last = is_end(segments.resource, segments.at)
    counts = np.zeros(len(segments), dtype=np.int64)
    counts[is_last] = np.diff(counted[is_last], prepend=0)
    return counts[np.minimum(segments.until, timeline.end) > np.maximum(segments.at, timeline.begin)]


def _is_break(segments: Segments) -> Flags:
    """Return which segments are the first of their resource or begin after an unknown interval."""
    is_break: Flags = is_start(segments.resource) | (segments.at != np.append(0, segments.until[:-1])[: len(segments)])
    return is_break


def _runs(segments: Segments, is_within: Flags, is_break: Flags) -> _Runs:
    """Join consecutive segments to intervals.

    Args:
        segments: Segments with a length greater than 0.
        is_within: Which segments belong to an interval.
        is_break: Which segments start a new interval even if the previous segment belongs to an interval too.
    """
    starts = is_within & (is_break | is_start(is_within))
    first = np.flatnonzero(starts)
    last = np.flatnonzero(is_within & (is_end(is_within) | following(starts, True)))
    return _Runs(segments.resource[first], segments.at[first], segments.until[last], first, last)


def _meets(
    timeline: Timeline, segments: Segments, above: float | None, below: float | None, equals: float | bool | str | None
) -> Flags:
    if above is None and below is None:
        return _equals(timeline, segments, equals)
    if equals is not None:
        raise InvalidValue(f"equals={equals!r} cannot be combined with above= or below=; pass one of them")
    _check_kind(timeline, NUMBER, "above= and below= apply to numbers")
    warn_of_units(timeline)
    meets: Flags = segments.kind == NUMBER
    for name, bound, compare in (("above", above, np.greater), ("below", below, np.less)):
        if bound is not None:
            number = real(bound)
            if number is None:
                raise InvalidValue(f"{name}={bound!r} is not a number; pass one like {name}=24.0")
            meets &= compare(segments.number, number)
    return meets


def _equals(timeline: Timeline, segments: Segments, value: float | bool | str | None) -> Flags:
    if isinstance(value, str):
        _check_kind(timeline, TEXT, f"equals={value!r} is a string")
        code = timeline.rows.texts.get_indexer(pd.Index([value]))[0]
        found: Flags = (segments.kind == TEXT) & (segments.text == code)
        return found
    why = f"equals={value!r} cannot be compared with them"
    if value is None:
        value, why = True, "without a condition, durations() measures how long a boolean is true"
    kind = BOOLEAN if isinstance(value, bool | np.bool_) else NUMBER
    if kind == NUMBER and real(value) is None:
        raise InvalidValue(f"equals={value!r} must be a number, a boolean or a string")
    _check_kind(timeline, kind, why)
    if kind == NUMBER:
        warn_of_units(timeline)
    equal: Flags = (segments.kind == kind) & (segments.number == float(value))
    return equal


def _check_kind(timeline: Timeline, kind: int, why: str) -> None:
    """Raise an error if the condition is not defined for all values."""
    segments = timeline.segments
    is_other = (segments.kind != kind) & segments.is_known
    if is_other.any():
        other = int(segments.kind[np.argmax(is_other)])
        raise InvalidValue(f"{timeline.path_at(is_other)} has {_KINDS[other]}: {why}; {_CURES[other]}")


def _each(timeline: Timeline, segments: Segments, runs: _Runs) -> pa.Table:
    # The extra elements at both ends stand for the segments before the first and after the last one.
    follows = np.concatenate([~_is_break(segments), [False]])
    is_known = np.concatenate([[False], segments.is_known, [False]])
    return timeline.table(
        DURATION_INTERVALS_COLUMNS,
        **segments.keys(runs.resource),
        begin=runs.begin,
        end=runs.end,
        duration=runs.end - runs.begin,
        begin_seen=follows[runs.first] & is_known[runs.first],
        end_seen=follows[runs.last + 1] & is_known[runs.last + 2],
    )


def _by_resource(timeline: Timeline, segments: Segments, runs: _Runs) -> pa.Table:
    resources = np.arange(len(segments.of_device))
    duration, number, longest = totals(runs.resource, runs.end - runs.begin, len(resources))
    known = totals(segments.resource, np.where(segments.is_known, segments.until - segments.at, 0), len(resources))[0]
    return timeline.table(
        DURATIONS_COLUMNS,
        **segments.keys(resources),
        duration=duration,
        intervals=number,
        longest=longest,
        known=known,
        share=share_of(duration, known),
    )
