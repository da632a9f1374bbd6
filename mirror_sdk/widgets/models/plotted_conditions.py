"""Conditions in the event watcher's plot: their limits, and the intervals in which they are met."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter

from mirror_sdk.conditions import Condition
from mirror_sdk.conditions.clause import Scalar
from mirror_sdk.conditions.coverage import checked_conditions
from mirror_sdk.conditions.evaluator import Evaluator, GroupState, Row, RowKind
from mirror_sdk.conditions.live import scalar_of
from mirror_sdk.conditions.spans import GroupKey, Span, Spans
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import Event, EventKind
from mirror_sdk.values import ValueKind
from mirror_sdk.widgets.models.lines import SeriesKey
from mirror_sdk.widgets.models.past_values import milliseconds

MAX_SPANS = 200
"""The maximum number of spans of a condition and resource."""
_REPORTS = frozenset({EventKind.OBSERVATION, EventKind.ASYNC_RESPONSE})
_time = attrgetter("at")


@dataclass(frozen=True, slots=True)
class PlottedCondition:
    """A condition of one resource, or a combination of one device.

    Attributes:
        condition: The text of the condition.
        number: The number of the condition.
        name: The name of the resource or, for a combination, of the device.
        limits: The plotted series to which it belongs, each with the limits for its values.
        spans: The newest spans in which it is met. The last one has no end if it is still met.
    """

    condition: str
    number: int
    name: str
    limits: Mapping[SeriesKey, Sequence[float]]
    spans: Sequence[Span]


def plottable_conditions(conditions: Iterable[Condition | str]) -> tuple[Condition, ...]:
    """Return the conditions of an event watcher.

    Raises:
        InvalidValue: A string is not a condition, or a condition needs desired values.
        TypeError: The argument is not a list of conditions.
    """
    found = tuple(checked_conditions(conditions))
    for condition in found:
        if any(clause.test == "differs" for clause in condition.clauses):
            raise InvalidValue(
                f"conditions: {str(condition)!r} needs desired values, which events do not have;"
                " use condition.intervals(client.history(...))"
            )
    return found


class ConditionTracker:
    """An evaluation of conditions for some series, by the time at which their values changed.

    Each device has its own evaluation, because the clocks of devices differ.

    Args:
        conditions: The conditions.
        keys: The plotted series. Only their devices are evaluated.
        most: The maximum number of rows that are stored for each device.
    """

    def __init__(self, conditions: Sequence[Condition], keys: Iterable[SeriesKey], most: int) -> None:
        self._conditions = conditions
        self._limits = _limits(conditions, keys)
        self._devices = {device: _DeviceEvaluation(conditions, most) for _, device, _ in self._limits}
        self._is_tested: dict[str, bool] = {}

    def lose(self, device: str | None, at: datetime) -> None:
        """Note that the values of a device or, without a device, of all devices become unknown."""
        self._add(device, milliseconds(at), RowKind.GAP if device is None else RowKind.ABSENT)

    def resume(self, at: datetime) -> None:
        """Note the end of a loss of events."""
        self._add(None, milliseconds(at), RowKind.GAP_END)

    def report(self, event: Event, at: datetime) -> None:
        """Note a value of a device."""
        path, value = event.path or "", event.value
        if event.device_id not in self._devices or value is None or value.kind is ValueKind.NONE:
            return
        if path not in self._is_tested:
            self._is_tested[path] = any(clause.matches(path) for one in self._conditions for clause in one.clauses)
        if self._is_tested[path] and event.kind in _REPORTS:
            self._add(event.device_id, milliseconds(at), RowKind.REPORTED, path, scalar_of(value))

    def _add(self, device: str | None, at: int, kind: RowKind, path: str = "", value: Scalar | None = None) -> None:
        for one in self._devices if device is None else {device} & self._devices.keys():
            self._devices[one].add(Row(at, kind, one, path, value))

    def plotted(
        self, names: Mapping[SeriesKey, str], device_names: Mapping[str, str], until: datetime
    ) -> list[PlottedCondition]:
        """Return the conditions up to a time."""
        spans = {device: one.spans(milliseconds(until)).by_group for device, one in self._devices.items()}
        return [
            PlottedCondition(
                str(self._conditions[number]),
                number,
                names[next(iter(limits))] if path else device_names.get(device, device),
                limits,
                tuple(spans[device].get((number, device, path), ())),
            )
            for (number, device, path), limits in self._limits.items()
        ]


def _limits(
    conditions: Sequence[Condition], keys: Iterable[SeriesKey]
) -> dict[GroupKey, dict[SeriesKey, Sequence[float]]]:
    """Return the series of each condition, with the limits for their values."""
    found: dict[GroupKey, dict[SeriesKey, Sequence[float]]] = {}
    for key in keys:
        for number, condition in enumerate(conditions):
            matching = [clause for clause in condition.clauses if clause.matches(key.path)]
            if matching:
                path = key.path if len(condition.clauses) == 1 else None
                levels = [level for clause in matching for level in clause.limits]
                found.setdefault((number, key.device_id, path), {})[key] = levels
    return found


class _DeviceEvaluation:
    """The evaluation of conditions for one device."""

    def __init__(self, conditions: Sequence[Condition], most: int) -> None:
        self._conditions = conditions
        self._most = most
        self._rows: list[Row] = []
        self._read = 0
        self._restart()

    def add(self, row: Row) -> None:
        """Add a row. Rows may arrive in any order."""
        if self._rows and row.at < self._rows[-1].at:
            insort(self._rows, row, key=_time)
            # The evaluation needs its rows in order.
            self._restart()
        else:
            self._rows.append(row)
        if len(self._rows) > 2 * self._most:
            del self._rows[: self._most]
            self._read = max(0, self._read - self._most)

    def _restart(self) -> None:
        self._states: list[GroupState] = []
        self._evaluator = self._new_evaluator(self._states)
        self._spans = Spans(MAX_SPANS)
        self._read = 0

    def _new_evaluator(self, states: list[GroupState]) -> Evaluator:
        return Evaluator([one.expression for one in self._conditions], states)

    def spans(self, until: int) -> Spans:
        """Return the spans up to a time."""
        for row in self._rows[self._read :]:
            # The changes are not needed, because the evaluator notes the states.
            deque(self._evaluator.feed(row), maxlen=0)
        self._read = len(self._rows)
        self._spans.add(self._states)
        self._states.clear()
        deadline = self._evaluator.next_deadline
        if deadline is None or deadline > until:
            return self._spans
        # The evaluation itself does not continue up to this time, because earlier rows may still arrive.
        states: list[GroupState] = []
        evaluator = self._new_evaluator(states)
        evaluator.load(self._evaluator.dump())
        deque(evaluator.advance(until), maxlen=0)
        spans = self._spans.copy()
        spans.add(states)
        return spans
