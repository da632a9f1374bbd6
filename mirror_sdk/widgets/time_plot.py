"""Lines over time: an interactive plotly figure, and the same lines as a picture."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from datetime import UTC, datetime
from html import escape
from threading import RLock
from typing import Any

import plotly
import plotly.graph_objects as go
import traitlets

from mirror_sdk._visible import TimePrecision, number_text, time_precision
from mirror_sdk.widgets.lazy_module import LazyModule
from mirror_sdk.widgets.models.lines import Point, Series, SeriesKey, thinned, within
from mirror_sdk.widgets.models.time_window import Interval
from mirror_sdk.widgets.theme import LINES

POINTS_DRAWN = 300
POINTS_IN_PICTURE = 150
PANEL_HEIGHT, FOOT = 150, 110
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_PICTURE_DASHES = ("-", "--", ":", "-.", (0, (8, 3)), (0, (8, 3, 2, 3)))
_HOVER: Mapping[TimePrecision, str] = {
    "seconds": "<b>%{meta[0]}</b><br>%{y:.15~g} %{meta[1]}<br>%{x|%Y-%m-%d %H:%M:%S} UTC<extra></extra>",
    "milliseconds": "<b>%{meta[0]}</b><br>%{y:.15~g} %{meta[1]}<br>%{x|%Y-%m-%d %H:%M:%S.%L} UTC<extra></extra>",
}
_BETWEEN = 0.06
"""The space between two panels, as a share of the height."""


class TimePlot:
    """Lines over time: a panel with an axis for each unit, and a common time axis.

    Args:
        zoomed: Called with the interval that the user zoomed or panned to; ``None`` for everything.
        lock: Held while a message of the page is processed.

    Attributes:
        figure: The widget.
    """

    def __init__(self, zoomed: Callable[[Interval | None], object], lock: RLock) -> None:
        self._zoomed = zoomed
        self._is_showing = False
        self._axes: tuple[str, ...] | None = None
        self.figure = _Figure([_trace(number) for number in range(len(LINES))], _LAYOUT)
        self.figure.lock = lock
        self.figure._config = _CONFIG
        self.figure.add_class("mirror-time-plot")
        self.figure.layout.on_change(self._range_changed, "xaxis.range", "xaxis.autorange")

    def show(self, series: Sequence[Series], interval: Interval | None, selected: SeriesKey | None = None) -> None:
        """Show these lines in this interval. Only changes are sent to the page.

        Args:
            series: The lines, at most one for each color.
            interval: The displayed interval; ``None`` without points.
            selected: The highlighted line, if any.
        """
        axes = axes_of(series)
        self._is_showing = True
        try:
            with self.figure.batch_update():
                if axes != self._axes:
                    height, anchor, panels = _panels(axes)
                    self.figure.layout.height, self.figure.layout.xaxis.anchor = height, anchor
                    # Each axis completely: plotly.js rejects parts of an axis that it does not draw yet, and the rest
                    # of the update with them.
                    self.figure.update_layout(panels, overwrite=True)
                    self._axes = axes
                if interval is not None:
                    self.figure.layout.xaxis.update(range=[_text(interval.begin), _text(interval.end)], autorange=False)
                for number, trace in enumerate(self.figure.data):
                    line = series[number] if number < len(series) else None
                    trace.update(_trace_of(line, interval, axes, selected))
        finally:
            self._is_showing = False

    def reset(self) -> None:
        """Reset the range of the value axes."""
        with self.figure.batch_update():
            for number in range(len(self._axes or ())):
                self.figure.layout[f"yaxis{_suffix(number)}"].autorange = True

    def _range_changed(self, _: object, ends: Sequence[str] | None, is_automatic: bool | None) -> None:
        # plotly also reports ranges that the program sets.
        if self._is_showing:
            return
        self._zoomed(None if is_automatic or not ends else Interval(_instant(ends[0]), _instant(ends[1])))


class _Figure(LazyModule, go.FigureWidget):  # type: ignore[misc] # plotly has no types
    """A figure that a message of the page cannot change while another thread changes it."""

    _module_id = traitlets.Unicode(f"plotly {plotly.__version__}").tag(sync=True)
    module_text = str(go.FigureWidget._esm)
    lock: RLock | None = None

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:
        """Return the state, with the current lines for a page that is loaded later.

        Plotly itself updates this state for a figure that is displayed alone, but not within another widget.
        """
        with self.lock or nullcontext():
            if key is None and hasattr(self, "_data"):
                now = {"_widget_data": self._data, "_widget_layout": self._layout_obj._props}
                self._trait_values |= deepcopy(now)
            state: dict[str, Any] = super().get_state(key, drop_defaults)
            return state

    def set_state(self, sync_data: dict[str, Any]) -> None:
        with self.lock or nullcontext():
            super().set_state(sync_data)


def axes_of(series: Sequence[Series]) -> tuple[str, ...]:
    """Return the distinct axes of the lines that have points."""
    return tuple(dict.fromkeys(line.axis for line in series if line.points))


def describe(series: Sequence[Series]) -> str:
    """Return the plot in words, for screen readers."""
    phrases = [
        f"{line.name} from {number_text(min(numbers))} to {number_text(max(numbers))} {line.unit_text}".rstrip()
        for line in series
        if (numbers := [point.number for point in line.points])
    ]
    return f"Plot over time: {'; '.join(phrases)}" if phrases else "Plot over time, empty"


def picture(series: Sequence[Series], interval: Interval) -> bytes:
    """Return the same lines as a PNG picture, for pages without plotly."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure

    names = axes_of(series)
    figure = Figure(figsize=(9, 1.2 + 1.7 * len(names)), dpi=100, layout="constrained")
    panels = figure.subplots(len(names), sharex=True, squeeze=False)[:, 0]
    for number, line in enumerate(series):
        if line.points:
            axes = panels[names.index(line.axis)]
            points = _drawn(line, interval, POINTS_IN_PICTURE)
            axes.plot(
                [at for at, _ in points],
                [float("nan") if value is None else value for _, value in points],
                color=LINES[number % len(LINES)],
                linestyle=_PICTURE_DASHES[number % len(_PICTURE_DASHES)],
                marker=".",
                markersize=4,
                label=_plain(line.name),
            )
    for axes, name in zip(panels, names, strict=True):
        axes.set_ylabel(_plain(name))
        axes.grid(alpha=0.3)
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize="small")
    locator = AutoDateLocator(tz=UTC)
    panels[-1].set_xlim(interval.begin, interval.end)
    panels[-1].xaxis.set_major_locator(locator)
    panels[-1].xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))
    panels[-1].set_xlabel("time (UTC)")
    # The picture has a box for a missing glyph. A warning in the notebook would not help.
    warnings.filterwarnings("ignore", "Glyph ", UserWarning, __name__.replace(".", r"\."))
    written = io.BytesIO()
    figure.savefig(written, format="png")
    return written.getvalue()


def _plain(text: str) -> str:
    """Return a text that matplotlib interprets neither as a formula nor as a hidden legend entry."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


# Only the lines have colors; those of the page come from the style sheet, see ``theme.py``.
_LAYOUT = {
    "autosize": True,
    "height": PANEL_HEIGHT + FOOT,
    "margin": {"l": 64, "r": 16, "t": 12, "b": 44},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "hovermode": "closest",
    "uirevision": "kept",
    "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.01, "x": 0},
    "showlegend": True,
    "font": {"size": 12},
    "xaxis": {"type": "date", "title": {"text": "time (UTC)"}, "anchor": "y"},
}
_CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d"],
    # No upload button: device data must not be sent to a service of plotly.
    "showSendToCloud": False,
    "plotlyServerURL": "",
}


def _trace(number: int) -> go.Scatter:
    return go.Scatter(
        mode="lines+markers",
        connectgaps=False,
        line={"color": LINES[number], "dash": _DASHES[number]},
        marker={"color": LINES[number], "size": 4},
        visible=False,
    )


def _panels(names: Sequence[str]) -> tuple[int, str, dict[str, object]]:
    """Return the height, the value axis with the time axis, and the axes from top to bottom."""
    count = max(1, len(names))
    share = (1 - _BETWEEN * (count - 1)) / count
    axes: dict[str, object] = {}
    for number in range(count):
        bottom = 1 - share * (number + 1) - _BETWEEN * number
        axes[f"yaxis{_suffix(number)}"] = {
            "domain": [max(0.0, bottom), min(1.0, bottom + share)],
            "anchor": "x",
            "title": {"text": escape(names[number], quote=False) if names else ""},
            "autorange": True,
            "zeroline": False,
        }
    return PANEL_HEIGHT * count + FOOT, f"y{_suffix(count - 1)}", axes


def _suffix(number: int) -> str:
    return "" if number == 0 else str(number + 1)


def _trace_of(
    line: Series | None, interval: Interval | None, axes: Sequence[str], selected: SeriesKey | None
) -> dict[str, object]:
    """Return the properties of a trace. Texts of devices are in ``name`` and ``meta``, which are not templates."""
    if line is None or interval is None or not line.points:
        return {"visible": False, "x": [], "y": []}
    points = _drawn(line, interval, POINTS_DRAWN)
    name = escape(line.name, quote=False)
    return {
        "visible": True,
        "x": [_text(at) for at, _ in points],
        "y": [number for _, number in points],
        "name": name,
        "hovertemplate": _HOVER[time_precision(at for at, _ in points)],
        "meta": [name, escape(line.unit_text, quote=False)],
        "yaxis": f"y{_suffix(axes.index(line.axis))}",
        "line": {"width": 4 if selected == line.key else 1.6},
    }


def _drawn(line: Series, interval: Interval, most: int) -> list[tuple[datetime, float | None]]:
    """Return a bounded number of points, with ``None`` for breaks."""
    points: list[tuple[datetime, float | None]] = []
    thinned_points: Sequence[Point] = thinned(within(line.points, *interval), most)
    for point in thinned_points:
        if not point.is_connected and points:
            points.append((point.at, None))
        points.append((point.at, point.number))
    return points


def _text(at: datetime) -> str:
    # Not as a number, which plotly reads as a time in the zone of the browser.
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
