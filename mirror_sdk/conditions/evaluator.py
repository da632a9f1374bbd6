"""The evaluation of conditions on a stream of rows in the order of time.

Nothing in this module performs I/O or reads a clock. Tables and the live form use it in the same way, so both have the
same result.
"""

from __future__ import annotations

import hashlib
import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple

from mirror_sdk.conditions.alarm import AlarmKind
from mirror_sdk.conditions.clause import Clause, Scalar
from mirror_sdk.conditions.grammar import Expression, clauses_of, format_expression
from mirror_sdk.conditions.runs import ClauseRun, StateRun

_OF_TYPES = ("above", "below", "equals", "outside")
"""The tests that do not apply to all types of values."""


class RowKind(Enum):
    """The kind of a row."""

    REPORTED = auto()
    DESIRED = auto()
    ABSENT = auto()
    """The device deregistered, or its registration expired."""
    GAP = auto()
    """A gap begins, for one device or, without a device, for all."""
    GAP_END = auto()


class Row(NamedTuple):
    """One event. The time is in milliseconds since 1970. ``value`` is ``None`` if it cannot be read.

    ``since`` is set for a current value of a state. It is the time at which this value was reported.
    """

    at: int
    kind: RowKind
    device: str | None = None
    path: str = ""
    value: Scalar | None = None
    since: int | None = None


class Change(NamedTuple):
    """The start or the end of an interval; see :class:`mirror_sdk.conditions.Alarm`. Times are in milliseconds."""

    kind: AlarmKind
    condition: int
    device: str
    path: str | None
    at: int
    begin: int
    repeats: int
    value: Scalar | None
    extreme: float | None
    hidden: int
    gap: bool


class GroupState(NamedTuple):
    """The state of a condition from a time on: whether it is met, or ``None`` if this is unknown."""

    condition: int
    device: str
    path: str | None
    at: int
    state: bool | None


class Mismatch(NamedTuple):
    """A value of a type to which a test does not apply."""

    condition: int
    device: str
    path: str
    value: Scalar


class Evaluator:
    """The evaluation of conditions.

    Args:
        conditions: The expressions of the conditions.
        states: A list to which each state of a condition is added. A state may be added again while it lasts.

    Attributes:
        now: The time up to which the conditions were evaluated.
        mismatches: The first value of each resource to which a test does not apply. A caller may clear the list.
    """

    def __init__(self, conditions: Sequence[Expression], states: list[GroupState] | None = None) -> None:
        self.now: int = -1
        self._states = states
        self.mismatches: list[Mismatch] = []
        self._conditions = conditions
        self._groups: dict[tuple[int, str, str], _Group] = {}
        self._by_device: defaultdict[str, list[_Group]] = defaultdict(list)
        self._resources: dict[tuple[str, str], list[tuple[_Group, ClauseRun]]] = {}
        self._deadlines: list[tuple[int, tuple[int, str, str], tuple[int, str]]] = []
        self._mismatched: set[tuple[int, str, str]] = set()

    def feed(self, row: Row) -> Iterator[Change]:
        """Evaluate a row. If its time is before :attr:`now`, it counts from :attr:`now` on."""
        yield from self.advance(row.at)
        at = self.now
        if row.kind in (RowKind.REPORTED, RowKind.DESIRED):
            yield from self._feed_value(at, row)
            return
        groups = self._groups.values() if row.device is None else self._by_device.get(row.device, ())
        for group in groups:
            for one in group.runs.values():
                is_end, is_gap = row.kind is RowKind.GAP_END, row.kind is RowKind.GAP
                yield from self._settle(group, one, at, one.resume(at) if is_end else one.lose(at, is_gap=is_gap))

    def advance(self, now: int) -> Iterator[Change]:
        """Note that all rows before this time were fed."""
        # The scheduled time is never later than the deadline, and this check is fast.
        while self._deadlines and self._deadlines[0][0] <= now:
            at = self.next_deadline
            if at is None or at > now:
                break
            _, group_key, run_key = heapq.heappop(self._deadlines)
            group = self._groups[group_key]
            one = group.runs[run_key]
            self.now, one.scheduled, one.is_active = at, None, True
            yield from group.settle(at, one)
        self.now = max(self.now, now)

    @property
    def next_deadline(self) -> int | None:
        """The time at which the result may change without a row, or ``None`` if there is no such time."""
        while self._deadlines:
            at, group_key, run_key = self._deadlines[0]
            one = self._groups[group_key].runs[run_key]
            if one.deadline == at:
                return at
            # The state has changed since, and the deadline with it.
            heapq.heappop(self._deadlines)
            one.scheduled = None
            self._schedule(self._groups[group_key], one)
        return None

    def open_intervals(self) -> Iterator[Change]:
        """Yield the start of each interval that has not ended, with the values of the present."""
        for key in sorted(self._groups):
            if self._groups[key].is_open:
                yield self._groups[key].change(AlarmKind.STARTED, self.now)

    def alarm_id(self, change: Change) -> str:
        """Return the id of an interval; see :attr:`mirror_sdk.conditions.Alarm.id`."""
        text = format_expression(self._conditions[change.condition])
        parts = (text, change.device, change.path or "", change.begin, change.repeats)
        return hashlib.sha256("\n".join(map(str, parts)).encode(errors="backslashreplace")).hexdigest()[:20]

    def dump(self) -> dict[str, Any]:
        """Return the state for JSON."""
        return {"now": self.now, "groups": [[list(key), group.dump()] for key, group in self._groups.items()]}

    def load(self, content: Mapping[str, Any]) -> None:
        """Restore the state of :meth:`dump`, of an evaluator with the same conditions."""
        self.now = content["now"]
        for (condition, device, path), (is_open, run, runs) in content["groups"]:
            group = self._group(condition, device, path)
            group.is_open, group.run = is_open, StateRun(*run)
            for index, of_path, state in runs:
                one = self._add_run(group, index, of_path)
                one.load(state)
                self._schedule(group, one)

    def _feed_value(self, at: int, row: Row) -> Iterator[Change]:
        if row.device is None:
            return
        for group, one in self._runs_of(row.device, row.path):
            is_report = row.kind is RowKind.REPORTED
            steps = one.report(at, row.value, row.since) if is_report else one.desire(at, row.value)
            yield from self._settle(group, one, at, steps)
            if is_report and one.run.state is None and row.value is not None:
                self._note_mismatch(group, one, row, row.value)

    def _settle(self, group: _Group, one: ClauseRun, at: int, steps: Iterator[None]) -> Iterator[Change]:
        for _ in steps:
            yield from group.settle(at, one)
            self._schedule(group, one)

    def _schedule(self, group: _Group, one: ClauseRun) -> None:
        """Schedule the deadline, unless an earlier time is scheduled, at which it is checked again."""
        deadline = one.deadline
        if deadline is not None and (one.scheduled is None or deadline < one.scheduled):
            one.scheduled = deadline
            heapq.heappush(self._deadlines, (deadline, group.key, one.key))

    def _runs_of(self, device: str, path: str) -> list[tuple[_Group, ClauseRun]]:
        """Return the clauses that apply to a resource, and the groups to which they belong."""
        found = self._resources.get((device, path))
        if found is None:
            found = self._resources[device, path] = []
            for number, condition in enumerate(self._conditions):
                clauses = clauses_of(condition)
                for index, one in enumerate(clauses):
                    if one.matches(path):
                        group = self._group(number, device, path if len(clauses) == 1 else "")
                        found.append((group, self._add_run(group, index, path)))
        return found

    def _group(self, condition: int, device: str, path: str) -> _Group:
        key = (condition, device, path)
        if key not in self._groups:
            self._groups[key] = _Group(key, self._conditions[condition], self._states)
            self._by_device[device].append(self._groups[key])
        return self._groups[key]

    def _add_run(self, group: _Group, index: int, path: str) -> ClauseRun:
        if (index, path) not in group.runs:
            group.runs[index, path] = ClauseRun(group.clauses[index], (index, path))
        return group.runs[index, path]

    def _note_mismatch(self, group: _Group, one: ClauseRun, row: Row, value: Scalar) -> None:
        key = (group.key[0], row.device or "", row.path)
        if one.clause.test in _OF_TYPES and key not in self._mismatched:
            self._mismatched.add(key)
            self.mismatches.append(Mismatch(*key, value))


class _Group:
    """A condition of one resource, or a combination of one device.

    Attributes:
        key: The number of the condition, the device, and the path, which is empty for a combination.
        clauses: The clauses of the condition.
        runs: The state of each clause and resource.
        run: The interval in which a combination is met.
        is_open: Whether the start of an interval was reported, but not its end.
    """

    __slots__ = ("_expression", "_noted", "clauses", "is_open", "key", "run", "runs")

    def __init__(self, key: tuple[int, str, str], expression: Expression, noted: list[GroupState] | None) -> None:
        self.key = key
        self._expression = expression
        self._noted = noted
        self.clauses = clauses_of(expression)
        self.runs: dict[tuple[int, str], ClauseRun] = {}
        self.run = StateRun()
        self.is_open = False

    def settle(self, at: int, one: ClauseRun) -> Iterator[Change]:
        """Compute the state after a change of one of the clauses, and yield the start or the end of an interval."""
        is_single = isinstance(self._expression, Clause)
        state = one.state if is_single else _evaluate(self._expression, self._states())
        if not is_single:
            self.run.set(at, state)
        if self._noted is not None:
            condition, device, path = self.key
            self._noted.append(GroupState(condition, device, path or None, at, state))
        if state is not None and state != self.is_open:
            self.is_open = state
            yield self.change(AlarmKind.STARTED if state else AlarmKind.ENDED, at)

    def change(self, kind: AlarmKind, at: int) -> Change:
        """Return the start or the end of the current interval."""
        condition, device, path = self.key
        one = next(iter(self.runs.values())) if isinstance(self._expression, Clause) else None
        run, value, extreme = (self.run, None, None) if one is None else (one.run, one.value, one.extreme)
        hidden = run.hidden_until(at)
        return Change(
            kind, condition, device, path or None, at, run.begin, run.repeats, value, extreme, hidden, run.gap
        )

    def dump(self) -> list[Any]:
        """Return the content for JSON."""
        return [self.is_open, self.run.dump(), [[*key, one.dump()] for key, one in self.runs.items()]]

    def _states(self) -> Iterator[bool | None]:
        """Yield the state of each clause: whether at least one of its resources meets it."""
        for index in range(len(self.clauses)):
            yield _any(one.state for (of, _), one in self.runs.items() if of == index)


def _evaluate(expression: Expression, states: Iterator[bool | None]) -> bool | None:
    """Return the state of an expression, for the states of its clauses in the order of the text."""
    if isinstance(expression, Clause):
        return next(states)
    # All parts are evaluated, because each of them consumes its states.
    parts = [_evaluate(part, states) for part in expression.parts]
    return _any(parts) if expression.operator == "|" else _all(parts)


def _any(states: Iterable[bool | None]) -> bool | None:
    """Return the disjunction in Kleene's logic. It is unknown if there are no states."""
    found = set(states)
    return True if True in found else None if None in found or not found else False


def _all(states: Iterable[bool | None]) -> bool | None:
    """Return the conjunction in Kleene's logic."""
    found = set(states)
    return False if False in found else None if None in found else True
