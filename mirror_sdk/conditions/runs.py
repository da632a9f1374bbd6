"""The state of one test over time: true, false or unknown, and the interval in which it is true."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mirror_sdk.conditions.clause import Clause, Scalar


@dataclass(slots=True)
class StateRun:
    """The current or the last interval in which a state is true. All times are in milliseconds.

    Attributes:
        state: The current state. ``None`` means unknown.
        begin: When the interval began.
        repeats: How many earlier intervals began at the same time.
        is_open: Whether the interval has not ended.
        hidden: The unknown time in the interval, up to the last time at which the state was known.
        gap: Whether the interval contains unknown time, or unknown time directly precedes it.
        since: When the current state was set.
    """

    state: bool | None = None
    begin: int = -1
    repeats: int = 0
    is_open: bool = False
    hidden: int = 0
    gap: bool = False
    since: int = -1

    def set(self, at: int, state: bool | None) -> None:
        """Set the state from a time on."""
        if state == self.state:
            return
        if state is None:
            self.gap |= self.is_open
        elif self.is_open:
            self.hidden = self.hidden_until(at)
            self.is_open = state
        elif state:
            self.repeats = self.repeats + 1 if at == self.begin else 0
            self.begin, self.is_open, self.hidden, self.gap = at, True, 0, self.state is None
        self.state, self.since = state, at

    def hidden_until(self, at: int) -> int:
        """Return the unknown time in the interval up to a time."""
        return self.hidden + (max(at - self.since, 0) if self.is_open and self.state is None else 0)

    def dump(self) -> list[Any]:
        """Return the content for JSON."""
        return [getattr(self, name) for name in StateRun.__slots__]


class ClauseRun:
    """A clause of one resource.

    Attributes:
        clause: The clause.
        key: The number of the clause in its condition, and the path of the resource.
        scheduled: The time at which the deadline is checked next, or ``None`` if it is not scheduled.
        run: The interval in which the test is met.
        value: The newest reported value, or ``None`` if none was reported or it is unreadable.
        desired: The desired value, or ``None`` if it is unknown.
        extreme: The most extreme number since the interval began.
        is_active: Whether the test has been met for the duration of the clause.
    """

    __slots__ = ("_known", "clause", "desired", "extreme", "is_active", "key", "run", "scheduled", "value")

    def __init__(self, clause: Clause, key: tuple[int, str]) -> None:
        self.clause: Clause = clause
        self.key: tuple[int, str] = key
        self.scheduled: int | None = None
        self.run: StateRun = StateRun()
        self.value: Scalar | None = None
        self.desired: Scalar | None = None
        self.extreme: float | None = None
        self.is_active: bool = False
        # The time for which the test has been met, without unknown time, up to the start of the current state.
        self._known = 0

    @property
    def state(self) -> bool | None:
        """Whether the clause is met."""
        return None if self.run.state is None else self.is_active

    @property
    def deadline(self) -> int | None:
        """The time from which the clause is met if the value stays the same, or ``None`` if there is no such time."""
        if self.run.state and not self.is_active:
            return self.run.since + self.clause.duration - self._known
        return None

    def report(self, at: int, value: Scalar | None, since: int | None = None) -> Iterator[None]:
        """Accept a reported value, and yield after each change of the state.

        Args:
            at: The time from which the value counts.
            value: The value.
            since: When a current value of a state was reported.
        """
        before, self.value = self.value, value
        match self.clause.test:
            case "silent":
                # A state that is read after a gap may contain the same report.
                if since is None or (self.run.is_open and self.run.begin < since):
                    yield from self._set(at, False)
                yield from self._set(at, True, since)
            case "changed":
                # A value that differs from the one before a gap has certainly changed.
                if value is not None and before is not None and not _equal(before, value):
                    yield from self._set(at, True)
                if value is None:
                    self.value = before
                yield from self._set(at, None if value is None else False)
            case "differs":
                yield from self._compare(at)
            case _:
                met = None if value is None else self.clause.is_met(value, is_active=self.is_active)
                if met and isinstance(value, float) and self.clause.test != "equals":
                    extreme = self.extreme if self.run.is_open else None
                    self.extreme = value if extreme is None or self.clause.exceeds(value, extreme) else extreme
                yield from self._set(at, met)

    def desire(self, at: int, value: Scalar | None) -> Iterator[None]:
        """Accept a desired value, and yield after a change of the state."""
        # The watch reads the desired values again and again.
        if _equal(self.desired, value):
            return
        self.desired = value
        if self.clause.test == "differs":
            # Another desired value starts another difference.
            if self.run.state:
                yield from self._set(at, False)
            yield from self._compare(at)

    def lose(self, at: int, *, is_gap: bool) -> Iterator[None]:
        """Forget the state, because a gap begins or the device is no longer registered."""
        # A device that is not registered is certainly silent.
        if is_gap or self.clause.test != "silent":
            yield from self._set(at, None)

    def resume(self, at: int) -> Iterator[None]:
        """End a gap. From now on, a silence is noticed again."""
        if self.clause.test == "silent" and self.run.begin >= 0:
            yield from self._set(at, True)

    def _compare(self, at: int) -> Iterator[None]:
        is_known = self.value is not None and self.desired is not None
        yield from self._set(at, not _equal(self.value, self.desired) if is_known else None)

    def _set(self, at: int, state: bool | None, since: int | None = None) -> Iterator[None]:
        if state == self.run.state:
            return
        if self.run.state:
            self._known += max(at - self.run.since, 0)
        is_new = not self.run.is_open
        self.run.set(at, state)
        if state is False:
            self._known, self.is_active = 0, False
        if since is not None and is_new:
            self.run.begin = min(since, at)
            self._known = at - self.run.begin
        self.is_active |= bool(state) and self._known >= self.clause.duration
        yield

    def dump(self) -> list[Any]:
        """Return the content for JSON."""
        return [self.run.dump(), self.value, self.desired, self.extreme, self.is_active, self._known]

    def load(self, content: Sequence[Any]) -> None:
        """Restore the content of :meth:`dump`."""
        run, self.value, self.desired, self.extreme, self.is_active, self._known = content
        self.run = StateRun(*run)


def _equal(one: Scalar | None, other: Scalar | None) -> bool:
    return type(one) is type(other) and one == other
