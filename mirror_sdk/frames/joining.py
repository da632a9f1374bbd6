"""Joins of tables that keep the metadata."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Literal

import pandas as pd

from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.columns import named_columns, with_index

How = Literal["left", "right", "inner", "outer"]
_KEYS = ("device_id", "path")
_OF_ALL_ROWS = ("selection", "rows")
"""The metadata that apply only to the complete set of rows of a snapshot."""


def with_metadata_from(frame: pd.DataFrame, originals: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return a table with the metadata of its source tables; see :meth:`MirrorAccessor.with_metadata_from`.

    Raises:
        InvalidValue: None of the source tables has metadata.
    """
    metadata = _common_metadata([original.attrs.get("mirror") for original in originals], frame)
    if metadata is None:
        raise InvalidValue(
            "the tables that you passed do not have metadata either; pass an unchanged table from client.*_frame(),"
            " client.fleet.snapshot() or mirror_sdk.frames.read_parquet(file)"
        )
    table = frame.copy()
    table.attrs["mirror"] = metadata
    return table


def join(
    left: pd.DataFrame, right: pd.DataFrame, on: str | Sequence[str] | None, *, how: How, suffix: str
) -> pd.DataFrame:
    """Join two tables and their metadata; see :meth:`MirrorAccessor.join`.

    Raises:
        InvalidValue: A table lacks a column of ``on`` or has it twice, ``on`` is empty, or ``how`` is not a kind of
            join.
    """
    if how not in ("left", "right", "inner", "outer"):
        raise InvalidValue(f"how={how!r} must be 'left', 'right', 'inner' or 'outer'")
    left, right = with_index(left), with_index(right)
    keys = _keys(left, right, on)
    for key in keys:
        left, right = _with_like_key(left, right, key, keeps_right=how in ("right", "outer"))
    joined = left.merge(right, on=keys, how=how, suffixes=("", suffix))
    metadata = _common_metadata([left.attrs.get("mirror"), right.attrs.get("mirror")], joined)
    # This is a copy, because the tables may be changed independently.
    joined.attrs = deepcopy(left.attrs)
    if metadata is not None:
        joined.attrs["mirror"] = {name: value for name, value in metadata.items() if name not in _OF_ALL_ROWS}
    return joined


def _keys(left: pd.DataFrame, right: pd.DataFrame, on: str | Sequence[str] | None) -> list[str]:
    if on is None:
        on = [key for key in _KEYS if key in left and key in right]
    keys = [on] if isinstance(on, str) else list(on)
    if not keys:
        raise InvalidValue("the tables share neither device_id nor path; pass the columns to join on with on=[...]")
    for name, frame in (("table", left), ("other table", right)):
        missing = [key for key in keys if key not in frame]
        if missing:
            raise InvalidValue(
                f"on={on!r}: the {name} lacks {named_columns(missing)}; it has {', '.join(map(str, frame))}"
            )
        doubled = [key for key in keys if list(map(str, frame)).count(key) > 1]
        if doubled:
            raise InvalidValue(f"on={on!r}: the {name} has {named_columns(doubled)} more than once; drop all but one")
    return keys


def _with_like_key(
    left: pd.DataFrame, right: pd.DataFrame, key: str, *, keeps_right: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Give the key columns of both tables the types that they have in the left table.

    Otherwise, pandas would convert categories to objects if they differ, which is usual for two tables.
    """
    ours, theirs = left[key], right[key]
    if not isinstance(ours.dtype, pd.CategoricalDtype):
        is_category = isinstance(theirs.dtype, pd.CategoricalDtype)
        return left, right.assign(**{key: theirs.astype(ours.dtype)}) if is_category else right
    words = ours.cat.categories
    if keeps_right:
        words = words.union(pd.Index(theirs.dropna().unique(), dtype=object), sort=False)
    else:
        # Values that match nothing would become NA in the category, and NA would match NA.
        right = right[theirs.isin(words)]
    dtype = pd.CategoricalDtype(words, ordered=ours.cat.ordered)
    return left.assign(**{key: ours.astype(dtype)}), right.assign(**{key: right[key].astype(dtype)})


def _common_metadata(sources: Sequence[dict[str, Any] | None], result: pd.DataFrame) -> dict[str, Any] | None:
    """Return the metadata for a table that was made from other tables.

    It has the oldest timestamp, and it is complete only if all sources are complete.
    """
    known = [metadata for metadata in sources if metadata]
    if not known:
        return None
    if all(metadata == known[0] for metadata in known):
        return deepcopy(known[0])
    instants = [metadata["taken_at"] for metadata in known if metadata.get("taken_at")]
    servers = dict.fromkeys(server for one in known for server in one.get("server", "").split(", ") if server)
    devices = result["device_id"].nunique() if "device_id" in result else max(one.get("devices", 0) for one in known)
    return {
        "taken_at": min(instants, key=pd.Timestamp, default=None),
        "devices": devices,
        "complete": all(metadata.get("complete", False) for metadata in known),
        "server": ", ".join(servers),
    }
