"""Warnings that point at the line of the user's program that caused them, instead of a line of this package."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import NamedTuple

# contextlib and functools wrap some methods, so their frames are skipped like those of this package.
_PASSED = frozenset({"mirror_sdk", "contextlib", "functools"})
_BEGINNINGS = frozenset({"asyncio", "concurrent", "threading"})
"""Modules that start a task or thread. Frames beyond them, such as the loop of a notebook, are not the caller."""


class SourceLine(NamedTuple):
    """A source line of a program."""

    file: str
    number: int
    module: str


def calling_line() -> SourceLine | None:
    """Return the line that called this package, or ``None`` in a thread or task that the package itself has started."""
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
    """Issue a warning that points at the line that called this package.

    Args:
        message: The text of the warning.
        category: The class of the warning.
        called_from: The line to point at if no line of the program is calling this package at the moment.
    """
    line = calling_line() or called_from
    if line is None:
        warnings.warn(message, category, stacklevel=2)
        return
    # Python stores in this dictionary which warnings it has already shown.
    module = sys.modules.get(line.module)
    registry = None if module is None else vars(module).setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, line.file, line.number, line.module, registry)
