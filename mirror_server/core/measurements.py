"""What a server measures of itself, whoever asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Measurement(NamedTuple):
    """A metric as it is now.

    Attributes:
        name: Its name; that of a count without the ``_total`` it has in the exposition.
        meaning: What it says.
        value: The number; of a metric with labels a number for each tuple of their values.
        labels: The names of the labels.
        is_count: Whether it only ever grows.
    """

    name: str
    meaning: str
    value: float | Mapping[Any, float]
    labels: tuple[str, ...] = ()
    is_count: bool = False
