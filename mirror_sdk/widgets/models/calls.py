"""How models have client calls made: they say what to call and what to do with the outcome, not when or where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Run(Protocol):
    """Makes a call, here or elsewhere, and later tells either what it gave or why it failed."""

    def __call__(
        self, call: Callable[[], T], then: Callable[[T], object], failed: Callable[[Exception], object], /
    ) -> None:
        """Make ``call``."""


def run_now(call: Callable[[], T], then: Callable[[T], object], failed: Callable[[Exception], object]) -> None:
    """Make the call at once and return when its outcome was told."""
    try:
        outcome = call()
    except Exception as error:
        failed(error)
    else:
        then(outcome)
