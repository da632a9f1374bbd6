"""Warnings that point at the line of the program that led to them, not at a line of this package."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import NamedTuple

# A method that is wrapped by contextlib or functools is called from there, and not by a line of the program.
_PASSED = frozenset({"mirror_sdk", "contextlib", "functools"})
_BEGINNINGS = frozenset({"asyncio", "concurrent", "threading"})
"""Modules in which a task or thread starts; frames beyond them, such as the loop of a notebook, did not call."""


class SourceLine(NamedTuple):
    """A line of a program."""

    file: str
    number: int
    module: str


def calling_line() -> SourceLine | None:
    """Return the line that called into this package; ``None`` in a thread or task of the package itself."""
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
        message: The text.
        category: The class of the warning.
        called_from: The line to point at if none calls now.
    """
    line = calling_line() or called_from
    if line is None:
        warnings.warn(message, category, stacklevel=2)
        return
    # Python stores here which warnings it has already shown.
    module = sys.modules.get(line.module)
    registry = None if module is None else vars(module).setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, line.file, line.number, line.module, registry)
