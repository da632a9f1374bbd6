"""Warnings about values to which the test of a condition does not apply."""

from __future__ import annotations

from collections.abc import Sequence

from mirror_sdk._formatting import visible
from mirror_sdk._warnings import SourceLine, warn
from mirror_sdk.conditions.evaluator import Mismatch
from mirror_sdk.conditions.grammar import Expression, format_expression
from mirror_sdk.errors import ConditionWarning


def warn_of_mismatches(
    conditions: Sequence[Expression], mismatches: Sequence[Mismatch], called_from: SourceLine | None = None
) -> None:
    """Warn of values to which a test does not apply, once for each condition.

    Warns:
        ConditionWarning: There are such values.
    """
    for number in sorted({one.condition for one in mismatches}):
        first, *others = [one for one in mismatches if one.condition == number]
        more = f", and {len(others)} more" if others else ""
        warn(
            f"{first.path} of {visible(first.device)}{more}: the condition {format_expression(conditions[number])!r}"
            f" does not apply to {first.value!r}, so its state is unknown while the resource has such a value",
            ConditionWarning,
            called_from,
        )
