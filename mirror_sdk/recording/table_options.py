"""The options of methods that return tables of a recording.

They are used in overloads by ``as_``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from mirror_sdk._arguments import InstantLike


class RecordedHistoryOptions(TypedDict, total=False):
    """The options of ``recording.history()``."""

    begin: InstantLike | None
    end: InstantLike | None
    raw: bool
    tz: str | None
    limit: int | None


class RecordedStateOptions(TypedDict, total=False):
    """The options of ``recording.as_of()`` and ``recording.changes()``."""

    paths: Sequence[str] | None
    tz: str | None
