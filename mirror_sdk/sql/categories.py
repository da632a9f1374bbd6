"""Conversion of string columns to the categorical columns of the tables."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.arrow_tables.columns import categories_of, fixed_category_array


def categorical(column: pa.ChunkedArray, field: pa.Field) -> tuple[pa.Field, pa.ChunkedArray]:
    """Return a column of strings with the categories of a field, and its own field.

    The column stays a column of strings if the categories of the field are fixed and it contains other strings.
    """
    categories = categories_of(field)
    words = column.combine_chunks()
    if not categories:
        return field, pa.chunked_array([words.dictionary_encode().cast(field.type)])
    codes = pc.index_in(words, pa.array(categories)).cast(field.type.index_type)
    if codes.null_count > words.null_count:
        # The query has computed other strings.
        return pa.field("", words.type), column
    return field, pa.chunked_array([fixed_category_array(codes, field)])


def with_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of a schema, whose categories may have other types in the table."""
    columns = [
        categorical(table[field.name].cast(pa.string()), field)[1]
        if pa.types.is_dictionary(field.type)
        else table[field.name].cast(field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)
