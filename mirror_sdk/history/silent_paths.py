"""Which of the paths that were asked for a table has no row of: one that is mistyped looks as if it had been silent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from mirror_sdk._caller import warn
from mirror_sdk._visible import visible
from mirror_sdk.errors import EmptyTableWarning
from mirror_sdk.wire.paths import matches

_MOST_NAMED = 5


def silent_paths(tables: Iterable[pa.Table], patterns: Sequence[str] | None) -> list[str]:
    """The patterns that match the path of no row, in their order."""
    paths = {path for table in tables for path in table["path"].unique().to_pylist() if path is not None}
    return [pattern for pattern in patterns or () if not any(matches(pattern, path) for path in paths)]


def with_silent(
    about: Mapping[str, object], tables: Iterable[pa.Table], patterns: Sequence[str] | None
) -> dict[str, object]:
    """What a table is based on, with the patterns it has no row of, where there are any."""
    silent = silent_paths(tables, patterns)
    return {**about, "paths_without_rows": silent} if silent else dict(about)


def warn_of_unknown(patterns: Sequence[str], when: str = "") -> None:
    """Say that no device has what a table has no row of.

    Args:
        patterns: The patterns of its paths.
        when: When no device had it, for a table of the past.

    Warns:
        EmptyTableWarning: This.
    """
    named = ", ".join(map(visible, patterns[:_MOST_NAMED])) + (", ..." if len(patterns) > _MOST_NAMED else "")
    message = f"paths: none of these devices has {named}{when}; client.devices.resources(device) shows what one has"
    warn(message, EmptyTableWarning)
