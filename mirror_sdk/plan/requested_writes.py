"""Parsing of requested writes from the forms that users pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import pandas as pd
import pyarrow as pa

from mirror_sdk._protocol.request_options import expected_revision
from mirror_sdk._table_arguments import REVISION, DeviceTable, is_table, named_rows, revision_in
from mirror_sdk.device_lookup import DeviceLike, known_id, own_id
from mirror_sdk.errors import InvalidValue
from mirror_sdk.values import Value
from mirror_sdk.values.text_input import parse_text
from mirror_sdk.wire.device_requests import NEVER_WRITTEN

_IDS_AT_ONCE = 50
_STATUS = "desired_status"
_CURE = (
    "pass a table with the columns device_id, path and value, a table with the index device_id and a column per path,"
    " or a list of (device, path, value). help(client.plan) lists all accepted columns"
)
_CURE_WITHOUT_REVISIONS = "pass the result of client.fleet.snapshot() or client.state_frame()"


RequestedWrites: TypeAlias = DeviceTable | Iterable[tuple[DeviceLike, str, object]]
"""A table, or a list of tuples (device, path, value)."""


class EarlierWrite(NamedTuple):
    """A write to undo if the resource did not change after it.

    Attributes:
        written: The value that was written.
        before: The value before the write.
        accepted_at: The time at which the service accepted the write. It distinguishes the write from a later write of
            the same value. ``None`` if it is unknown.
    """

    written: Value
    before: Value
    accepted_at: datetime | None


class RequestedWrite(NamedTuple):
    """A request to write one value to one resource.

    Attributes:
        device_id: The id of the device. Before :func:`with_ids` is called, it may be a name.
        path: The resource path.
        value: The value to write. It is an error object if the value was a string that could not be parsed.
        content_type: The content type, as for ``client.requests.begin_write()``.
        if_match: The revision that the desired value must have for the write to be sent; ``None`` for any revision.
        undoes: The earlier write to undo. The new write is sent only if that write is the last change.
    """

    device_id: str
    path: str
    value: object
    content_type: str | None = None
    if_match: int | None = None
    undoes: EarlierWrite | None = None


def read_requested(
    writes: RequestedWrites, *, value: object = None, path: str | None = None, if_match: bool = False
) -> list[RequestedWrite]:
    """Read requested writes from a table or a list.

    Rows without a value (``NA``, ``NaN``, ``None``) are omitted.

    A string in a table is parsed like user input (see :func:`~mirror_sdk.parse_value`). A string in a list is used
    unchanged.

    Args:
        writes: A list of tuples (device, path, value), a table with one row per write, or a table with the index
            ``device_id`` and one column per path. A table with one row per write has a column ``device_id``, ``device``
            or ``endpoint_name``, a column ``path``, a column ``value`` or ``text`` (as people type it), and optionally
            ``content_type``. Devices are ids or endpoint names.
        value: One value for all rows, or a column with one value for each row.
        path: With ``value``, the resource of every device, instead of the column ``path``.
        if_match: Whether to write only if the desired value is still the value in the table.

    Raises:
        InvalidValue: ``writes`` is neither such a table nor such a list.
    """
    if isinstance(writes, str):
        raise InvalidValue(f"writes is a string, {writes!r}; {_CURE}")
    if is_table(writes):
        frame = _to_frame(writes)
        if value is not None or path is not None:
            frame = _with_value(frame, value, path, with_revisions=if_match)
        rows = _from_table(frame, if_match=if_match)
    elif value is not None or path is not None or if_match:
        raise InvalidValue("value=, path= and if_match= require a table; put device, path and value into the list")
    else:
        rows = [_from_tuple(row) for row in writes]
    return [row for row in rows if not _is_missing(row.value)]


def names_in(requested: Iterable[RequestedWrite]) -> list[str]:
    """Return the distinct strings for devices that may be names."""
    return [text for text in dict.fromkeys(one.device_id for one in requested) if known_id("device_id", text) is None]


def with_ids(requested: Iterable[RequestedWrite], ids: Mapping[str, str]) -> list[RequestedWrite]:
    """Return the writes with the ids of their devices. Unknown names are left unchanged."""
    return [one._replace(device_id=ids.get(one.device_id, one.device_id)) for one in requested]


def device_chunks(requested: Iterable[RequestedWrite]) -> Iterator[list[str]]:
    """Return the distinct ids of the devices, in chunks that fit into one query of the directory."""
    ids = iter(dict.fromkeys(one.device_id for one in requested))
    while chunk := list(islice(ids, _IDS_AT_ONCE)):
        yield chunk


def _to_frame(table: DeviceTable) -> pd.DataFrame:
    # A missing value would convert the integers of its column to floats, which round above 2**53.
    frame = table if isinstance(table, pd.DataFrame) else pa.table(table).to_pandas(integer_object_nulls=True)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise InvalidValue(f"the table has the column {twice} more than once; {_CURE}")
    if "device_id" in frame:
        return frame
    return frame.rename(columns={"device" if "device" in frame else "endpoint_name": "device_id"})


def _with_value(frame: pd.DataFrame, value: object, path: str | None, *, with_revisions: bool) -> pd.DataFrame:
    """Return the distinct resources of the rows, with the requested value."""
    if value is None:
        raise InvalidValue("path= requires value=; pass the value to write")
    if existing := [name for name in ("value", "text") if name in frame]:
        raise InvalidValue(f"the table has a column {existing[0]}, and value= was passed; pass one of them")
    if with_revisions and path is not None:
        raise InvalidValue(
            "if_match=True cannot be combined with path=, because the table has no revisions of that path; omit path=,"
            " or pass a state table of that path"
        )
    if isinstance(value, pd.Series) and not value.index.equals(frame.index):
        raise InvalidValue("value= has different rows than the table; compute it from the columns of this table")
    rows = named_rows(frame, ("device_id", "path") if path is None else ("device_id",), "writes")
    if path is not None:
        rows = rows.assign(path=path)
    if with_revisions:
        # They are converted to arrays, because the index of the rows may differ from the index of the table.
        rows = rows.assign(**{name: frame[name].array for name in (REVISION, _STATUS) if name in frame})
    values: Any = value.array if isinstance(value, pd.Series) else value
    try:
        # A resource with several different values stays in several rows, which the checks then reject.
        return rows.assign(value=values).drop_duplicates()
    except (TypeError, ValueError) as error:
        raise InvalidValue(f"value= is neither a value nor a column of values for the rows: {error}") from error


def _from_table(frame: pd.DataFrame, *, if_match: bool) -> list[RequestedWrite]:
    if "value" in frame and "text" in frame:
        raise InvalidValue(f"the table has both a column value and a column text; {_CURE}")
    value_name = "text" if "text" in frame else "value"
    if {"device_id", "path", value_name} <= set(frame.columns):
        return _from_long(frame, value_name, if_match=if_match)
    if if_match:
        raise InvalidValue(
            f"if_match=True needs a table with one row per resource, got a wide table; {_CURE_WITHOUT_REVISIONS}"
        )
    return _from_long(_wide_to_long(frame), "value", if_match=False)


def _revisions(frame: pd.DataFrame) -> list[int]:
    """Return the revisions of the desired values in the table.

    The revision is 0 for a resource without a desired value.
    """
    if REVISION not in frame:
        raise InvalidValue(f"if_match=True: the table has no column {REVISION}; {_CURE_WITHOUT_REVISIONS}")
    revisions = frame[REVISION]
    if _STATUS in frame and (revisions.isna() & frame[_STATUS].notna()).any():
        raise InvalidValue("if_match=True: the service sent no revisions of desired values; write without if_match")
    return [
        NEVER_WRITTEN if pd.isna(revision) else expected_revision(revision_in(revision, "if_match=True"))
        for revision in revisions.astype(object)
    ]


def _parsed(cell: object, path: str, frame: pd.DataFrame, row: object, column: object) -> object:
    """Return a cell of a table.

    A string is parsed, and replaced by the error if parsing fails. Strings are parsed in every table, because a single
    cell that is not a number makes the entire column of a CSV a column of strings.
    """
    if not isinstance(cell, str):
        return cell
    try:
        return parse_text(cell, path)
    except InvalidValue as error:
        named = "row" if frame.index.name is None else frame.index.name
        return InvalidValue(f"{named} {row}, column {column}: {error}")


def _from_long(frame: pd.DataFrame, value_name: str, *, if_match: bool) -> list[RequestedWrite]:
    # The cells are converted to objects, because they have different types. Categories become strings.
    columns = [frame[name].astype(object) for name in ("device_id", "path", value_name)]
    types = frame["content_type"].astype(object) if "content_type" in frame else [None] * len(frame)
    # Errors contain the name of the column. In a wide table, it is the path.
    is_wide = frame.index.name == "device_id"
    revisions: Sequence[int | None] = _revisions(frame) if if_match else [None] * len(frame)
    return [
        RequestedWrite(
            own_id(device_id) or _read_name("device_id", device_id),
            _read_name("path", path),
            _parsed(value, path, frame, row, path if is_wide else value_name),
            None if _is_missing(content_type) else str(content_type),
            revision,
        )
        for row, device_id, path, value, content_type, revision in zip(
            frame.index, *columns, types, revisions, strict=True
        )
        if not _is_missing(value)
    ]


def _read_name(name: str, cell: object) -> str:
    """Return a cell that contains the name of a device or a path.

    pandas changes a name such as 0012 to a different number.

    Raises:
        InvalidValue: The cell is not a string.
    """
    if isinstance(cell, str):
        return str(cell)
    if _is_missing(cell):
        cure = f'leave out such rows, table.dropna(subset=["{name}"])'
        raise InvalidValue(f"writes: a row with a value has no {name}; add it, or {cure}")
    raise InvalidValue(
        f"writes: {name} of a row is {cell!r}, not a string; to keep strings of digits, read the file with"
        f' pd.read_csv(file, dtype={{"{name}": "string"}})'
    )


def _wide_to_long(frame: pd.DataFrame) -> pd.DataFrame:
    paths = [name for name in frame.columns if str(name).startswith("/")]
    if frame.index.name != "device_id" or len(paths) < len(frame.columns):
        lacking = [name for name in ("device_id", "path", "value") if name not in frame.columns]
        raise InvalidValue(f"the table lacks {', '.join(lacking)}; {_CURE}")
    long = frame.astype(object).melt(var_name="path", ignore_index=False)
    return long.assign(device_id=long.index)


def _from_tuple(row: tuple[object, ...]) -> RequestedWrite:
    match row:
        case (device, str(path), value) if (own := own_id(device)) is not None or isinstance(device, str):
            return RequestedWrite(own or str(device), path, value)
    raise InvalidValue(f"{row!r} is not a write; {_CURE}")


def _is_missing(value: Any) -> bool:
    # isna() returns a single boolean only for a scalar.
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))
