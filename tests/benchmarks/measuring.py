"""The results of a benchmark: figures with their goals, from sides that were measured alternately."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

Samples = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound for a figure; see :func:`at_least` and :func:`at_most`."""

    bound: float
    is_lower: bool

    def met_by(self, value: float) -> bool:
        return value >= self.bound if self.is_lower else value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.is_lower else '<='} {self.bound:g}"


def at_least(bound: float) -> Goal:
    return Goal(bound, is_lower=True)


def at_most(bound: float) -> Goal:
    return Goal(bound, is_lower=False)


@dataclass(frozen=True, slots=True)
class Figure:
    """A line of the table: ``value`` in ``unit`` (``x`` for a ratio), and its samples."""

    benchmark: str
    what: str
    value: float
    unit: str
    goal: Goal | None = None
    sides: Mapping[str, float] = field(default_factory=dict)
    side_unit: str = ""
    samples: Samples = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        return None if self.goal is None else self.goal.met_by(self.value)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"goal": None if self.goal is None else str(self.goal), "met": self.met}


def alternate(sides: Mapping[str, Callable[[], float]], rounds: int) -> Samples:
    """Measure each side once to warm up, then ``rounds`` times in turn; every other round is in reverse order."""
    for measure in sides.values():
        measure()
    samples: Samples = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides)[:: -1 if number % 2 else 1]:
            samples[name].append(sides[name]())
    return samples


def ratio(
    benchmark: str, what: str, samples: Samples, ours: str, theirs: str, unit: str, goal: Goal | None = None
) -> Figure:
    """Return the median of ``ours / theirs`` over all rounds. A slow machine affects both sides of a round alike."""
    value = statistics.median(a / b for a, b in zip(samples[ours], samples[theirs], strict=True))
    sides = {name: statistics.median(samples[name]) for name in (ours, theirs)}
    side_samples = {name: samples[name] for name in (ours, theirs)}
    return Figure(benchmark, what, value, "x", goal, sides, unit, side_samples)


def in_requests(benchmark: str, what: str, milliseconds: float, request_ms: list[float], goal: Goal) -> Figure:
    """Return a time as a number of sequential bare requests, which makes it comparable between machines."""
    request = statistics.median(request_ms)
    sides = {"time": milliseconds, "request": request}
    side_samples = {"time": [milliseconds], "request": request_ms}
    return Figure(benchmark, f"{what} / bare request", milliseconds / request, "x", goal, sides, "ms", side_samples)


def median(benchmark: str, what: str, samples: list[float], unit: str, goal: Goal | None = None) -> Figure:
    """Return the median of the samples of one side."""
    return Figure(benchmark, what, statistics.median(samples), unit, goal, samples={"": samples})


def percentile(values: list[float], share: float) -> float:
    """Return the value that ``share`` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
