"""Warnings point at the line of the program that led to them, wherever in this package they are made."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import NamedTuple

_PASSED = frozenset({"mirror_sdk", "contextlib", "functools"})
_BEGINNINGS = frozenset({"asyncio", "concurrent", "threading"})
"""Where a task or a thread begins; what is beyond, such as the loop of a notebook, did not call."""


class SourceLine(NamedTuple):
    """A line of a program."""

    file: str
    number: int
    module: str


def calling_line() -> SourceLine | None:
    """The line that called into this package; ``None`` on a thread, or in a task, that the package alone is on."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__") or "<string>"
        package = module.partition(".")[0]
        if package in _BEGINNINGS:
            return None
        if package not in _PASSED:
            return SourceLine(frame.f_code.co_filename, frame.f_lineno, module)
        frame = frame.f_back
    return None


def warn(message: str, category: type[Warning], called_from: SourceLine | None = None) -> None:
    """Warn at the calling line.

    Args:
        message: What is the matter.
        category: Its class.
        called_from: The line to point at where none calls now: that which began it.
    """
    line = calling_line() or called_from
    if line is None:
        warnings.warn(message, category, stacklevel=2)
        return
    # By this Python knows what it has warned of already.
    module = sys.modules.get(line.module)
    registry = None if module is None else vars(module).setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, line.file, line.number, line.module, registry)
