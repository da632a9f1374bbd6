"""Finds requested paths without rows in a table: a misspelled path looks like one without reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from mirror_sdk._caller import warn
from mirror_sdk._visible import visible
from mirror_sdk.errors import EmptyTableWarning
from mirror_sdk.wire.paths import matches

_MAX_NAMES = 5


def silent_paths(tables: Iterable[pa.Table], patterns: Sequence[str] | None) -> list[str]:
    """Return the patterns that match no row, in their order."""
    paths = {path for table in tables for path in table["path"].unique().to_pylist() if path is not None}
    return [pattern for pattern in patterns or () if not any(matches(pattern, path) for path in paths)]


def with_silent(
    metadata: Mapping[str, object], tables: Iterable[pa.Table], patterns: Sequence[str] | None
) -> dict[str, object]:
    """Return the metadata of a table, with the patterns without rows if there are any."""
    silent = silent_paths(tables, patterns)
    return {**metadata, "paths_without_rows": silent} if silent else dict(metadata)


def warn_of_unknown(patterns: Sequence[str], when: str = "") -> None:
    """Warn that no device has resources with these paths.

    Args:
        patterns: The patterns of the paths.
        when: The time at which no device had them, for a table of the past.

    Warns:
        EmptyTableWarning: Always.
    """
    named = ", ".join(map(visible, patterns[:_MAX_NAMES])) + (", ..." if len(patterns) > _MAX_NAMES else "")
    message = f"paths: none of these devices has {named}{when}; client.devices.resources(device) shows what one has"
    warn(message, EmptyTableWarning)
