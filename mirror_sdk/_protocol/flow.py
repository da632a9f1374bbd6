"""Calls with several requests, as generators without I/O that both kinds of clients can run."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from mirror_sdk._protocol.operation_base import Operation

T = TypeVar("T")
Effect: TypeAlias = "Operation[Any] | Work | Sleep"
"""An action that a flow yields and the client performs."""
Flow: TypeAlias = Generator[Effect, Any, T]
"""A generator of effects. The client performs each effect, and sends the result or the error back to the generator."""


@dataclass(frozen=True, slots=True)
class Work:
    """CPU-bound work. The asynchronous client runs it in a thread."""

    do: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Sleep:
    """A pause between two requests."""

    seconds: float
