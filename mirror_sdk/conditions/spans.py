"""The intervals in which a condition is met as plots show them: split into known and unknown parts."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from mirror_sdk.conditions.evaluator import GroupState

GroupKey: TypeAlias = tuple[int, str, str | None]
"""The number of a condition, the device, and the path, which is ``None`` for a combination."""


class Span(NamedTuple):
    """A part of an interval in which a condition is met.

    Attributes:
        begin: When the part begins, in milliseconds since 1970.
        end: When the part ends, or ``None`` if it has not ended.
        is_known: Whether the condition is known to be met. If not, its state is unknown, for example during a gap.
    """

    begin: int
    end: int | None
    is_known: bool


class Spans:
    """The spans of conditions, which are extended with each state.

    Args:
        most: The maximum number of spans of a condition and resource. Only the newest ones are stored.
    """

    def __init__(self, most: int | None = None) -> None:
        self.by_group: defaultdict[GroupKey, deque[Span]] = defaultdict(lambda: deque(maxlen=most))

    def add(self, states: Iterable[GroupState]) -> None:
        """Add states, in the order of time."""
        for condition, device, path, at, state in states:
            spans = self.by_group[condition, device, path]
            is_open = bool(spans) and spans[-1].end is None
            if is_open:
                if state is (spans[-1].is_known or None):
                    continue
                last = spans.pop()
                # An unknown part without a duration is not visible. A value can be met only for a moment.
                if at > last.begin or last.is_known:
                    spans.append(last._replace(end=at))
            if state or (is_open and state is None):
                spans.append(Span(at, None, bool(state)))

    def copy(self) -> Spans:
        """Return a copy, which can be extended separately."""
        copied = Spans()
        copied.by_group.update({key: deque(spans, spans.maxlen) for key, spans in self.by_group.items()})
        return copied
