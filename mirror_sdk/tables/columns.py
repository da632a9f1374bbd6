"""How tables are built: by column, from a pyarrow schema that defines names, types and order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from mirror_sdk._arguments import instant
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import utc_now
from mirror_sdk.values import Value, ValueKind, plain_text
from mirror_sdk.wire.model import write_timestamp

CATEGORY = pa.dictionary(pa.int32(), pa.string())
INSTANT = pa.timestamp("ms", tz="UTC")
_OFFSET_BITS, _WIDEST_BYTES = 32, 8
_CATEGORIES = b"categories"
_ABOUT = b"mirror"
_OF_PANDAS = b"pandas"


def fixed_category(name: str, categories: Sequence[str], *, ordered: bool = False) -> pa.Field:
    """A column whose categories are always these, in this order, whatever occurs in it."""
    arrow_type = pa.dictionary(pa.int8(), pa.string(), ordered=ordered)
    return pa.field(name, arrow_type, metadata={_CATEGORIES: " ".join(categories)})


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
        InvalidValue: It is no time, has no time zone, or lies beyond the years 1 to 9999 in UTC.
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
    """A column, but for a category column, in which nothing stands; all of them share their memory."""
    is_of_bytes = pa.types.is_string(kind) or pa.types.is_binary(kind)
    # Whether there are some; and where each begins, and no bytes, or the cells.
    bits = [length, _OFFSET_BITS * (length + 1), 0] if is_of_bytes else [length, kind.bit_width * length]
    zeros = _zeros((_WIDEST_BYTES * (length + 1)).bit_length())
    return pa.Array.from_buffers(kind, length, [zeros.slice(0, -(-size // 8)) for size in bits], length)


@lru_cache(maxsize=2)
def _zeros(bit_length: int) -> pa.Buffer:
    """As many bytes as a number of this bit length tells at most."""
    return pa.py_buffer(bytes(1 << bit_length))


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


def taken_apart(tables: list[pa.Table]) -> dict[str, pa.ChunkedArray]:
    """The columns of the tables one after another. The list is emptied, so that nothing but the columns is left."""
    whole = pa.concat_tables(tables)
    tables.clear()
    return dict(zip(whole.column_names, whole.columns, strict=True))


def whole_table(tables: list[pa.Table], about: Mapping[str, object], *, tz: str | None) -> pa.Table:
    """The tables one after another, with one dictionary for each category column; the list is emptied.

    Raises:
        InvalidValue: ``tz`` is no time zone.
    """
    whole = with_basis(pa.concat_tables(tables).unify_dictionaries(), about)
    tables.clear()
    return whole if tz is None else table_in_zone(whole, tz)


def with_basis(table: pa.Table, about: Mapping[str, object]) -> pa.Table:
    """The table with what it is based on in the metadata of its schema, as JSON under ``mirror``."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _ABOUT: json.dumps(dict(about))})


def basis_of_table(table: pa.Table) -> dict[str, Any]:
    """What a table is based on, as its metadata tell it: those of this package, else those that pandas wrote."""
    metadata = table.schema.metadata or {}
    if _ABOUT in metadata:
        about: dict[str, Any] = json.loads(metadata[_ABOUT])
        return about
    of_pandas: dict[str, Any] = json.loads(metadata.get(_OF_PANDAS, b"{}")).get("attributes", {}).get("mirror", {})
    return of_pandas


def table_in_zone(table: pa.Table, tz: str) -> pa.Table:
    """The same table with its times in another zone, such as ``Europe/Berlin``.

    Raises:
        InvalidValue: There is no such time zone.
    """
    try:
        ZoneInfo(tz)
    except (LookupError, TypeError, ValueError, OSError) as exc:
        raise InvalidValue(f"tz={tz!r} is no time zone ({exc}); write one like 'Europe/Berlin'") from exc
    fields = [
        field.with_type(pa.timestamp(field.type.unit, tz=tz)) if pa.types.is_timestamp(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields, metadata=table.schema.metadata))
