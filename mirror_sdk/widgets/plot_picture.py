"""The plot of the event watcher as a picture and as a description, for pages without a kernel."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC
from itertools import groupby
from operator import attrgetter
from typing import Any

import numpy as np

from mirror_sdk._formatting import number_text
from mirror_sdk.frames.plot_conditions import draw_condition
from mirror_sdk.widgets import static
from mirror_sdk.widgets.models.chart_parts import ChartParts
from mirror_sdk.widgets.models.lines import Numbers, Series, SeriesKey, is_stepped, panel_title
from mirror_sdk.widgets.models.past_values import milliseconds
from mirror_sdk.widgets.models.plotted_conditions import PlottedCondition
from mirror_sdk.widgets.models.time_window import Interval
from mirror_sdk.widgets.models.timeline import StateRow, Threshold

_MOST_POINTS_WITH_DOTS = 75
# The colors are like those of tokens.css, but the same for light and dark pages.
_PALETTE = ("#2b7fc4", "#d9720f", "#2e9b57", "#b05a94", "#a08000", "#7468c9", "#2a95b5", "#857767")
_DASHES = ("-", "--", ":", "-.")
_NO_COLOR, _BAD, _GOOD = "#8b949e", "#b3221b", "#17693a"


def panels_of(lines: Sequence[Series]) -> list[list[Series]]:
    """Return the lines that have points, grouped by panel and in order."""
    panels: dict[str, list[Series]] = {}
    for line in lines:
        if len(line.at):
            panels.setdefault(line.panel, []).append(line)
    return list(panels.values())


def plot_html(
    chart: ChartParts, interval: Interval, colors: Mapping[SeriesKey, int], thresholds: Sequence[Threshold] = ()
) -> str:
    """Return the plot as a picture, and the legend of the plot as a table."""
    rows = [_legend_row(line, interval) for line in chart.lines if len(_visible(line, interval)[0])]
    rows += [{"name": row.name, "last": row.spans[-1].text} for row in chart.states if row.spans]
    legend = static.table("Legend", ("name", "last", "min", "max", "mean", "unit"), rows, len(rows)) if rows else ""
    return static.picture(picture(chart, interval, colors, thresholds), describe(chart)) + legend


def describe(chart: ChartParts) -> str:
    """Describe the plot in words, for screen readers."""
    phrases = [
        f"{line.name} from {_text(line.numbers.min())} to {_text(line.numbers.max())} {line.unit_text}".rstrip()
        for line in chart.lines
        if len(line.at)
    ]
    phrases += [f"{row.name} is {row.spans[-1].text}" for row in chart.states if row.spans]
    return f"Plot over time: {'; '.join(phrases)}" if phrases else "Plot over time, empty"


def picture(
    chart: ChartParts, interval: Interval, colors: Mapping[SeriesKey, int], thresholds: Sequence[Threshold] = ()
) -> bytes:
    """Return the plot as a PNG picture."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure

    panels = panels_of(chart.lines)
    heights = [1.7] * len(panels) + [0.35] * len(chart.states)
    figure = Figure(figsize=(9, 0.9 + sum(heights) + 0.25 * len(heights)), dpi=100, layout="constrained")
    axes = figure.subplots(len(heights), sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for panel, lines in zip(axes, panels, strict=False):
        _draw_lines(panel, lines, interval, colors, thresholds)
        _draw_conditions(panel, [line.key for line in lines], chart.conditions, interval)
    for panel, row in zip(axes[len(panels) :], chart.states, strict=True):
        _draw_states(panel, row, interval)
        _draw_conditions(panel, [row.key], chart.conditions, interval, 0.25)
    for panel in axes:
        if panel.get_legend_handles_labels()[1]:
            panel.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize="small")
        for shade in chart.shades:
            color = _BAD if shade.kind == "gap" else _NO_COLOR
            panel.axvspan(shade.begin, shade.end or interval.end, color=color, alpha=0.12, linewidth=0)
        for marker in chart.markers:
            panel.axvline(marker.at, color=_BAD if marker.tone == "bad" else _GOOD, linewidth=0.8, linestyle=":")
        panel.spines[["top", "right"]].set_visible(False)
    locator = AutoDateLocator(tz=UTC)
    axes[-1].set_xlim(*interval)
    axes[-1].xaxis.set_major_locator(locator)
    axes[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    axes[-1].set_xlabel("time (UTC)", fontsize="small")
    # The picture shows a box for a missing glyph. A warning in the notebook would not help.
    warnings.filterwarnings("ignore", "Glyph ", UserWarning, __name__.replace(".", r"\."))
    written = io.BytesIO()
    figure.savefig(written, format="png")
    return written.getvalue()


def _draw_lines(
    axes: Any,
    lines: Sequence[Series],
    interval: Interval,
    colors: Mapping[SeriesKey, int],
    thresholds: Sequence[Threshold],
) -> None:
    for line in lines:
        color = colors[line.key]
        at, numbers = _visible(line, interval, more=1)
        axes.plot(
            at.astype("datetime64[ms]"),
            numbers,
            color=_PALETTE[color % len(_PALETTE)],
            drawstyle="steps-post" if is_stepped(line.key.path) else "default",
            linestyle=_DASHES[color // len(_PALETTE) % len(_DASHES)],
            marker="." if len(at) < _MOST_POINTS_WITH_DOTS else None,
            markersize=4,
            linewidth=1.2,
            label=_plain(line.name),
        )
    for level in {one.level for one in thresholds for line in lines if one.concerns(line.key)}:
        axes.axhline(level, color=_BAD, linewidth=0.8, linestyle="--")
    unit = f" ({lines[0].unit_text})" if lines[0].unit_text else ""
    axes.set_title(_plain(f"{panel_title(lines)}{unit}"), loc="left", fontsize="small", fontweight="bold")
    axes.grid(alpha=0.3)


def _draw_conditions(
    axes: Any,
    keys: Sequence[SeriesKey],
    conditions: Sequence[PlottedCondition],
    interval: Interval,
    height: float = 1.0,
) -> None:
    begin, end = map(milliseconds, interval)
    selected = [one for one in conditions if any(key in one.limits for key in keys)]
    # A condition of several resources has one entry in the legend.
    for number, group in groupby(sorted(selected, key=attrgetter("number")), attrgetter("number")):
        of_number = list(group)
        # A bar of states has no scale.
        levels = {level for one in of_number for key in keys for level in one.limits.get(key, ()) if height == 1}
        parts = [span for one in of_number for span in one.spans if span.begin <= end and (span.end or end) >= begin]
        draw_condition(axes, _plain(of_number[0].condition), number, levels, parts, end, height)


def _draw_states(axes: Any, row: StateRow, interval: Interval) -> None:
    for span in row.spans:
        begin, end = max(span.begin, interval.begin), min(span.end or interval.end, interval.end)
        color = _NO_COLOR if span.color is None else _PALETTE[span.color % len(_PALETTE)]
        axes.axvspan(span.begin, span.end or interval.end, color=color, linewidth=0)
        if end - begin > interval.length / 12:
            text = f" {_plain(span.text[:20])}"
            axes.text(begin, 0.5, text, va="center", fontsize="x-small", color="white", clip_on=True)
    axes.set_title(_plain(row.name), loc="left", fontsize="small")
    axes.set_yticks([])


def _legend_row(line: Series, interval: Interval) -> dict[str, object]:
    _, numbers = _visible(line, interval)
    numbers = numbers[~np.isnan(numbers)]
    found = {"last": numbers[-1], "min": numbers.min(), "max": numbers.max(), "mean": numbers.mean()}
    cells = {name: float(f"{number:.6g}") for name, number in found.items()}
    return {"name": line.name, **cells, "unit": line.unit_text}


def _visible(line: Series, interval: Interval, more: int = 0) -> tuple[Numbers, Numbers]:
    """Return the times and the numbers within the interval.

    They include ``more`` additional points on each side, so that lines reach the edges of the plot.
    """
    at, numbers = line.with_breaks
    begin, end = map(milliseconds, interval)
    visible = slice(max(np.searchsorted(at, begin) - more, 0), np.searchsorted(at, end, "right") + more)
    return at[visible], numbers[visible]


def _text(number: np.float64) -> str:
    return number_text(float(number))


def _plain(text: str) -> str:
    """Return a string that matplotlib interprets neither as a formula nor as a hidden legend entry."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")
