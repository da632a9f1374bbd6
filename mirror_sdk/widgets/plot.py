"""Lines over time as SVG in a page: it takes the page's colours and needs no script.

Not drawn by matplotlib: a picture twice a second would take the kernel's time from other cells and its colours from
one theme.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from html import escape

from mirror_sdk.widgets.models.watcher_model import Point, Series
from mirror_sdk.widgets.theme import LINES

WIDTH, PANEL_HEIGHT, FOOT = 760, 150, 36
LEFT, RIGHT, TOP = 58, 12, 26
POINTS_DRAWN = 300
_DASHES = ("", "7 3", "2 3", "9 3 2 3")
_DOTS_UP_TO = 40
_SMALLEST = 1e-12


def plot(series: Sequence[Series]) -> str:
    """The series as lines: one panel for each unit, one axis of time for all, and a legend.

    Args:
        series: Lines whose points are in the order of time.
    """
    drawn = [(number, line) for number, line in enumerate(series) if line.points]
    units = list(dict.fromkeys(line.unit for _, line in drawn))
    height = max(1, len(units)) * PANEL_HEIGHT + FOOT
    start, end = _span([point.at for _, line in drawn for point in (line.points[0], line.points[-1])])
    panels = "".join(
        _panel([(number, line) for number, line in drawn if line.unit == unit], unit, row * PANEL_HEIGHT, start, end)
        for row, unit in enumerate(units)
    )
    times = _times(start, end, height - 21) if drawn else ""
    nothing = "" if drawn else f'<text x="{LEFT}" y="{PANEL_HEIGHT / 2}">No numbers to draw yet.</text>'
    return (
        f'<svg class="mirror-plot" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(_told(series))}">'
        f"{panels}{times}{nothing}</svg>{_legend(series)}"
    )


def thinned(points: Sequence[Point], most: int = POINTS_DRAWN) -> list[Point]:
    """At most so many points of the same look: of each stretch its lowest and its highest."""
    if len(points) <= most:
        return list(points)
    size = math.ceil(len(points) / (most // 2))
    kept: list[Point] = []
    for begin in range(0, len(points), size):
        stretch = points[begin : begin + size]
        ends = {min(stretch, key=lambda point: point.number), max(stretch, key=lambda point: point.number)}
        kept += sorted(ends)
    return kept


def ticks(low: float, high: float) -> list[float]:
    """Round numbers from ``low`` to ``high``, three to six or so."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _panel(lines: Sequence[tuple[int, Series]], unit: str, top: float, start: datetime, end: datetime) -> str:
    low, high = _range([point.number for _, line in lines for point in line.points])
    floor, ceiling = top + PANEL_HEIGHT - 6, top + TOP

    def y(number: float) -> float:
        return floor - (number - low) / (high - low) * (floor - ceiling)

    axis = "".join(
        f'<path class="axis" d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}"/>'
        f'<text x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:.6g}</text>'
        for tick in ticks(low, high)
    )
    name = f'<text x="{LEFT}" y="{top + 12}">{escape(unit or "unit not known")}</text>'
    drawn = "".join(
        _line(number, [(_x(point.at, start, end), y(point.number)) for point in thinned(line.points)])
        for number, line in lines
    )
    return axis + name + drawn


def _line(number: int, places: Sequence[tuple[float, float]]) -> str:
    colour, dashes = LINES[number % len(LINES)], _DASHES[number % len(_DASHES)]
    course = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    line = f'<polyline class="line" style="stroke: {colour}" stroke-dasharray="{dashes}" points="{course}"/>'
    if len(places) > _DOTS_UP_TO:
        return line
    dots = (f'<circle class="dot" style="fill: {colour}" cx="{x:.1f}" cy="{y:.1f}" r="2.2"/>' for x, y in places)
    return line + "".join(dots)


def _times(start: datetime, end: datetime, y: float) -> str:
    def label(part: int) -> str:
        at = start + (end - start) * part / 4
        anchor = {0: "start", 4: "end"}.get(part, "middle")
        is_long = end - start > timedelta(days=1)
        text = f"{at:%m-%d %H:%M}" if is_long else f"{at:%H:%M:%S}"
        return f'<text x="{_x(at, start, end):.1f}" y="{y}" text-anchor="{anchor}">{text}</text>'

    name = f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{y + 16}" text-anchor="middle">time (UTC)</text>'
    return "".join(map(label, range(5))) + name


def _x(at: datetime, start: datetime, end: datetime) -> float:
    return LEFT + (at - start) / (end - start) * (WIDTH - LEFT - RIGHT)


def _span(instants: Sequence[datetime]) -> tuple[datetime, datetime]:
    start, end = min(instants, default=datetime.min), max(instants, default=datetime.min)
    return start, max(end, start + timedelta(seconds=4))


def _range(numbers: Sequence[float]) -> tuple[float, float]:
    """From the lowest to the highest with some room; there is some also where all are the same."""
    low, high = min(numbers), max(numbers)
    size = max(abs(low), abs(high), _SMALLEST)
    room = (high - low) * 0.08 if high - low > size * 1e-9 else size * 0.05
    return low - room, high + room


def _legend(series: Sequence[Series]) -> str:
    return f'<ul class="mirror-legend">{"".join(_legend_items(series))}</ul>' if series else ""


def _legend_items(series: Sequence[Series]) -> Iterator[str]:
    for number, line in enumerate(series):
        last = f": {line.points[-1].number:.6g} {line.unit}".rstrip() if line.points else ""
        colour, dashes = LINES[number % len(LINES)], _DASHES[number % len(_DASHES)]
        sample = (
            '<svg width="26" height="8" aria-hidden="true">'
            f'<path d="M0 4H26" style="stroke: {colour}; stroke-width: 2" stroke-dasharray="{dashes}"/></svg>'
        )
        yield f"<li>{sample}{escape(line.name)}{escape(last)}</li>"


def _told(series: Sequence[Series]) -> str:
    """The plot in words, for those who do not see it."""
    parts = [
        f"{line.name} from {min(numbers):.6g} to {max(numbers):.6g} {line.unit}".rstrip()
        for line in series
        if (numbers := [point.number for point in line.points])
    ]
    return f"Plot over time: {'; '.join(parts)}" if parts else "Plot over time, empty"
