"""Resource paths (``/3303/0/5700`` is object, instance and resource id), and the patterns of presubscription rules.

Source: wire.md 2 and 3.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

PATH_PATTERN = r"^(?:/(?:0|[1-9][0-9]{0,4})){1,4}$"
"""A regular expression for a resource path: one to four numbers, each after a slash."""

TEXT_PATTERN = r"^[^*]*\*?$"
"""A regular expression for a pattern, which may have one ``*`` at its end."""

# The pattern is part of the interface description, in whose dialect \Z does not exist. In Python, $ also matches before
# a final line end, so it is replaced here.
_PATH = re.compile(PATH_PATTERN.replace("$", r"\Z"))
_HIGHEST_ID = 65535


class PathParts(NamedTuple):
    """The numbers of a resource path. A number that the path does not contain is ``None``."""

    object_id: int
    instance_id: int | None
    resource_id: int | None
    resource_instance_id: int | None


# Cached, because a fleet has few different paths, and many values for each of them.
@lru_cache(maxsize=4096)
def parse_path(path: str) -> PathParts:
    """Split a resource path into its numbers.

    Raises:
        ValueError: The string is not a resource path. The message contains an example.
    """
    if not _PATH.match(path):
        raise ValueError(f"{path!r} is not a resource path; write it like /3303/0/5700 (numbers, each after a slash)")
    numbers = [int(part) for part in path[1:].split("/")]
    if max(numbers) > _HIGHEST_ID:
        raise ValueError(f"{path!r} is not a resource path; its numbers go from 0 to {_HIGHEST_ID}")
    numbers_or_none: list[int | None] = [*numbers, None, None, None]
    return PathParts(numbers[0], *numbers_or_none[1:4])


def check_path(path: str) -> str:
    """Return a string if it is a resource path.

    Raises:
        ValueError: The string is not a resource path.
    """
    parse_path(path)
    return path


def is_resource(path: str) -> bool:
    """Return whether a string is the path of a resource or of a resource instance."""
    try:
        return parse_path(path).resource_id is not None
    except ValueError:
        return False


def check_pattern(pattern: str) -> str:
    """Return a pattern if it contains no ``*`` except at its end.

    Raises:
        ValueError: The pattern contains a ``*`` that is not at its end.
    """
    if "*" in pattern[:-1]:
        raise ValueError(f"{pattern!r}: '*' is allowed only at the end")
    return pattern


def check_path_pattern(pattern: str) -> str:
    """Return a pattern if a resource path can match it.

    Raises:
        ValueError: The pattern contains a ``*`` that is not at its end, or no resource path can match it.
    """
    check_pattern(pattern)
    if not pattern.startswith("/") and pattern != "*":
        raise ValueError(f"{pattern!r} matches no resource path; write it like /3303/0/5700 or /3303/*")
    return pattern


def matches_any(patterns: Sequence[str] | None, path: str) -> bool:
    """Return whether a path matches one of the patterns. ``None`` matches every path."""
    return patterns is None or any(matches(pattern, path) for pattern in patterns)


def matches(pattern: str, text: str) -> bool:
    """Return whether a string equals the pattern, or begins with the part before the pattern's final ``*``."""
    if pattern.endswith("*"):
        return text.startswith(pattern[:-1])
    return text == pattern
