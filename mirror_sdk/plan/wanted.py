"""What is to be written, out of the forms in which people have it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import pandas as pd
import pyarrow as pa

from mirror_sdk._protocol.asked import expected_revision
from mirror_sdk._tables import REVISION, DeviceTable, is_table, named_rows, revision_in
from mirror_sdk.errors import InvalidValue
from mirror_sdk.naming import DeviceLike, known_id, own_id
from mirror_sdk.values import Value
from mirror_sdk.values.typed_input import read_typed
from mirror_sdk.wire.device_requests import NEVER_WRITTEN

_IDS_AT_ONCE = 50
_LONG = ("device_id", "path", "value")
_TYPED = ("device_id", "path", "text")
_STATUS = "desired_status"
_CURE = (
    "give a table with the columns device_id, path and value (or text, for what people typed; or value= for all rows),"
    " or one with a row per device (index device_id) and a column per path, or a list of (device, path, value); a"
    " device is an id or an endpoint name, and its column may also be called device or endpoint_name"
)


Wanted: TypeAlias = DeviceTable | Iterable[tuple[DeviceLike, str, object]]
"""What is to be written: a table, or a list of (device, path, value)."""


class EarlierWrite(NamedTuple):
    """A write that is to be undone, unless the resource was changed after it.

    Attributes:
        written: The value that was written.
        before: The value before the write.
        accepted_at: When the service accepted it, by which it is told from a later write of the same value; ``None`` if
            unknown.
    """

    written: Value
    before: Value
    accepted_at: datetime | None


class Want(NamedTuple):
    """One value for one resource; ``content_type`` as for ``client.requests.begin_write()``.

    The device is an id, or a name at first.

    With ``if_match`` it is wanted only while the desired value has this revision, with ``undoes`` only while that
    write is the last change.

    In the place of a value that could not be read from a text stands the error, which refuses it.
    """

    device_id: str
    path: str
    value: object
    content_type: str | None = None
    if_match: int | None = None
    undoes: EarlierWrite | None = None


def read_wanted(wanted: Wanted, *, value: object = None, path: str | None = None, if_match: bool = False) -> list[Want]:
    """The single values wanted; a missing one (``NA``, ``NaN``, ``None``) is not wanted.

    A text in a table is read as what people typed, see :func:`~mirror_sdk.parse_value`; one in a list stays a text.

    Args:
        wanted: A table with the columns ``device_id``, ``device`` or ``endpoint_name``, ``path``,
            ``value`` or ``text`` (what people typed), and perhaps ``content_type``; or one with the index ``device_id``
            and a column per path; or (device, path, value). Devices stand there as ids or names.
        value: One value for all that the rows name, or a column of the table's rows, one for each.
        path: With a value, the resource of each device that is written, in the place of the table's column.
        if_match: Whether each is wanted only while the desired value is the one that the table has seen.

    Raises:
        InvalidValue: It is none of these.
    """
    if is_table(wanted):
        frame = _frame_of(wanted)
        if value is not None or path is not None:
            frame = _with_value(frame, value, path, keeps_seen=if_match)
        rows = _of_table(frame, if_match=if_match)
    elif value is not None or path is not None or if_match:
        raise InvalidValue("value=, path= and if_match= go with a table; write device, path and value into the list")
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


def _frame_of(table: DeviceTable) -> pd.DataFrame:
    # Where one is missing, the integers of a column would become floats, which round past 2**53.
    frame = table if isinstance(table, pd.DataFrame) else pa.table(table).to_pandas(integer_object_nulls=True)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise InvalidValue(f"the table has the column {twice} more than once; {_CURE}")
    if "device_id" in frame:
        return frame
    return frame.rename(columns={"device" if "device" in frame else "endpoint_name": "device_id"})


def _with_value(frame: pd.DataFrame, value: object, path: str | None, *, keeps_seen: bool) -> pd.DataFrame:
    """The resources that the rows name, each once, with the value that is wanted there."""
    if value is None:
        raise InvalidValue("path= goes with value=, which is written there")
    if there := [name for name in ("value", "text") if name in frame]:
        raise InvalidValue(f"the table has a column {there[0]}, and value= was given; give one of them")
    if keeps_seen and path is not None:
        raise InvalidValue("if_match=True goes without path=: the table saw the values of its own paths")
    if isinstance(value, pd.Series) and not value.index.equals(frame.index):
        raise InvalidValue("value= has other rows than the table; make it of the columns of the same table")
    rows = named_rows(frame, ("device_id", "path") if path is None else ("device_id",), "wanted")
    if path is not None:
        rows = rows.assign(path=path)
    if keeps_seen:
        rows = rows.assign(**{name: frame[name].array for name in (REVISION, _STATUS) if name in frame})
    values: Any = value.array if isinstance(value, pd.Series) else value
    try:
        return rows.assign(value=values).drop_duplicates()
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"value= is no value, and no column of values for the rows: {error}") from error


def _of_table(frame: pd.DataFrame, *, if_match: bool) -> list[Want]:
    names = set(frame.columns)
    if {"value", "text"} <= names:
        raise InvalidValue(f"the table has both a column value and a column text; {_CURE}")
    for named in (_LONG, _TYPED):
        if set(named) <= names:
            return _of_long(frame, named, if_match=if_match)
    if if_match:
        raise _unseen()
    return _of_wide(frame)


def _unseen() -> InvalidValue:
    return InvalidValue(
        f"if_match=True: the table lacks {REVISION}, or a row for each resource; snapshot() and state_frame() tell it"
    )


def _seen(frame: pd.DataFrame) -> list[int]:
    """The revisions of the desired values that the table has seen; 0 where it has seen none."""
    if REVISION not in frame:
        raise _unseen()
    revisions = frame[REVISION]
    if _STATUS in frame and (revisions.isna() & frame[_STATUS].notna()).any():
        raise InvalidValue("if_match=True: the service told no revisions of desired values; write without if_match")
    return [
        NEVER_WRITTEN if pd.isna(revision) else expected_revision(revision_in(revision, "if_match=True"))
        for revision in revisions.astype(object)
    ]


def _read(cell: object, path: str, frame: pd.DataFrame, row: object, column: object) -> object:
    """A cell of a table; of a text what it stands for, or the error where it is no value.

    One cell that is no number makes all of a column of a CSV texts, so texts are read in every table.
    """
    if not isinstance(cell, str):
        return cell
    try:
        return read_typed(cell, path)
    except InvalidValue as error:
        named = "row" if frame.index.name is None else frame.index.name
        return InvalidValue(f"{named} {row}, column {column}: {error}")


def _of_long(frame: pd.DataFrame, named: Sequence[str], *, if_match: bool) -> list[Want]:
    columns = [frame[name].astype(object) for name in named]
    types = frame["content_type"].astype(object) if "content_type" in frame else [None] * len(frame)
    seen = _seen(frame) if if_match else [None] * len(frame)
    return [
        Want(
            own_id(device_id) or _text_of("device_id", device_id),
            _text_of("path", path),
            _read(value, path, frame, row, named[-1]),
            None if _is_missing(content_type) else str(content_type),
            revision,
        )
        for row, device_id, path, value, content_type, revision in zip(frame.index, *columns, types, seen, strict=True)
        if not _is_missing(value)
    ]


def _text_of(name: str, cell: object) -> str:
    """A cell that names a device or a path. Of a name such as 0012 pandas makes a number, which another device has.

    Raises:
        InvalidValue: It is no text.
    """
    if isinstance(cell, str):
        return str(cell)
    if _is_missing(cell):
        cure = f'leave out such rows, table.dropna(subset=["{name}"])'
        raise InvalidValue(f"wanted: {name} of a row that has a value is missing; name it, or {cure}")
    raise InvalidValue(
        f"wanted: {name} of a row is {cell!r}, not a text; texts of digits stay texts with"
        f' pd.read_csv(file, dtype={{"{name}": "string"}})'
    )


def _of_wide(frame: pd.DataFrame) -> list[Want]:
    paths = [str(name) for name in frame.columns if str(name).startswith("/")]
    if frame.index.name != "device_id" or len(paths) < len(frame.columns):
        lacking = [name for name in _LONG if name not in frame.columns]
        raise InvalidValue(f"the table lacks {', '.join(lacking)}; {_CURE}")
    return [
        Want(own_id(device_id) or _text_of("device_id", device_id), path, _read(value, path, frame, device_id, path))
        for path in paths
        for device_id, value in zip(frame.index, frame[path].astype(object), strict=True)
        if not _is_missing(value)
    ]


def _of_tuple(row: tuple[object, ...]) -> Want:
    match row:
        case (str(device_id), str(path), value):
            return Want(device_id, path, value)
        case (device, str(path), value) if (own := own_id(device)) is not None:
            return Want(own, path, value)
    raise InvalidValue(f"{row!r} is nothing to write; {_CURE}")


def _is_missing(value: Any) -> bool:
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))
