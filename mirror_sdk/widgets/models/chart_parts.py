"""The parts of the event watcher's plot, which are extended with each event."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from mirror_sdk.conditions import Condition
from mirror_sdk.events import Event, EventKind
from mirror_sdk.frames.plot_legend import label_of
from mirror_sdk.values import ValueKind
from mirror_sdk.widgets.models.formatting import format_count, format_value
from mirror_sdk.widgets.models.lines import Series, SeriesKey, after_silence, is_set_point
from mirror_sdk.widgets.models.plotted_conditions import ConditionTracker, PlottedCondition
from mirror_sdk.widgets.models.status import Tone
from mirror_sdk.widgets.models.timeline import (
    MAX_MARKERS,
    MAX_SHADES,
    MAX_SPANS,
    ColoredSpan,
    CompletedWrite,
    Marker,
    Shade,
    StateRow,
    is_state,
    number_of,
    time_of,
)
from mirror_sdk.wire.log_entries import count_missing

_LEFT = frozenset({EventKind.DEREGISTRATION, EventKind.EXPIRED})


@dataclass(frozen=True, slots=True)
class ChartParts:
    """The parts that a plot displays."""

    lines: Sequence[Series]
    states: Sequence[StateRow]
    shades: Sequence[Shade]
    markers: Sequence[Marker]
    conditions: Sequence[PlottedCondition] = ()


class _GrowingLine:
    """The points of a line, in the order of their arrival."""

    def __init__(self, most: int) -> None:
        self.at: deque[float] = deque(maxlen=most)
        self.numbers: deque[float] = deque(maxlen=most)
        self.is_connected: deque[bool] = deque(maxlen=most)
        self.is_broken = False

    def add(self, at: datetime, number: float) -> None:
        self.at.append(at.timestamp() * 1000)
        self.numbers.append(number)
        self.is_connected.append(not self.is_broken)
        self.is_broken = False


class ChartBuilder:
    """A builder that collects the parts of a plot, event by event.

    Args:
        lines: The plotted resources that have numbers.
        states: The plotted resources that have states.
        most: The maximum number of points of a line.
        conditions: The conditions to show.
    """

    def __init__(
        self,
        lines: Iterable[SeriesKey],
        states: Iterable[SeriesKey],
        most: int,
        conditions: Sequence[Condition] = (),
    ) -> None:
        self._lines = {key: _GrowingLine(most) for key in lines}
        self._spans: dict[SeriesKey, deque[ColoredSpan]] = {key: deque(maxlen=MAX_SPANS) for key in states}
        self._devices = {key.device_id for key in (*self._lines, *self._spans)}
        self._colors: dict[tuple[SeriesKey, str], int] = {}
        self._shades: dict[int, Shade] = {}
        self._left: dict[str, int] = {}
        self._gap: int | None = None
        self._before: datetime | None = None
        self._outcomes: deque[Event] = deque(maxlen=MAX_MARKERS)
        self._conditions = ConditionTracker(conditions, (*self._lines, *self._spans), most)

    def add(self, event: Event) -> None:
        """Add an event, in the order of the log."""
        at = time_of(event)
        if event.kind is EventKind.GAP:
            self._break(None, at)
            begin = at if self._before is None else min(at, self._before)
            self._gap = self._add_shade(Shade("gap", begin, at, _loss_text(event)))
            self._conditions.lose(None, begin)
            return
        if self._gap is not None:
            self._end_shade(self._gap, at)
            self._conditions.resume(at)
            self._gap = None
        self._before = at
        device = event.device_id or ""
        if device not in self._devices:
            return
        if event.kind in _LEFT:
            self._break(device, at)
            self._left[device] = self._add_shade(Shade("offline", at, None, device))
            self._conditions.lose(device, at)
            return
        if device in self._left:
            self._end_shade(self._left.pop(device), at)
        self._conditions.report(event, at)
        if event.kind is EventKind.ASYNC_RESPONSE:
            if event.path and (event.value is None or event.value.kind is ValueKind.NONE):
                self._outcomes.append(event)
            return
        key = SeriesKey(device, event.path or "")
        line, number = self._lines.get(key), number_of(event)
        if line is not None and number is not None:
            line.add(at, number)
        elif key in self._spans and is_state(event):
            self._add_state(key, event, at)

    def parts(
        self,
        names: Mapping[SeriesKey, str],
        units: Mapping[SeriesKey, str],
        device_names: Mapping[str, str],
        writes: Iterable[CompletedWrite],
        now: datetime | None = None,
    ) -> ChartParts:
        """Return the parts of the plot.

        Args:
            names: The names of the resources.
            units: The unit codes of the resources.
            device_names: The names of the devices.
            writes: The completed writes in the history of the service.
            now: The time up to which conditions are evaluated. The default is the time of the newest event.
        """
        until = max((at for at in (now, self._before) if at is not None), default=None)
        return ChartParts(
            [self._series(key, names[key], units.get(key, "")) for key in self._lines],
            [StateRow(key, names[key], list(spans)) for key, spans in self._spans.items()],
            [self._named(shade, device_names) for shade in self._shades.values()],
            self._markers(device_names, writes),
            [] if until is None else self._conditions.plotted(names, device_names, until),
        )

    def _series(self, key: SeriesKey, name: str, unit: str) -> Series:
        line = self._lines[key]
        at, numbers = np.array(line.at, dtype=float), np.array(line.numbers, dtype=float)
        is_connected = np.array(line.is_connected, dtype=bool)
        if np.any(np.diff(at) < 0):
            order = np.argsort(at, kind="stable")
            at, numbers, is_connected = at[order], numbers[order], is_connected[order]
        # A set point may be reported only when it changes, so its line has no breaks.
        if not is_set_point(key.path):
            is_connected &= ~after_silence(at)
        return Series(key, name, unit, at, numbers, is_connected)

    def _break(self, device: str | None, at: datetime) -> None:
        for key, line in self._lines.items():
            line.is_broken |= device is None or key.device_id == device
        for key, spans in self._spans.items():
            if device is None or key.device_id == device:
                _end(spans, at)

    def _add_state(self, key: SeriesKey, event: Event, at: datetime) -> None:
        spans, value = self._spans[key], event.value
        if value is None:
            return
        text = format_value(value)
        if spans and spans[-1].end is None:
            # A late value does not change the order of the states.
            if spans[-1].text == text or at < spans[-1].begin:
                return
            _end(spans, at)
        color = None
        if value.python is not False:
            color = self._colors.setdefault((key, text), sum(one == key for one, _ in self._colors))
        spans.append(ColoredSpan(at, None, text, color))

    def _add_shade(self, shade: Shade) -> int:
        number = next(reversed(self._shades), -1) + 1
        self._shades[number] = shade
        if len(self._shades) > MAX_SHADES:
            del self._shades[next(iter(self._shades))]
        return number

    def _end_shade(self, number: int, at: datetime) -> None:
        shade = self._shades.get(number)
        if shade is not None:
            self._shades[number] = shade._replace(end=max(at, shade.begin))

    def _named(self, shade: Shade, device_names: Mapping[str, str]) -> Shade:
        if shade.kind == "gap":
            return shade
        return shade._replace(text=f"{device_names.get(shade.text, shade.text)} offline")

    def _markers(self, device_names: Mapping[str, str], writes: Iterable[CompletedWrite]) -> list[Marker]:
        def marker(device: str, path: str, at: datetime, value: str, category: str) -> Marker:
            target = f"{device_names.get(device, device)} {label_of(path)}"
            what = f"{target} written: {value}" if value else f"{target} written"
            outcome = f"failed: {category}" if category else "success"
            return Marker(at, f"{what}, {outcome}", Tone.BAD if category else Tone.GOOD)

        selected = [one for one in writes if one.device_id in self._devices]
        found = [marker(one.device_id, one.path, one.at, one.value, one.category) for one in selected]
        # The history has all writes. The log has only the outcomes of requests, and the outcome of a write has no
        # value.
        in_history = {(one.device_id, one.path) for one in selected}
        for event in self._outcomes:
            device, path = event.device_id or "", event.path or ""
            if (device, path) not in in_history:
                found.append(marker(device, path, time_of(event), "", event.category or ""))
        return sorted(found, key=lambda one: one.at)[-MAX_MARKERS:]


def _loss_text(event: Event) -> str:
    missing = count_missing(event.first_seq, event.seq)
    return "An unknown number of events were lost" if missing is None else f"{format_count(missing, 'event')} lost"


def _end(spans: deque[ColoredSpan], at: datetime) -> None:
    if spans and spans[-1].end is None:
        spans[-1] = spans[-1]._replace(end=max(at, spans[-1].begin))
