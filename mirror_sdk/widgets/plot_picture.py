"""The plot of the event watcher as a picture and in words, for pages without a kernel."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from mirror_sdk._formatting import number_text
from mirror_sdk.widgets import static
from mirror_sdk.widgets.models.chart_parts import ChartParts
from mirror_sdk.widgets.models.lines import Point, Series, SeriesKey, is_stepped, panel_title, thinned, within
from mirror_sdk.widgets.models.time_window import Interval
from mirror_sdk.widgets.models.timeline import StateRow, Threshold

POINTS_IN_PICTURE = 150
# Like those of tokens.css, but one color for light and dark pages.
_PALETTE = ("#2b7fc4", "#d9720f", "#2e9b57", "#b05a94", "#a08000", "#7468c9", "#2a95b5", "#857767")
_DASHES = ("-", "--", ":", "-.")
_NO_COLOR, _BAD, _GOOD = "#8b949e", "#b3221b", "#17693a"


def panels_of(lines: Sequence[Series]) -> list[list[Series]]:
    """Return the lines that have points by panel, in order."""
    panels: dict[str, list[Series]] = {}
    for line in lines:
        if len(line.at):
            panels.setdefault(line.panel, []).append(line)
    return list(panels.values())


def describe(chart: ChartParts) -> str:
    """Return the plot in words, for screen readers."""
    phrases = [
        f"{line.name} from {_text(line.numbers.min())} to {_text(line.numbers.max())} {line.unit_text}".rstrip()
        for line in chart.lines
        if len(line.at)
    ]
    phrases += [f"{row.name} is {row.spans[-1].text}" for row in chart.states if row.spans]
    return f"Plot over time: {'; '.join(phrases)}" if phrases else "Plot over time, empty"


def legend(chart: ChartParts, interval: Interval) -> str:
    """Return the table of the lines and states, as HTML."""
    rows: list[list[object]] = []
    for line in chart.lines:
        begin, end = (at.timestamp() * 1000 for at in interval)
        numbers = line.numbers[(begin <= line.at) & (line.at <= end)]
        if len(numbers):
            cells = [float(f"{one:.6g}") for one in (numbers[-1], numbers.min(), numbers.max(), numbers.mean())]
            rows.append([line.name, *cells, line.unit_text])
    rows += [[row.name, row.spans[-1].text, None, None, None, ""] for row in chart.states if row.spans]
    headings = ["name", "last", "min", "max", "mean", "unit"]
    return static.table("Legend", headings, rows, total=len(rows)) if rows else ""


def picture(
    chart: ChartParts,
    interval: Interval,
    color_of: Callable[[SeriesKey], int],
    thresholds: Sequence[Threshold] = (),
) -> bytes:
    """Return the plot as a PNG picture."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure

    panels = panels_of(chart.lines)
    heights = [1.7] * len(panels) + [0.35] * len(chart.states)
    figure = Figure(figsize=(9, 0.9 + sum(heights) + 0.25 * len(heights)), dpi=100, layout="constrained")
    axes = figure.subplots(len(heights), sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
    for panel, lines in zip(axes, panels, strict=False):
        for line in lines:
            color = color_of(line.key)
            points = _drawn(line, interval)
            panel.plot(
                [at for at, _ in points],
                [float("nan") if value is None else value for _, value in points],
                color=_PALETTE[color % len(_PALETTE)],
                drawstyle="steps-post" if is_stepped(line.key.path) else "default",
                linestyle=_DASHES[color // len(_PALETTE) % len(_DASHES)],
                marker="." if len(points) < POINTS_IN_PICTURE / 2 else None,
                markersize=4,
                linewidth=1.2,
                label=_plain(line.name),
            )
        for level in {one.level for one in thresholds for line in lines if one.concerns(line.key)}:
            panel.axhline(level, color=_BAD, linewidth=0.8, linestyle="--")
        unit = f" ({lines[0].unit_text})" if lines[0].unit_text else ""
        panel.set_title(_plain(f"{panel_title(lines)}{unit}"), loc="left", fontsize="small", fontweight="bold")
        panel.grid(alpha=0.3)
        panel.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize="small")
    for panel, row in zip(axes[len(panels) :], chart.states, strict=True):
        _draw_states(panel, row, interval)
    for panel in axes:
        for shade in chart.shades:
            shade_color = _BAD if shade.kind == "gap" else _NO_COLOR
            panel.axvspan(shade.begin, shade.end or interval.end, color=shade_color, alpha=0.12, linewidth=0)
        for marker in chart.markers:
            panel.axvline(
                marker.at, color="#b3221b" if marker.tone == "bad" else "#17693a", linewidth=0.8, linestyle=":"
            )
        panel.spines[["top", "right"]].set_visible(False)
    locator = AutoDateLocator(tz=UTC)
    axes[-1].set_xlim(interval.begin, interval.end)
    axes[-1].xaxis.set_major_locator(locator)
    axes[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    axes[-1].set_xlabel("time (UTC)", fontsize="small")
    # The picture has a box for a missing glyph. A warning in the notebook would not help.
    warnings.filterwarnings("ignore", "Glyph ", UserWarning, __name__.replace(".", r"\."))
    written = io.BytesIO()
    figure.savefig(written, format="png")
    return written.getvalue()


def _draw_states(panel: object, row: StateRow, interval: Interval) -> None:
    axes: Any = panel
    for span in row.spans:
        end = span.end or interval.end
        color = _NO_COLOR if span.color is None else _PALETTE[span.color % len(_PALETTE)]
        axes.axvspan(span.begin, end, color=color, linewidth=0)
        if min(end, interval.end) - max(span.begin, interval.begin) > interval.length / 12:
            at = max(span.begin, interval.begin)
            axes.text(
                at, 0.5, f" {_plain(span.text[:20])}", va="center", fontsize="x-small", color="white", clip_on=True
            )
    axes.set_title(_plain(row.name), loc="left", fontsize="small")
    axes.set_yticks([])


def _text(number: np.float64) -> str:
    return number_text(float(number))


def _plain(text: str) -> str:
    """Return a text that matplotlib interprets neither as a formula nor as a hidden legend entry."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


def _drawn(line: Series, interval: Interval) -> list[tuple[datetime, float | None]]:
    """Return a bounded number of points, with ``None`` for breaks."""
    points: list[tuple[datetime, float | None]] = []
    thinned_points: Sequence[Point] = thinned(within(line.points, *interval), POINTS_IN_PICTURE)
    for point in thinned_points:
        if not point.is_connected and points:
            points.append((point.at, None))
        points.append((point.at, point.number))
    return points
