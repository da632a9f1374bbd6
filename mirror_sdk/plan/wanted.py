"""What is to be written, out of the forms in which people have it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import pandas as pd

from mirror_sdk.errors import ValueRefused
from mirror_sdk.naming import DeviceLike, known_id, own_id
from mirror_sdk.values.typed import read_typed

_IDS_AT_ONCE = 50
_LONG = ("device_id", "path", "value")
_TYPED = ("device_id", "path", "text")
_CURE = (
    "give a table with the columns device_id, path and value (or text, for what people typed), or one with a row per"
    " device (index device_id) and a column per path, or a list of (device, path, value); a device is an id or an"
    " endpoint name"
)


class Want(NamedTuple):
    """One value for one resource; ``content_type`` as for ``begin_write``. The device is an id, or a name at first.

    In the place of a value that could not be read from a text stands the error, which refuses it.
    """

    device_id: str
    path: str
    value: object
    content_type: str | None = None


def read_wanted(wanted: pd.DataFrame | Iterable[tuple[DeviceLike, str, object]]) -> list[Want]:
    """The single values wanted; a missing one (``NA``, ``NaN``, ``None``) is not wanted.

    Args:
        wanted: A table with the columns ``device_id`` or, as in the files of ``mirror plan``, ``device``, ``path``,
            ``value`` or ``text`` (what people typed), and perhaps ``content_type``; or one with the index ``device_id``
            and a column per path; or (device, path, value). Devices stand there as ids or names.

    Raises:
        ValueRefused: It is none of these.
    """
    if isinstance(wanted, pd.DataFrame):
        if not wanted.columns.is_unique:
            twice = wanted.columns[wanted.columns.duplicated()][0]
            raise ValueRefused(f"the table has the column {twice} more than once; {_CURE}")
        if "device_id" not in wanted:
            wanted = wanted.rename(columns={"device": "device_id"})
        rows = _of_table(wanted)
    else:
        rows = [_of_tuple(row) for row in wanted]
    return [row for row in rows if not _is_missing(row.value)]


def names_in(wants: Iterable[Want]) -> list[str]:
    """What stands for devices and may be names, each once."""
    return [text for text in dict.fromkeys(want.device_id for want in wants) if known_id("device_id", text) is None]


def with_ids(wants: Iterable[Want], ids: Mapping[str, str]) -> list[Want]:
    """The wants with the ids their devices' names lead to; what leads nowhere stays."""
    return [want._replace(device_id=ids.get(want.device_id, want.device_id)) for want in wants]


def device_chunks(wants: Iterable[Want]) -> Iterator[list[str]]:
    """The ids of the devices written to, each once, as many at a time as one question to the directory takes."""
    ids = iter(dict.fromkeys(want.device_id for want in wants))
    while chunk := list(islice(ids, _IDS_AT_ONCE)):
        yield chunk


def _of_table(frame: pd.DataFrame) -> list[Want]:
    names = set(frame.columns)
    if {"value", "text"} <= names:
        raise ValueRefused(f"the table has both a column value and a column text; {_CURE}")
    if set(_LONG) <= names:
        return _of_long(frame)
    if set(_TYPED) <= names:
        return [want._replace(value=_read(want)) for want in _of_long(frame.rename(columns={"text": "value"}))]
    return _of_wide(frame)


def _read(typed: Want) -> object:
    """What a text stands for; the error where it is no value, and what is missing or no text as it is."""
    if not isinstance(typed.value, str):
        return typed.value
    try:
        return read_typed(typed.value, typed.path)
    except ValueRefused as error:
        return error


def _of_long(frame: pd.DataFrame) -> list[Want]:
    columns = [frame[name].astype(object) for name in _LONG]
    types = frame["content_type"].astype(object) if "content_type" in frame else [None] * len(frame)
    return [
        Want(
            own_id(device_id) or str(device_id),
            str(path),
            value,
            None if _is_missing(content_type) else str(content_type),
        )
        for device_id, path, value, content_type in zip(*columns, types, strict=True)
    ]


def _of_wide(frame: pd.DataFrame) -> list[Want]:
    paths = [str(name) for name in frame.columns if str(name).startswith("/")]
    if frame.index.name != "device_id" or len(paths) < len(frame.columns):
        lacking = [name for name in _LONG if name not in frame.columns]
        raise ValueRefused(f"the table lacks {', '.join(lacking)}; {_CURE}")
    return [
        Want(own_id(device_id) or str(device_id), path, value)
        for path in paths
        for device_id, value in zip(frame.index, frame[path].astype(object), strict=True)
    ]


def _of_tuple(row: tuple[object, ...]) -> Want:
    match row:
        case (str(device_id), str(path), value):
            return Want(device_id, path, value)
        case (device, str(path), value) if (own := own_id(device)) is not None:
            return Want(own, path, value)
    raise ValueRefused(f"{row!r} is nothing to write; {_CURE}")


def _is_missing(value: Any) -> bool:
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))
