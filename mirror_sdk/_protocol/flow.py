"""A call of several requests as a generator without I/O, which either client can run."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from mirror_sdk._protocol.operation_base import Operation

T = TypeVar("T")
Effect: TypeAlias = "Operation[Any] | Work | Sleep"
"""An action that a flow yields for the client to perform."""
Flow: TypeAlias = Generator[Effect, Any, T]
"""Yields effects; the client sends the result of each back in, or throws its error in."""


@dataclass(frozen=True, slots=True)
class Work:
    """CPU-bound work; the asynchronous client runs it in a thread."""

    do: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Sleep:
    """A pause between two requests."""

    seconds: float
