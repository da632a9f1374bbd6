"""The steps of a call, as a generator without I/O that either client can run."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from mirror_sdk._protocol.operation import Operation

T = TypeVar("T")
Steps: TypeAlias = "Generator[Operation[Any] | Work | Pause, Any, T]"
"""Yields operations, work and pauses; the client sends the result back in, or throws the error in."""


@dataclass(frozen=True, slots=True)
class Work:
    """CPU-bound work; the asynchronous client runs it in a thread."""

    do: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause between two requests."""

    seconds: float
