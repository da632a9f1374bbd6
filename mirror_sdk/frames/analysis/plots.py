"""Plots of the results of the analysis over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd

from mirror_sdk._formatting import number_text
from mirror_sdk.frames.analysis.history_rows import Floats, instants
from mirror_sdk.frames.analysis.timeline import Timeline
from mirror_sdk.frames.plot_axes import axes_for, concise_dates, plain_legend
from mirror_sdk.frames.plot_legend import line_names
from mirror_sdk.frames.state import value_column

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS = 30
"""The maximum number of rows that one plot shows."""
_DAY = 86_400_000
_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
_Color: TypeAlias = "str | tuple[str, float]"
_Row: TypeAlias = "str | tuple[str, str]"
# A silence may lie within an absence, so silences are drawn first.
_OF_REASONS: Mapping[str, _Color] = {"silent": "C4", "deregistration": "C1", "expired": "C3", "gap": "C7"}
_OF_PRESENCES: Mapping[str, _Color] = {"available": ("C2", 0.5), "absent": "C3", "unknown": ("C7", 0.7)}
_OF_ONGOING: Mapping[str, _Color] = {"ongoing": "C1", "ended": "C0"}
_ALL = "all devices"


def draw_gaps(timeline: Timeline, gaps: pd.DataFrame, names: Mapping[str, str], ax: Axes | None) -> Axes:
    """Draw unknown intervals, with one row for each device. The device with the longest intervals comes first."""
    owner = gaps["device_id"].astype(object).fillna(_ALL)
    # Gaps of all devices come first.
    rows = sorted(_longest(owner, gaps["duration"]), key=lambda row: row != _ALL)
    labels = [names.get(row, row) for row in rows]
    axes = _bars(timeline, gaps.assign(row=owner), rows, "reason", _OF_REASONS, labels, ax)
    return _titled(axes, "unknown intervals", len(rows), owner.nunique(), "devices")


def draw_availability(timeline: Timeline, intervals: pd.DataFrame, names: Mapping[str, str], ax: Axes | None) -> Axes:
    """Draw the presence of devices, with one row for each device in the order of names.

    Only the devices that were absent for longest are drawn.
    """
    owner = intervals["device_id"].astype(object)
    longest = _longest(owner, intervals["duration"].where(intervals["presence"] == "absent", pd.Timedelta(0)))
    rows = sorted(longest, key=lambda row: (names.get(row, row), row))
    labels = [names.get(row, row) for row in rows]
    axes = _bars(timeline, intervals.assign(row=owner), rows, "presence", _OF_PRESENCES, labels, ax)
    return _titled(axes, "availability of devices", len(rows), owner.nunique(), "devices")


def draw_unchanged(timeline: Timeline, intervals: pd.DataFrame, names: Mapping[str, str], ax: Axes | None) -> Axes:
    """Draw unchanged values with one row for each resource.

    The bars show the values, and the resource with the longest intervals comes first.
    """
    owner = [(str(device), str(path)) for device, path in zip(intervals["device_id"], intervals["path"], strict=True)]
    longest = intervals["duration"].groupby([intervals["device_id"], intervals["path"]], observed=True).max()
    rows = [(str(device), str(path)) for device, path in longest.sort_values(ascending=False).index[:_MOST_ROWS]]
    lines = line_names(rows, names)
    state = np.where(intervals["ongoing"].to_numpy(dtype=bool), "ongoing", "ended")
    table = intervals.assign(row=pd.Series(owner, dtype=object), state=state)
    axes = _bars(timeline, table, rows, "state", _OF_ONGOING, [lines[row] for row in rows], ax, edge="w")
    _write_values(axes, timeline, table, rows)
    return _titled(axes, "unchanged values", len(rows), len(longest), "resources")


def draw_late_arrivals(timeline: Timeline, late: pd.DataFrame, ax: Axes | None) -> Axes:
    """Draw late values: the time at which they changed, and how much later they arrived."""
    delay = late["delay"].fillna(late["lag"]).dt.total_seconds().to_numpy()
    size, unit = _unit(delay)
    axes = axes_for(ax)
    is_overtaken = (late["lag"] > pd.Timedelta(0)).to_numpy(dtype=bool)
    for is_group, color, label in (
        (is_overtaken, "C1", "overtaken by a newer value"),
        (~is_overtaken, "C0", "not overtaken"),
    ):
        if is_group.any():
            times = _dates(late["changed_at"][is_group])
            axes.plot(times, delay[is_group] / size, ".", color=color, alpha=0.6, label=label)
    if len(delay) and delay.min() > 0 and delay.max() > 100 * delay.min():
        _log_axis(axes)
    elif len(delay):
        # By default the margins depend only on the values, which may be far from 0.
        low, high = min(0.0, delay.min() / size), max(0.0, delay.max() / size)
        axes.set_ylim(low, high + 0.05 * (high - low))
    _time_axis(axes, timeline, "changed at")
    axes.set_ylabel(f"delay ({unit})")
    if len(late):
        plain_legend(axes)
    else:
        _nothing(axes)
    axes.set_title("late arrivals", loc="left", fontsize="medium")
    axes.grid(visible=True, alpha=0.3)
    return axes


def _log_axis(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # an extra, and slow to import

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _longest(owner: pd.Series, durations: pd.Series) -> list[str]:
    """Return the names with the largest total duration."""
    sums = durations.groupby(owner.to_numpy()).sum().sort_values(ascending=False, kind="stable")
    return [str(name) for name in sums.index[:_MOST_ROWS]]


def _bars(
    timeline: Timeline,
    intervals: pd.DataFrame,
    rows: Sequence[_Row],
    column: str,
    colors: Mapping[str, _Color],
    names: Sequence[str],
    ax: Axes | None,
    edge: _Color | None = None,
) -> Axes:
    """Draw intervals as bars. Each element of ``rows`` is one row of the plot, with the first one at the top."""
    axes = axes_for(ax, height=max(2.0, 1.3 + 0.3 * len(rows)))
    begin, end = _clipped(timeline, intervals)
    number_of = {row: number for number, row in enumerate(rows)}
    numbers = np.array([number_of.get(row, -1) for row in intervals["row"]], dtype=np.int64)
    for word, color in colors.items():
        is_word = (intervals[column] == word).to_numpy(dtype=bool) & (numbers >= 0)
        for row in np.unique(numbers[is_word]):
            is_in_row = is_word & (numbers == row)
            spans = np.column_stack([begin[is_in_row], (end - begin)[is_in_row]])
            # The edge line keeps even the shortest bar visible.
            axes.broken_barh(spans.tolist(), (row - 0.35, 0.7), facecolor=color, edgecolor=edge or color, linewidth=0.8)
        if is_word.any():
            axes.plot([], [], "s", color=color, label=word)
    axes.set_yticks(range(len(rows)), names)
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    axes.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    _time_axis(axes, timeline, "time")
    if len(rows):
        plain_legend(axes, outside=True)
    else:
        _nothing(axes)
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis="x", alpha=0.3)
    return axes


def _clipped(timeline: Timeline, intervals: pd.DataFrame) -> tuple[Floats, Floats]:
    """Return the visible start and end of intervals as matplotlib dates."""
    end = intervals["end"].fillna(pd.Timestamp(max(timeline.known_until, timeline.begin), unit="ms", tz="UTC"))
    first, last = timeline.begin / _DAY, timeline.end / _DAY
    return np.clip(_dates(intervals["begin"]), first, last), np.clip(_dates(end), first, last)


def _dates(times: pd.Series) -> Floats:
    """Convert times to matplotlib dates, which are days since 1970."""
    return instants(times) / _DAY


def _time_axis(axes: Axes, timeline: Timeline, label: str) -> None:
    concise_dates(axes, timeline.tz)
    if timeline.end > timeline.begin:
        axes.set_xlim(timeline.begin / _DAY, timeline.end / _DAY)
    axes.set_xlabel(f"{label} ({timeline.tz})")


def _write_values(axes: Axes, timeline: Timeline, intervals: pd.DataFrame, rows: Sequence[_Row]) -> None:
    """Write the value into each bar that is long enough."""
    begin, end = _clipped(timeline, intervals)
    row_of = {row: number for number, row in enumerate(rows)}
    days = max(timeline.end - timeline.begin, 1) / _DAY
    values = value_column(intervals, "value")
    texts = [number_text(value) if isinstance(value, float) else str(value) for value in values]
    for number, (owner, text) in enumerate(zip(intervals["row"], texts, strict=True)):
        row = row_of.get(owner)
        if row is not None and (end[number] - begin[number]) / days > 0.012 * (len(text) + 1):
            middle = (begin[number] + end[number]) / 2
            axes.text(middle, row, text, ha="center", va="center", fontsize="x-small", color="w", parse_math=False)


def _unit(spans: Floats) -> tuple[float, str]:
    """Return the unit that is suitable for the spans: its length in seconds and its name."""
    largest = np.abs(spans).max(initial=0.0)
    return next(((size, unit) for size, unit in _UNITS if largest >= 2 * size), _UNITS[-1])


def _titled(axes: Axes, title: str, row_count: int, count: int, things: str) -> Axes:
    cut = f": {row_count} of {count:,} {things}, those with the longest time" if count > row_count else ""
    axes.set_title(f"{title}{cut}", loc="left", fontsize="medium")
    return axes


def _nothing(axes: Axes) -> None:
    axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", va="center")
