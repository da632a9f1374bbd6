"""Declarations of table columns, and helpers that build tables column by column.

Each table is declared as a tuple of :class:`TableColumn`, which defines names, types, order and meanings. Three things
are derived from it: the schema, the table of columns in docstrings, and the list of members to copy from the service's
data.
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
"""The types of the columns in Arrow streams that the service sends."""
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
"""The names of column types in pandas. Any other type is a category."""


def fixed_category(name: str, categories: Sequence[str], *, ordered: bool = False) -> pa.Field:
    """Return the field of a categorical column that always has these categories in this order."""
    arrow_type = pa.dictionary(pa.int8(), pa.string(), ordered=ordered)
    return pa.field(name, arrow_type, metadata={_CATEGORIES: " ".join(categories)})


NUMBER_MEANING = "a number; beyond 2**53 it is rounded to the nearest float"
TEXT_MEANING = (
    "a string, an object link, or a time in RFC 3339; for a multiple resource, JSON by instance id: "
    '``{"0": 3800, "1": 5000}``'
)


class Words(NamedTuple):
    """The type of a categorical column that always has these categories in this order.

    Attributes:
        words: The categories.
        ordered: Whether the order of the categories has a meaning.
        sent: The strings that the service sends for the categories, in the same order, if they differ from ``words``.
    """

    words: Sequence[str]
    ordered: bool = False
    sent: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TableColumn:
    """The declaration of a column of a table.

    Attributes:
        name: The name of the column.
        type: The Arrow type of the column.
        meaning: The meaning for the docstring, including the unit if the type does not contain it.
        source: The member of the interface that the column copies, such as ``reported.revision``. It is empty if the
            column is computed.
        since: The version of the service that added the member; earlier services do not send it. It is empty if all
            services send the member.
        is_raw: Whether the table has the column only with ``raw=True``.
    """

    name: str
    type: pa.DataType | Words
    meaning: str
    source: str = ""
    since: str = ""
    is_raw: bool = False

    @property
    def field(self) -> pa.Field:
        """The field of the column in an Arrow schema."""
        if isinstance(self.type, Words):
            return fixed_category(self.name, self.type.words, ordered=self.type.ordered)
        return pa.field(self.name, self.type)


def schema_of(columns: Iterable[TableColumn], *, raw: bool = False) -> pa.Schema:
    """Return the schema of a table, with or without its raw columns."""
    return pa.schema([column.field for column in columns if raw or not column.is_raw])


def documented(columns: Sequence[TableColumn]) -> Callable[[_Function], _Function]:
    """Replace the line ``{columns}`` of a docstring by a table of these columns.

    Docstrings also name the schema, because editors display the docstring from the source code, without the table.

    Docstrings also contain the name of the schema, because editors display the docstring of the source code.
    """

    def document(function: _Function) -> _Function:
        # With -OO, Python removes docstrings.
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
    rule = "  ".join("=" * width for width in widths)
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])


def value_fields(prefix: str) -> list[pa.Field]:
    """Return the fields of the three columns for the types of a value."""
    return [
        pa.field(f"{prefix}_num", pa.float64()),
        pa.field(f"{prefix}_text", pa.string()),
        pa.field(f"{prefix}_bool", pa.bool_()),
    ]


def number(value: Value) -> float | None:
    """Return a value for a ``_num`` column, which is ``None`` unless it is a number."""
    return float(value.python) if value.kind is ValueKind.NUMBER else None  # type: ignore[arg-type] # kind says so


_IN_TEXT_COLUMNS = frozenset({ValueKind.TEXT, ValueKind.TIME, ValueKind.OBJLINK, ValueKind.MULTIPLE})


def text(value: Value) -> str | None:
    """Return a value for a ``_text`` column: a string, an object link, a time, or a multiple resource as JSON."""
    return plain_text(value) if value.kind in _IN_TEXT_COLUMNS else None


def boolean(value: Value) -> bool | None:
    """Return a value for a ``_bool`` column, which is ``None`` unless it is a boolean."""
    return value.python if isinstance(value.python, bool) else None


def value_columns(prefix: str, values: Sequence[Value]) -> dict[str, list[object]]:
    """Return the three columns for the types of values."""
    return {
        f"{prefix}_num": [number(value) for value in values],
        f"{prefix}_text": [text(value) for value in values],
        f"{prefix}_bool": [boolean(value) for value in values],
    }


def table_metadata(
    device_ids: Iterable[object], taken_at: datetime | None, *, complete: bool, server: str
) -> dict[str, object]:
    """Return the metadata of a table, for ``attrs["mirror"]``.

    An empty table may have no timestamp.
    """
    return {
        "taken_at": None if taken_at is None else write_timestamp(taken_at),
        "devices": len({one for one in device_ids if one is not None}),
        "complete": complete,
        "server": server,
    }


def to_table(columns: Mapping[str, Sequence[object]], schema: pa.Schema) -> pa.Table:
    """Build a table with this schema from a mapping of columns."""
    return pa.Table.from_arrays([_array(columns[field.name], field) for field in schema], schema=schema)


def moment(name: str, value: object, now: Callable[[], datetime] = utc_now) -> str:
    """Convert a timestamp to the string for ``attrs``.

    Raises:
        InvalidValue: The value is not a time, it has no time zone, or it is outside the years 1 to 9999 in UTC.
    """
    return write_timestamp(instant(name, value, now))


def categories_of(field: pa.Field) -> list[str]:
    """Return the categories of a column with fixed categories. The list is empty for any other column."""
    categories: bytes = (field.metadata or {}).get(_CATEGORIES, b"")
    return categories.decode().split()


def fixed_category_array(indices: pa.Array, field: pa.Field) -> pa.DictionaryArray:
    """Build a column with fixed categories from the index of each category."""
    return pa.DictionaryArray.from_arrays(indices, categories_of(field), ordered=field.type.ordered)


def own(column: pa.Array) -> pa.Array:
    """Return a copy of a column.

    A slice of a batch would keep the entire batch in memory.
    """
    return pa.concat_arrays([column])


@lru_cache(maxsize=32)
def nulls(length: int, kind: pa.DataType) -> pa.Array:
    """Return a column of missing cells.

    The type can be any type except a category. The operating system does not allocate unused pages of zeros.
    """
    # One buffer serves as validity (all missing), offsets (all strings are empty) and values. There is one more offset
    # than cells.
    zeros = pa.py_buffer(np.zeros(length + 1, np.int64))
    return pa.Array.from_buffers(kind, length, [zeros] * kind.num_buffers, length)


def occurring(column: pa.DictionaryArray) -> pa.DictionaryArray:
    """Return a categorical column with only the categories that occur.

    A slice would keep all categories in memory.
    """
    words, indices = column.dictionary.cast(pa.string()), column.indices
    if indices[: len(words)].equals(pa.array(np.arange(len(words), dtype=np.int32))):
        # This is the usual order of the indices if the first device has all words.
        return words_at(own(indices), own(words))
    used = indices.dictionary_encode()
    return words_at(used.indices, words.take(used.dictionary))


def words_at(index: pa.Array, words: pa.StringArray) -> pa.DictionaryArray:
    """Build a categorical column from indices into words.

    Words may be repeated or missing.
    """
    encoded = words.dictionary_encode()
    if len(encoded.dictionary) == len(words):
        return pa.DictionaryArray.from_arrays(index.cast(pa.int32()), words)
    # These indices come from the dictionary itself, so Arrow does not need to check them.
    return pa.DictionaryArray.from_arrays(at(index, encoded.indices), encoded.dictionary, safe=False)


def at(index: pa.Array, numbers: pa.Int32Array) -> pa.Int32Array:
    """Return the element of ``numbers`` at each index."""
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
    """Return the columns of the concatenated tables.

    The list is emptied, so that only the columns stay in memory.
    """
    table = pa.concat_tables(tables)
    tables.clear()
    return dict(zip(table.column_names, table.columns, strict=True))


def concat_with_metadata(tables: list[pa.Table], metadata: Mapping[str, object], *, tz: str | None) -> pa.Table:
    """Concatenate tables, with one dictionary for each categorical column.

    The list is emptied to save memory.

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
    """Return the metadata of a table.

    The metadata of this package have precedence over the ``attrs`` that pandas wrote.
    """
    of_schema = table.schema.metadata or {}
    if _METADATA_KEY in of_schema:
        metadata: dict[str, Any] = json.loads(of_schema[_METADATA_KEY])
        return metadata
    of_pandas: dict[str, Any] = json.loads(of_schema.get(_OF_PANDAS, b"{}")).get("attributes", {}).get("mirror", {})
    return of_pandas


def table_in_zone(table: pa.Table, tz: str) -> pa.Table:
    """Return the table with its times in another time zone, such as ``Europe/Berlin``.

    Raises:
        InvalidValue: There is no such time zone.
    """
    try:
        ZoneInfo(tz)
    except (LookupError, TypeError, ValueError, OSError) as exc:
        raise InvalidValue(f"tz={tz!r} is not a time zone; write one like 'Europe/Berlin'") from exc
    fields = [
        field.with_type(pa.timestamp(field.type.unit, tz=tz)) if pa.types.is_timestamp(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields, metadata=table.schema.metadata))
