"""Detection of requested paths without rows in a table, because a misspelled path looks like one without reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from mirror_sdk._formatting import visible
from mirror_sdk._warnings import warn
from mirror_sdk.errors import EmptyTableWarning
from mirror_sdk.wire.paths import matches

_MAX_NAMES = 5


def find_paths_without_rows(tables: Iterable[pa.Table], patterns: Sequence[str] | None) -> list[str]:
    """Return the patterns that match no row, in the order of the argument."""
    paths = {path for table in tables for path in table["path"].unique().to_pylist() if path is not None}
    return [pattern for pattern in patterns or () if not any(matches(pattern, path) for path in paths)]


def with_paths_without_rows(
    metadata: Mapping[str, object], tables: Iterable[pa.Table], patterns: Sequence[str] | None
) -> dict[str, object]:
    """Return the metadata of a table. If some patterns match no row, add the list of these patterns."""
    silent = find_paths_without_rows(tables, patterns)
    return {**metadata, "paths_without_rows": silent} if silent else dict(metadata)


def warn_of_unknown_paths(patterns: Sequence[str], when: str = "") -> None:
    """Warn that no device has resources with these paths.

    Args:
        patterns: The patterns for the resource paths.
        when: A phrase for the time at which no device had these paths, if the table describes the past.

    Warns:
        EmptyTableWarning: Always.
    """
    named = ", ".join(map(visible, patterns[:_MAX_NAMES])) + (", ..." if len(patterns) > _MAX_NAMES else "")
    cure = "client.devices.resources(device) shows the paths of a device"
    warn(f"paths: none of these devices has {named}{when}; {cure}", EmptyTableWarning)
