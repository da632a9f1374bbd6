"""How tables are built: by column, of a declaration that defines names, types, order and meanings.

Each table is a tuple of :class:`TableColumn`. Its schema, the table in the docstring of its function, and the copies
of members of the interface are made of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import zip_longest
from textwrap import indent, wrap
from typing import Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from mirror_sdk._arguments import instant
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import utc_now
from mirror_sdk.values import Value, ValueKind, plain_text
from mirror_sdk.wire.model import Kind, write_timestamp

CATEGORY = pa.dictionary(pa.int32(), pa.string())
INSTANT = pa.timestamp("ms", tz="UTC")
STREAM_TYPES: Mapping[Kind, pa.DataType] = {
    "word": CATEGORY,
    "bytes": pa.binary(),
    "instant": INSTANT,
    "integer": pa.int64(),
    "small integer": pa.int8(),
    "flag": pa.bool_(),
}
"""The types of the columns of the interface."""
_CATEGORIES = b"categories"
_METADATA_KEY = b"mirror"
_OF_PANDAS = b"pandas"
_Function = TypeVar("_Function", bound=Callable[..., Any])
_INDENTED = re.compile(r"^( *)\{columns\}$", re.MULTILINE)
_MEANING_WIDTH = 62
_DTYPES: Mapping[pa.DataType, str] = {
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.float64(): "Float64",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "object",
    pa.duration("ms"): "timedelta64[ms]",
    INSTANT: "datetime64[ms, UTC]",
}
"""How pandas names the type of a column; any other is a category."""


def fixed_category(name: str, categories: Sequence[str], *, ordered: bool = False) -> pa.Field:
    """A column whose categories are always these, in this order, whatever occurs in it."""
    arrow_type = pa.dictionary(pa.int8(), pa.string(), ordered=ordered)
    return pa.field(name, arrow_type, metadata={_CATEGORIES: " ".join(categories)})


NUMBER_MEANING = "a number, rounded to the nearest float past 2**53"
TEXT_MEANING = (
    "a text, an object link, a time in RFC 3339; or JSON by instance id: "
    '``{"0": 3800, "1": 5000}`` of a multiple resource'
)


class Words(NamedTuple):
    """The type of a category column whose categories are always these, in this order, whatever occurs in it.

    Attributes:
        words: The categories.
        ordered: Whether their order has a meaning.
        sent: The words of the interface for these, in the same order, where they are others.
    """

    words: Sequence[str]
    ordered: bool = False
    sent: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table: the one place that says what it is.

    Attributes:
        name: Its name.
        type: Its type in Arrow.
        meaning: What it means, for the docstring, with its unit where the type has none.
        source: The member of the interface that it is a copy of: ``reported.revision``; empty where it is computed.
        since: The version that added it: a service of an earlier one does not send it. Empty where all do.
        is_raw: Whether the table has it with ``raw=True`` alone.
    """

    name: str
    type: pa.DataType | Words
    meaning: str
    source: str = ""
    since: str = ""
    is_raw: bool = False

    @property
    def field(self) -> pa.Field:
        """The column in a schema."""
        if isinstance(self.type, Words):
            return fixed_category(self.name, self.type.words, ordered=self.type.ordered)
        return pa.field(self.name, self.type)


def schema_of(columns: Iterable[TableColumn], *, raw: bool = False) -> pa.Schema:
    """The schema of a table, with or without its raw columns."""
    return pa.schema([column.field for column in columns if raw or not column.is_raw])


def documented(columns: Sequence[TableColumn]) -> Callable[[_Function], _Function]:
    """Replace the line ``{columns}`` of a docstring by a table of these columns.

    A line of the docstring names the schema too, for editors, which read it as it is written.
    """

    def document(function: _Function) -> _Function:
        # Python leaves docstrings out with -OO.
        function.__doc__ = function.__doc__ and _INDENTED.sub(lambda found: indent(table, found[1]), function.__doc__)
        return function

    table = _docstring_table(columns)
    return document


def _docstring_table(columns: Sequence[TableColumn]) -> str:
    rows = [("column", "dtype", "meaning")]
    for column in columns:
        meaning = wrap(
            column.meaning + ", with ``raw=True`` only" * column.is_raw, _MEANING_WIDTH, break_on_hyphens=False
        )
        dtype = _DTYPES.get(column.field.type, "category")
        rows += zip_longest([column.name], [dtype], meaning, fillvalue="")
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    border = "  ".join("=" * width for width in widths)
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([border, lines[0], border, *lines[1:], border])


def value_fields(prefix: str) -> list[pa.Field]:
    """The three typed columns of a value."""
    return [
        pa.field(f"{prefix}_num", pa.float64()),
        pa.field(f"{prefix}_text", pa.string()),
        pa.field(f"{prefix}_bool", pa.bool_()),
    ]


def number(value: Value) -> float | None:
    """A number, for a ``_num`` column."""
    return float(value.python) if value.kind is ValueKind.NUMBER else None  # type: ignore[arg-type] # kind says so


_IN_TEXT_COLUMNS = frozenset({ValueKind.TEXT, ValueKind.TIME, ValueKind.OBJLINK, ValueKind.MULTIPLE})


def text(value: Value) -> str | None:
    """A text, an object link, a time, or the JSON text of a multiple resource, for a ``_text`` column."""
    return plain_text(value) if value.kind in _IN_TEXT_COLUMNS else None


def boolean(value: Value) -> bool | None:
    """A boolean, for a ``_bool`` column."""
    return value.python if isinstance(value.python, bool) else None


def value_columns(prefix: str, values: Sequence[Value]) -> dict[str, list[object]]:
    """The three typed columns of values."""
    return {
        f"{prefix}_num": [number(value) for value in values],
        f"{prefix}_text": [text(value) for value in values],
        f"{prefix}_bool": [boolean(value) for value in values],
    }


def table_metadata(
    device_ids: Iterable[object], taken_at: datetime | None, *, complete: bool, server: str
) -> dict[str, object]:
    """Return the metadata of a table, for ``attrs["mirror"]``; an empty one may not know when it was taken."""
    return {
        "taken_at": None if taken_at is None else write_timestamp(taken_at),
        "devices": len({one for one in device_ids if one is not None}),
        "complete": complete,
        "server": server,
    }


def to_table(columns: Mapping[str, Sequence[object]], schema: pa.Schema) -> pa.Table:
    """The columns as the schema has them."""
    return pa.Table.from_arrays([_array(columns[field.name], field) for field in schema], schema=schema)


def moment(name: str, given: object, now: Callable[[], datetime] = utc_now) -> str:
    """An instant for ``attrs``.

    Raises:
        InvalidValue: It is not a time, has no time zone, or lies beyond the years 1 to 9999 in UTC.
    """
    return write_timestamp(instant(name, given, now))


def categories_of(field: pa.Field) -> list[str]:
    """The categories of a column whose categories are fixed; none of any other."""
    categories: bytes = (field.metadata or {}).get(_CATEGORIES, b"")
    return categories.decode().split()


def fixed_category_array(indices: pa.Array, field: pa.Field) -> pa.DictionaryArray:
    """A column whose categories are fixed, of the indices into them."""
    return pa.DictionaryArray.from_arrays(indices, categories_of(field), ordered=field.type.ordered)


def own(column: pa.Array) -> pa.Array:
    """A copy: a part of a batch would hold on to all of it."""
    return pa.concat_arrays([column])


@lru_cache(maxsize=32)
def nulls(length: int, kind: pa.DataType) -> pa.Array:
    """Return a column of missing cells, of any type but a category. Zeros are memory that takes no space."""
    zeros = pa.py_buffer(np.zeros(length + 1, np.int64))
    return pa.Array.from_buffers(kind, length, [zeros] * kind.num_buffers, length)


def occurring(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """A category column with the words that occur alone; a part of a batch would hold on to all there are."""
    words, indices = column.dictionary.cast(pa.string()), column.indices
    if indices[: len(words)].equals(pa.array(np.arange(len(words), dtype=np.int32))):
        # As they are where the first device has all there are.
        return words_at(own(indices), own(words))
    used = indices.dictionary_encode()
    return words_at(used.indices, words.take(used.dictionary))


def words_at(index: pa.Array, words: pa.StringArray) -> pa.DictionaryArray:
    """A category column of an index into words, of which some may be the same or none."""
    encoded = words.dictionary_encode()
    if len(encoded.dictionary) == len(words):
        return pa.DictionaryArray.from_arrays(index.cast(pa.int32()), words)
    return pa.DictionaryArray.from_arrays(at(index, encoded.indices), encoded.dictionary, safe=False)


def at(index: pa.Array, numbers: pa.Int32Array) -> pa.Int32Array:
    """A column of an index into numbers."""
    if not index.null_count and not numbers.null_count and len(numbers.unique()) == 1:
        return pa.array(np.full(len(index), numbers[0].as_py(), np.int32))
    return numbers.take(index)


def _array(values: Sequence[object], field: pa.Field) -> pa.Array:
    if not field.metadata:
        return pa.array(values, type=field.type)
    index_of: dict[object, int | None] = {category: index for index, category in enumerate(categories_of(field))}
    index_of[None] = None
    return fixed_category_array(pa.array([index_of[value] for value in values], type=field.type.index_type), field)


def concat_columns(tables: list[pa.Table]) -> dict[str, pa.ChunkedArray]:
    """Return the columns of the concatenated tables. The list is emptied, so that only the columns stay in memory."""
    table = pa.concat_tables(tables)
    tables.clear()
    return dict(zip(table.column_names, table.columns, strict=True))


def concat_with_metadata(tables: list[pa.Table], metadata: Mapping[str, object], *, tz: str | None) -> pa.Table:
    """Concatenate tables, with one dictionary for each category column. The list is emptied.

    Raises:
        InvalidValue: ``tz`` is not a time zone.
    """
    table = with_metadata(pa.concat_tables(tables).unify_dictionaries(), metadata)
    tables.clear()
    return table if tz is None else table_in_zone(table, tz)


def with_metadata(table: pa.Table, metadata: Mapping[str, object]) -> pa.Table:
    """Return the table with its metadata in the schema, as JSON under ``mirror``."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _METADATA_KEY: json.dumps(dict(metadata))})


def metadata_of_table(table: pa.Table) -> dict[str, Any]:
    """Return the metadata of a table: that of this package, else the ``attrs`` that pandas wrote."""
    of_schema = table.schema.metadata or {}
    if _METADATA_KEY in of_schema:
        metadata: dict[str, Any] = json.loads(of_schema[_METADATA_KEY])
        return metadata
    of_pandas: dict[str, Any] = json.loads(of_schema.get(_OF_PANDAS, b"{}")).get("attributes", {}).get("mirror", {})
    return of_pandas


def table_in_zone(table: pa.Table, tz: str) -> pa.Table:
    """Return the table with its times in another zone, such as ``Europe/Berlin``.

    Raises:
        InvalidValue: There is no such time zone.
    """
    try:
        ZoneInfo(tz)
    except (LookupError, TypeError, ValueError, OSError) as exc:
        raise InvalidValue(f"tz={tz!r} is not a time zone ({exc}); write one like 'Europe/Berlin'") from exc
    fields = [
        field.with_type(pa.timestamp(field.type.unit, tz=tz)) if pa.types.is_timestamp(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields, metadata=table.schema.metadata))
