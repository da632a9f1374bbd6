"""Conditions in plots: their limits as lines, and the intervals in which they are met as shaded spans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from mirror_sdk.errors import InvalidValue

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_DAY = 86_400_000
CONDITION_COLORS = ("#c27c00", "#7a4fc0", "#1f8a9c", "#c2457a", "#6b8e23")
"""The colors of conditions, which are visible on light and dark pages."""
Part: TypeAlias = tuple[int, int | None, bool]
"""The start and the end of a span in milliseconds since 1970, and whether the condition is known to be met."""


class _Clause(Protocol):
    @property
    def test(self) -> str: ...
    @property
    def limits(self) -> Sequence[float]: ...
    def matches(self, path: str) -> bool: ...


@runtime_checkable
class DrawableCondition(Protocol):
    """The part of :class:`mirror_sdk.Condition` that plots use."""

    @property
    def clauses(self) -> Sequence[_Clause]:
        """The clauses, which have the limits."""
        ...

    def spans(self, table: pd.DataFrame) -> Mapping[tuple[str, str | None], Sequence[Any]]:
        """Return when the condition was met, for each device and path."""
        ...


def checked_conditions(conditions: object) -> list[DrawableCondition]:
    """Return the conditions of a plot.

    Raises:
        TypeError: The argument is not a list of conditions.
        InvalidValue: A condition needs desired values.
    """
    if isinstance(conditions, DrawableCondition | str) or not isinstance(conditions, Iterable):
        raise TypeError(f"conditions must be a list of Condition, not {conditions!r}; write [condition]")
    found = list(conditions)
    for one in found:
        if not isinstance(one, DrawableCondition):
            raise TypeError(f"each of conditions must be a Condition, not {one!r}; Condition.parse(...) reads text")
        if any(clause.test == "differs" for clause in one.clauses):
            raise InvalidValue(
                f"conditions: {str(one)!r} needs desired values, which a plot does not have;"
                " use condition.intervals(client.history(...))"
            )
    return found


def draw_conditions(
    axes: Axes, frame: pd.DataFrame, conditions: Sequence[DrawableCondition], lines: Iterable[tuple[str, str]]
) -> None:
    """Draw conditions for the lines of a plot, each of which is a device id and a path."""
    drawn = list(lines)
    for number, condition in enumerate(conditions):
        parts = [
            part
            for (device, path), spans in condition.spans(frame).items()
            if any(device == of and _concerns(condition, path, one) for of, one in drawn)
            for part in spans
        ]
        levels = {level for _, path in drawn for level in limits_of(condition, path)}
        draw_condition(axes, str(condition), number, levels, parts)


def limits_of(condition: DrawableCondition, path: str) -> list[float]:
    """Return the limits with which a condition compares the values of a resource."""
    return [level for clause in condition.clauses if clause.matches(path) for level in clause.limits]


def _concerns(condition: DrawableCondition, path: str | None, line: str) -> bool:
    return path == line if path else any(clause.matches(line) for clause in condition.clauses)


def draw_condition(
    axes: Axes,
    label: str,
    number: int,
    levels: Iterable[float],
    parts: Iterable[Part],
    until: int = 0,
    height: float = 1.0,
) -> None:
    """Draw the limits of a condition and the intervals in which it is met, with one entry in the legend.

    Args:
        axes: The axes of the plot.
        label: The text of the condition.
        number: The number of the condition, from which its color is chosen.
        levels: The limits to draw.
        parts: The spans in which the condition is met. Unknown ones are hatched.
        until: The end of a span that has not ended, in milliseconds since 1970.
        height: The share of the axes that is shaded. A low band is opaque, because it covers other bars.
    """
    color = CONDITION_COLORS[number % len(CONDITION_COLORS)]
    known: dict[str, Any] = {
        "facecolor": (color, 0.2 if height == 1 else 1),
        "edgecolor": (color, 0.6),
        "linewidth": 0.5,
    }
    unknown: dict[str, Any] = {"facecolor": "none", "edgecolor": (color, 0.4), "linewidth": 0, "hatch": "///"}
    for level in sorted(levels):
        axes.axhline(level, color=color, linewidth=0.9, linestyle="--")
    for begin, end, is_known in parts:
        last = until if end is None else end
        axes.axvspan(begin / _DAY, last / _DAY, ymax=height, **(known if is_known else unknown))
    # The entry also appears if the condition is never met.
    axes.fill_between([], [], label=label, **known)
