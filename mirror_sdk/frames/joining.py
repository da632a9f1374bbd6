"""Tables put together, and what the result is based on."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Literal

import pandas as pd

from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.columns import with_index

How = Literal["left", "right", "inner", "outer"]
_KEYS = ("device_id", "path")
_OF_ALL_ROWS = ("selection", "rows")
"""What is true only of the very rows that were taken."""


def rebased(frame: pd.DataFrame, originals: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The same table with the metadata of those it was made from; see :meth:`MirrorAccessor.with_metadata_from`.

    Raises:
        InvalidValue: None of them says what it is based on.
    """
    about = _common_basis([original.attrs.get("mirror") for original in originals], frame)
    if about is None:
        raise InvalidValue(
            "none of these tables says what it is based on either; give one as client.*_frame() or"
            " client.fleet.snapshot() made it, or as mirror_sdk.frames.read_parquet(file) reads it"
        )
    table = frame.copy()
    table.attrs["mirror"] = about
    return table


def join(
    left: pd.DataFrame, right: pd.DataFrame, on: str | Sequence[str] | None, *, how: How, suffix: str
) -> pd.DataFrame:
    """Two tables in one, with what they are based on; see :meth:`MirrorAccessor.join`.

    Raises:
        InvalidValue: A table lacks a column of ``on`` or has it twice, there is none, or ``how`` is not a way to join.
    """
    if how not in ("left", "right", "inner", "outer"):
        raise InvalidValue(f"how={how!r} is not a way to join; give 'left', 'right', 'inner' or 'outer'")
    left, right = with_index(left), with_index(right)
    keys = _keys(left, right, on)
    for key in keys:
        left, right = _with_like_key(left, right, key, keeps_right=how in ("right", "outer"))
    joined = left.merge(right, on=keys, how=how, suffixes=("", suffix))
    about = _common_basis([left.attrs.get("mirror"), right.attrs.get("mirror")], joined)
    joined.attrs = deepcopy(left.attrs)
    if about is not None:
        joined.attrs["mirror"] = {name: value for name, value in about.items() if name not in _OF_ALL_ROWS}
    return joined


def _keys(left: pd.DataFrame, right: pd.DataFrame, on: str | Sequence[str] | None) -> list[str]:
    if on is None:
        on = [key for key in _KEYS if key in left and key in right]
    keys = [on] if isinstance(on, str) else list(on)
    if not keys:
        raise InvalidValue("the tables have neither device_id nor path in common; say what to join on=[...]")
    for which, frame in (("table", left), ("other table", right)):
        missing = [key for key in keys if key not in frame]
        if missing:
            raise InvalidValue(
                f"on={on!r}: the {which} lacks the column {', '.join(missing)}; it has {', '.join(map(str, frame))}"
            )
        doubled = [key for key in keys if list(map(str, frame)).count(key) > 1]
        if doubled:
            raise InvalidValue(f"on={on!r}: the {which} has the column {', '.join(doubled)} more than once; leave one")
    return keys


def _with_like_key(
    left: pd.DataFrame, right: pd.DataFrame, key: str, *, keeps_right: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both with one type of a key, that of the left one: categories of two tables differ, and pandas gives them up."""
    ours, theirs = left[key], right[key]
    if not isinstance(ours.dtype, pd.CategoricalDtype):
        is_category = isinstance(theirs.dtype, pd.CategoricalDtype)
        return left, right.assign(**{key: theirs.astype(ours.dtype)}) if is_category else right
    words = ours.cat.categories
    if keeps_right:
        words = words.union(pd.Index(theirs.dropna().unique(), dtype=object), sort=False)
    else:
        # Without those that match nothing, of which a category would make NA, as NA matches NA.
        right = right[theirs.isin(words)]
    dtype = pd.CategoricalDtype(words, ordered=ours.cat.ordered)
    return left.assign(**{key: ours.astype(dtype)}), right.assign(**{key: right[key].astype(dtype)})


def _common_basis(known: Sequence[dict[str, Any] | None], result: pd.DataFrame) -> dict[str, Any] | None:
    """What a table is based on that was made of others: the oldest moment, and complete only if all of them were."""
    bases = [about for about in known if about]
    if not bases:
        return None
    if all(about == bases[0] for about in bases):
        return deepcopy(bases[0])
    moments = [about["taken_at"] for about in bases if about.get("taken_at")]
    servers = dict.fromkeys(server for about in bases for server in about.get("server", "").split(", ") if server)
    devices = (
        result["device_id"].nunique() if "device_id" in result else max(about.get("devices", 0) for about in bases)
    )
    return {
        "taken_at": min(moments, key=pd.Timestamp, default=None),
        "devices": devices,
        "complete": all(about.get("complete", False) for about in bases),
        "server": ", ".join(servers),
    }
