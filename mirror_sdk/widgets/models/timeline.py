"""The parts of a chart that are not lines: states over time, intervals without data, and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from mirror_sdk.events import Event, EventKind
from mirror_sdk.values import ValueKind
from mirror_sdk.widgets.models.lines import SeriesKey
from mirror_sdk.widgets.models.status import Tone
from mirror_sdk.wire.paths import matches

MAX_SPANS = 500
MAX_SHADES = 200
MAX_MARKERS = 200
_STATES = frozenset({ValueKind.BOOLEAN, ValueKind.TEXT, ValueKind.OBJLINK})
_NUMBERS = frozenset({int, float})
LARGEST_PLOTTED = 1e100
"""The largest number that is plotted.

Near the largest float, the axis range of matplotlib overflows.
"""


class ColoredSpan(NamedTuple):
    """A state from ``begin`` to ``end``.

    ``end`` is ``None`` while the state lasts. ``color`` is ``None`` for the value false.
    """

    begin: datetime
    end: datetime | None
    text: str
    color: int | None


@dataclass(frozen=True, slots=True)
class StateRow:
    """The states of a resource, sorted by time. The value of a state is a boolean or a string."""

    key: SeriesKey
    name: str
    spans: Sequence[ColoredSpan]


class Shade(NamedTuple):
    """An interval without data, which is a loss (``gap``) or the absence of a device (``offline``)."""

    kind: str
    begin: datetime
    end: datetime | None
    text: str


class Marker(NamedTuple):
    """A write and its outcome."""

    at: datetime
    text: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class CompletedWrite:
    """A completed write in the history of the service.

    ``category`` is the reason of a failure, and empty for a successful write.
    """

    device_id: str
    path: str
    at: datetime
    value: str
    category: str


@dataclass(frozen=True, slots=True)
class Threshold:
    """A level that is drawn for the lines of some paths, such as ``/3303/*``."""

    pattern: str
    level: float

    def concerns(self, key: SeriesKey) -> bool:
        """Return whether the level applies to a line."""
        return matches(self.pattern, key.path)


def time_of(event: Event) -> datetime:
    """Return the time at which the event happened."""
    return event.changed_at or event.received_at


def is_state(event: Event) -> bool:
    """Return whether the value of an observation is a state, which means a boolean or a string."""
    return event.kind is EventKind.OBSERVATION and event.value is not None and event.value.kind in _STATES


def number_of(event: Event) -> float | None:
    """Return the number of an observation.

    The result is ``None`` if the observation has no number that can be plotted.
    """
    value = event.value
    if event.kind is not EventKind.OBSERVATION or value is None:
        return None
    number = value.python
    if type(number) not in _NUMBERS or not isinstance(number, int | float):
        return None
    return float(number) if abs(number) <= LARGEST_PLOTTED else None
