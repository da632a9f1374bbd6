"""Plots of the results of the analysis over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pandas as pd

from mirror_sdk.frames.analysis.rows import instants
from mirror_sdk.frames.analysis.timeline import Timeline
from mirror_sdk.frames.axes import axes_for, plain_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS = 30
"""The most rows that one plot shows."""
_DAY = 86_400_000
_Color: TypeAlias = "str | tuple[str, float]"
# A silence may lie within an absence, so it is drawn first.
_OF_REASONS: Mapping[str, _Color] = {"silent": "C4", "deregistration": "C1", "expired": "C3", "gap": "C7"}
_OF_PRESENCES: Mapping[str, _Color] = {"available": ("C2", 0.5), "absent": "C3", "unknown": ("C7", 0.7)}
_ALL = "all devices"


def draw_gaps(timeline: Timeline, gaps: pd.DataFrame, names: Mapping[str, str], ax: Axes | None) -> Axes:
    """Draw unknown intervals, a row for each device; the longest first."""
    device = gaps["device_id"].astype(object).fillna(_ALL)
    # Gaps of all devices come first.
    rows = sorted(_longest(device, gaps["duration"]), key=lambda row: row != _ALL)
    bars = gaps.assign(device_id=device, state=gaps["reason"])
    return _draw(timeline, bars, rows, _OF_REASONS, names, "unknown intervals", ax)


def draw_availability(timeline: Timeline, intervals: pd.DataFrame, names: Mapping[str, str], ax: Axes | None) -> Axes:
    """Draw presence, a row for each device in the order of names; those that were absent for longest."""
    device = intervals["device_id"].astype(object)
    longest = _longest(device, intervals["duration"].where(intervals["presence"] == "absent", pd.Timedelta(0)))
    rows = sorted(longest, key=lambda row: (names.get(row, row), row))
    bars = intervals.assign(device_id=device, state=intervals["presence"])
    return _draw(timeline, bars, rows, _OF_PRESENCES, names, "when devices were there", ax)


def _longest(device: pd.Series, durations: pd.Series) -> list[str]:
    """Return the devices with the largest sum of durations."""
    sums = durations.groupby(device.to_numpy()).sum().sort_values(ascending=False, kind="stable")
    return [str(name) for name in sums.index[:_MOST_ROWS]]


def _draw(
    timeline: Timeline,
    bars: pd.DataFrame,
    rows: Sequence[str],
    colors: Mapping[str, _Color],
    names: Mapping[str, str],
    title: str,
    ax: Axes | None,
) -> Axes:
    """Draw the intervals of these devices as bars in the color of their state, the first device at the top."""
    axes = axes_for(ax, height=max(2.0, 1.3 + 0.3 * len(rows)))
    until = bars["end"].fillna(pd.Timestamp(max(timeline.known_until, timeline.begin), unit="ms", tz="UTC"))
    # Dates of matplotlib are days since 1970.
    begin, end = (np.clip(instants(times), timeline.begin, timeline.end) / _DAY for times in (bars["begin"], until))
    bars = bars.assign(begin=begin, length=end - begin)
    for state, color in colors.items():
        of_state = bars[(bars["state"] == state) & bars["device_id"].isin(rows)]
        for device, own in of_state.groupby("device_id"):
            # The edge keeps the shortest one visible.
            axes.broken_barh(
                list(zip(own["begin"], own["length"], strict=True)),
                (rows.index(str(device)) - 0.35, 0.7),
                facecolor=color,
                edgecolor=color,
                linewidth=0.8,
            )
        if len(of_state):
            axes.plot([], [], "s", color=color, label=state)
    axes.set_yticks(range(len(rows)), [names.get(row, row) for row in rows])
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    axes.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    _draw_time_axis(axes, timeline)
    if len(rows):
        plain_legend(axes, beside=True)
    else:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", va="center")
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis="x", alpha=0.3)
    count = bars["device_id"].nunique()
    cut = f": the {len(rows)} of {count:,} devices with most of it" if count > len(rows) else ""
    axes.set_title(f"{title}{cut}", loc="left", fontsize="medium")
    return axes


def _draw_time_axis(axes: Axes, timeline: Timeline) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # an extra, and slow to import

    locator = AutoDateLocator(tz=timeline.tz, minticks=3, maxticks=9)
    axes.xaxis_date(tz=timeline.tz)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=timeline.tz))
    if timeline.end > timeline.begin:
        axes.set_xlim(timeline.begin / _DAY, timeline.end / _DAY)
    axes.set_xlabel(f"time ({timeline.tz})")
