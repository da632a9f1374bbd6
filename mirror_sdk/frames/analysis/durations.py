"""Durations: intervals in which values meet a condition, or stay the same."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from mirror_sdk._arguments import real
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.analysis.results import RESOURCE_COLUMNS
from mirror_sdk.frames.analysis.rows import BOOLEAN, NUMBER, TEXT, Flags, Ints, following, is_end, is_start
from mirror_sdk.frames.analysis.timeline import Steps, Timeline, is_change, warn_of_units
from mirror_sdk.tables.columns import INSTANT, TableColumn

DURATIONS_COLUMNS = (
    *RESOURCE_COLUMNS,
    TableColumn("duration", pa.duration("ms"), "how long the condition was met"),
    TableColumn("intervals", pa.int64(), "in how many intervals"),
    TableColumn("longest", pa.duration("ms"), "how long the longest of them was"),
    TableColumn("known", pa.duration("ms"), "how long any value is known"),
    TableColumn("share", pa.float64(), "``duration`` divided by ``known``; NA where nothing is known"),
)
"""How long a condition was met, per resource."""

DURATION_INTERVALS_COLUMNS = (
    *RESOURCE_COLUMNS,
    TableColumn("begin", INSTANT, "when the interval begins"),
    TableColumn("end", INSTANT, "when it ends"),
    TableColumn("duration", pa.duration("ms"), "how long it is"),
    TableColumn("begin_seen", pa.bool_(), "whether another known value precedes it"),
    TableColumn("end_seen", pa.bool_(), "whether another known value follows it"),
)
"""The intervals in which a condition was met."""

UNCHANGED_COLUMNS = (
    *RESOURCE_COLUMNS,
    TableColumn("value_num", pa.float64(), "the number"),
    TableColumn("value_text", pa.string(), "the text"),
    TableColumn("value_bool", pa.bool_(), "the boolean"),
    TableColumn("begin", INSTANT, "since when"),
    TableColumn("end", INSTANT, "until when"),
    TableColumn("duration", pa.duration("ms"), "for how long"),
    TableColumn("count", pa.int64(), "how many values have a time in the interval"),
    TableColumn("ongoing", pa.bool_(), "whether it lasts until the end of the requested and known time"),
)
"""The intervals in which a value stayed the same."""

_KINDS = {NUMBER: "numbers", BOOLEAN: "booleans", TEXT: "texts"}
_CURES = {
    NUMBER: "give above=, below= or equals=, such as above=24.0",
    BOOLEAN: "leave the condition out, or give equals=False",
    TEXT: 'give equals=, such as equals="on"',
}


class _Runs(NamedTuple):
    """Intervals made of consecutive steps, in order; ``first`` and ``last`` are the positions of these steps."""

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
        InvalidValue: The condition is invalid, or not defined for the values.
    """
    steps = _clipped(timeline)
    runs = _runs(steps, _meets(timeline, steps, above, below, equals), _is_break(steps))
    table = _each(timeline, steps, runs) if per_interval else _by_resource(timeline, steps, runs)
    return timeline.to_frame(table)


def unchanged(timeline: Timeline, longer_than: int) -> pd.DataFrame:
    """Find values that stayed the same; see :meth:`mirror_sdk.frames.MirrorAccessor.unchanged`."""
    steps = _clipped(timeline)
    runs = _runs(steps, steps.is_known, _is_break(steps) | is_change(steps))
    runs = _Runs(*(column[runs.end - runs.begin > longer_than] for column in runs))
    kind, number, text = (column[runs.first] for column in (steps.kind, steps.number, steps.text))
    counted = np.append(0, np.cumsum(_counts(timeline)))
    table = timeline.table(
        UNCHANGED_COLUMNS,
        **steps.keys(runs.resource),
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
    """Return the sum, number and maximum of the lengths in each of so many groups."""
    longest = np.zeros(count, dtype=np.int64)
    np.maximum.at(longest, group, lengths)
    sums = np.bincount(group, weights=lengths, minlength=count).astype(np.int64)
    return sums, np.bincount(group, minlength=count), longest


def share_of(part: Ints, whole: Ints) -> pa.Array:
    """Return the quotients; missing where the whole is 0."""
    return pa.array(part / np.maximum(whole, 1), mask=whole == 0)


def _clipped(timeline: Timeline) -> Steps:
    """Return the steps within the timeline, without those that were held for no time."""
    steps = timeline.steps
    begin, until = np.maximum(steps.at, timeline.begin), np.minimum(steps.until, timeline.end)
    return replace(steps, at=begin, until=until).take(until > begin)


def _counts(timeline: Timeline) -> Ints:
    """Return how many values have the time of each clipped step."""
    steps = timeline.steps
    counted = np.cumsum(steps.is_counted & (steps.at >= timeline.begin))
    # Of several values with one time, the last one is held.
    is_last = is_end(steps.resource, steps.at)
    counts = np.zeros(len(steps), dtype=np.int64)
    counts[is_last] = np.diff(counted[is_last], prepend=0)
    return counts[np.minimum(steps.until, timeline.end) > np.maximum(steps.at, timeline.begin)]


def _is_break(steps: Steps) -> Flags:
    """Return which steps begin after something unknown, or are the first of their resource."""
    is_break: Flags = is_start(steps.resource) | (steps.at != np.append(0, steps.until[:-1])[: len(steps)])
    return is_break


def _runs(steps: Steps, is_meant: Flags, is_break: Flags) -> _Runs:
    """Join consecutive steps to intervals.

    Args:
        steps: Steps, each held for some time.
        is_meant: Which of them belong to an interval.
        is_break: Which of them begin another interval than the step before.
    """
    starts = is_meant & (is_break | is_start(is_meant))
    first = np.flatnonzero(starts)
    last = np.flatnonzero(is_meant & (is_end(is_meant) | following(starts, True)))
    return _Runs(steps.resource[first], steps.at[first], steps.until[last], first, last)


def _meets(
    timeline: Timeline, steps: Steps, above: float | None, below: float | None, equals: float | bool | str | None
) -> Flags:
    """Return which steps meet the condition."""
    if above is None and below is None:
        return _equals(timeline, steps, equals)
    if equals is not None:
        raise InvalidValue(f"equals={equals!r} cannot be combined with above= or below=; give one of them")
    _check_kind(timeline, NUMBER, "above= and below= are of numbers")
    warn_of_units(timeline)
    meets: Flags = steps.kind == NUMBER
    for name, bound, compare in (("above", above, np.greater), ("below", below, np.less)):
        if bound is not None:
            number = real(bound)
            if number is None:
                raise InvalidValue(f"{name}={bound!r} is not a number; give one like {name}=24.0")
            meets &= compare(steps.number, number)
    return meets


def _equals(timeline: Timeline, steps: Steps, value: float | bool | str | None) -> Flags:
    if isinstance(value, str):
        _check_kind(timeline, TEXT, f"equals={value!r} is a text")
        found: Flags = (steps.kind == TEXT) & (steps.text == timeline.rows.texts.get_indexer(pd.Index([value]))[0])
        return found
    why = f"equals={value!r} is not one of their values"
    if value is None:
        value, why = True, "without a condition it is how long it was true"
    kind = BOOLEAN if isinstance(value, bool | np.bool_) else NUMBER
    if kind == NUMBER and real(value) is None:
        raise InvalidValue(f"equals={value!r} is not a value; give a number, a boolean or a text")
    _check_kind(timeline, kind, why)
    if kind == NUMBER:
        warn_of_units(timeline)
    equal: Flags = (steps.kind == kind) & (steps.number == float(value))
    return equal


def _check_kind(timeline: Timeline, kind: int, why: str) -> None:
    """Check that the values are of the kind of a condition.

    Raises:
        InvalidValue: Some are not.
    """
    steps = timeline.steps
    is_other = (steps.kind != kind) & steps.is_known
    if is_other.any():
        other = int(steps.kind[np.argmax(is_other)])
        raise InvalidValue(f"{timeline.path_at(is_other)} has {_KINDS[other]}: {why}; {_CURES[other]}")


def _each(timeline: Timeline, steps: Steps, runs: _Runs) -> pa.Table:
    # With one more element at either end, for the steps before the first and after the last one.
    follows = np.concatenate([~_is_break(steps), [False]])
    is_known = np.concatenate([[False], steps.is_known, [False]])
    return timeline.table(
        DURATION_INTERVALS_COLUMNS,
        **steps.keys(runs.resource),
        begin=runs.begin,
        end=runs.end,
        duration=runs.end - runs.begin,
        begin_seen=follows[runs.first] & is_known[runs.first],
        end_seen=follows[runs.last + 1] & is_known[runs.last + 2],
    )


def _by_resource(timeline: Timeline, steps: Steps, runs: _Runs) -> pa.Table:
    resources = np.arange(len(steps.of_device))
    duration, number, longest = totals(runs.resource, runs.end - runs.begin, len(resources))
    known = totals(steps.resource, np.where(steps.is_known, steps.until - steps.at, 0), len(resources))[0]
    return timeline.table(
        DURATIONS_COLUMNS,
        **steps.keys(resources),
        duration=duration,
        intervals=number,
        longest=longest,
        known=known,
        share=share_of(duration, known),
    )
