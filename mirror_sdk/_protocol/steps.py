"""What a call does one after another, told by a generator that does nothing of it itself: either client can do it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from mirror_sdk._protocol.operation import Operation

T = TypeVar("T")
Steps: TypeAlias = "Generator[Operation[Any] | Work | Pause, Any, T]"
"""What is to be sent, worked out or waited for; what comes of it is sent in, an error thrown in."""


@dataclass(frozen=True, slots=True)
class Work:
    """What takes long and asks nobody; beside a loop a thread does it."""

    do: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """So many seconds between two requests."""

    seconds: float
