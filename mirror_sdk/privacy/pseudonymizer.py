"""The replacement of personal data in the columns of one table, for tables of any library."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mirror_sdk.arrow_tables.columns import categories_of
from mirror_sdk.arrow_tables.events import EVENTS_SCHEMA
from mirror_sdk.arrow_tables.history import HISTORY_SCHEMA
from mirror_sdk.arrow_tables.state import STATE_SCHEMA
from mirror_sdk.device_lookup import known_id
from mirror_sdk.errors import InvalidValue
from mirror_sdk.privacy.cells import Cells, Replace, Rows
from mirror_sdk.privacy.personal_columns import (
    NOT_VALUES,
    Treatment,
    has_scale_of_values,
    is_known_text,
    is_path,
    is_value_column,
    treatment_of,
    word_of_column,
)
from mirror_sdk.privacy.pseudonyms import Pseudonyms
from mirror_sdk.wire.object_definitions import Personal

REPORT = "pseudonymized"
"""The name of the report in the metadata of a table."""

_UNCHANGED_METADATA = (
    *("taken_at", "devices", "complete", "one_instant", "begin", "end", "oldest_at", "seq", "position", "rows"),
)
"""The metadata that do not identify any device or person."""
_FIXED = [field.name for field in (*STATE_SCHEMA, *EVENTS_SCHEMA, *HISTORY_SCHEMA) if categories_of(field)]
_OWN_WORDS = frozenset({"path", "label", "method", "kind", "decision", "check", "state", *_FIXED})
"""The columns whose strings are words of this package. A device may have such a word as its name."""
_SHORTEST_WITHIN = 4
"""The minimum length of a name that is searched for within other strings.

A shorter name must equal the complete string.
"""
_DEVICE = "device"
"""A column that :meth:`mirror_sdk.MirrorClient.plan` accepts for ids or endpoint names."""
_DECIMALS = 1
_MOST_DEGREES = 360


@dataclass(slots=True)
class Column:
    """A column of a table, or a level of an index.

    Attributes:
        name: The name of the column; ``None`` if it has no name.
        cells: The cells of the column.
        path: The path of the resource whose values are in the column, for a column of a wide table.
    """

    name: object
    cells: Cells
    path: str | None = None

    @property
    def label(self) -> str:
        """The name for the report.

        It is the path for a column of a wide table, because the name of such a column may contain a device.
        """
        return self.path or str(self.name)


class Pseudonymizer:
    """The replacement of personal data in the columns of one table. The replacements are counted.

    Args:
        key: The key of the pseudonyms.
        also: Additional strings to search for in the remaining strings.

    Raises:
        InvalidValue: The key is too short, or is neither a string nor bytes.
    """

    def __init__(self, key: str | bytes, also: Iterable[str]) -> None:
        self._pseudonyms = Pseudonyms(key)
        self._report: list[dict[str, object]] = []
        self._originals: set[str] = set(also)
        self._lengths: dict[str, set[int]] = {}
        self._indexed_count = 0

    def __repr__(self) -> str:
        return "<Pseudonymizer>"

    def replace_in(self, columns: Sequence[Column]) -> None:
        """Replace the personal data in all columns of a table.

        Raises:
            InvalidValue: There are values without a column of their paths, or a column contains lists.
        """
        _check_plain(columns)
        paths = {str(column.name): column.cells for column in columns if _has_paths(column)}
        words: list[tuple[Column, Rows | None]] = []
        unchanged: list[tuple[Column, Rows | None]] = []
        unknown: list[tuple[Column, Rows | None]] = []
        for column in columns:
            if (word := word_of_column(column.name)) is not None:
                self._add_report(column, None, Personal.IDENTIFIER, column.cells.count())
                column.cells.replace(self.replacement(word))
            elif column.path is not None:
                if (treatment := treatment_of(column.path)) is not None:
                    self._treat(column, treatment, None)
                elif column.cells.has_texts:
                    unchanged.append((column, None))
            elif column.name in _OWN_WORDS or column.name in paths:
                if column.name not in _FIXED:
                    # The strings stay unchanged. The column is still rewritten, because it may store strings of rows
                    # that were removed.
                    column.cells.replace(lambda value: value)
            elif column.name in NOT_VALUES or column.cells.is_temporal:
                if column.cells.has_texts:
                    words.append((column, None))
            elif column.cells.has_texts and not is_known_text(column.name):
                unknown.append((column, self._replace_values(column, paths)))
            else:
                unchanged.append((column, self._replace_values(column, paths)))
        # Words such as labels come first, because they may occur in an unknown column too.
        self._replace_leaks(words)
        for column, rows in unknown:
            self._replace_unknown(column, rows)
        self._replace_leaks(unchanged)

    def replacement(self, word: str) -> Replace:
        """Return a function that replaces strings and numbers with pseudonyms. The pseudonyms begin with ``word``."""

        def replace(original: Any) -> Any:
            # pandas converts a name such as 0012 to a number.
            is_text = isinstance(original, str | bytes)
            return self._text(word, word, original) if is_text else self._number(word, original)

        return replace

    def replacement_of_unknown(self, name: object) -> Replace:
        """Return the function that replaces values of a column that may contain any strings.

        Ids get the pseudonyms of ids. Other strings of a column ``device`` get the pseudonyms of names. All other
        values stay unchanged.
        """
        word = "name" if name == _DEVICE else "text"

        def replace(original: Any) -> Any:
            if not isinstance(original, str | bytes):
                return original
            kind = "device" if _is_id(original) else word
            return self._text(kind, kind, original)

        return replace

    def column_name(self, name: Any) -> Any:
        """Return the name of a column.

        It is a pseudonym if the name is an id, or if it contains a string that was replaced elsewhere.
        """
        if _is_id(name):
            return self._text("device", "device", name)
        leaks = isinstance(name, str) and self._leaks([name])
        return self._text("text", "text", name) if leaks else name

    def metadata(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata of a table without personal data, but with the report of the replacements."""
        unchanged = {name: metadata[name] for name in _UNCHANGED_METADATA if name in metadata}
        servers = [one for one in str(metadata.get("server") or "").split(", ") if one]
        if "server" in metadata:
            unchanged["server"] = ", ".join(str(self._text("server", "server", one)) for one in servers)
        return {**unchanged, REPORT: [{**line, "column": self.column_name(line["column"])} for line in self._report]}

    def check_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Check the metadata of a table before anything is replaced.

        Raises:
            InvalidValue: The table is already pseudonymized.
        """
        if REPORT in metadata:
            raise InvalidValue("the table has pseudonyms already; use the original table")
        # A requested device may have no row in the table, but its id may still occur in a string.
        selection = metadata.get("selection") or {}
        self._originals.update(map(str, selection.get("device_ids") or ()))

    def _replace_values(self, column: Column, paths: Mapping[str, Cells]) -> Rows | None:
        """Replace the personal values of resources in a column.

        Return the rows that were not replaced, or ``None`` for all rows.

        Raises:
            InvalidValue: The column has values, but no column has their paths.
        """
        if not paths and is_value_column(column.name):
            raise InvalidValue(
                f"the column {column.name} contains values, but the table has no column path that says which resources"
                " they belong to; pseudonymize the table before you drop path"
            )
        left: Rows | None = None
        for cells in _paths_of(column, paths):
            for treatment, found in _treatments(cells).items():
                rows = cells.rows_with(found)
                self._treat(column, treatment, rows)
                left = ~rows if left is None else left & ~rows
        return left

    def _replace_unknown(self, column: Column, rows: Rows | None) -> None:
        """Replace the strings of a column that may contain any strings."""
        if any(isinstance(value, str | bytes) for value in column.cells.values(rows)):
            self._add_report(column, None, "unknown", column.cells.count(rows))
        column.cells.replace(self.replacement_of_unknown(column.name), rows)

    def _treat(self, column: Column, treatment: Treatment, rows: Rows | None) -> None:
        if treatment.how is None and not column.cells.has_texts:
            return
        if count := column.cells.count(rows):
            self._add_report(column, treatment.resource, treatment.how or "undeclared", count)
            if treatment.how is Personal.PLACE and not (column.path or has_scale_of_values(column.name)):
                # On another scale, such as millionths of degrees, rounding does not hide anything.
                treatment = treatment._replace(how=Personal.HIDDEN)
            column.cells.replace(partial(self._value, treatment), rows)

    def _value(self, treatment: Treatment, original: Any) -> Any:
        if treatment.how is Personal.HIDDEN:
            return None
        if treatment.how is Personal.PLACE:
            return _coarse(original)
        if isinstance(original, str | bytes):
            return self._text(treatment.resource, treatment.word, original)
        return original if treatment.how is None else self._number(treatment.resource, original)

    def _number(self, kind: str, original: Any) -> float | None:
        """Return the pseudonym of a number.

        The result is ``None`` for any other value, including a boolean, which has only two values.
        """
        if not _is_number(original):
            return None
        pseudonym = self._pseudonyms.number(kind, original)
        return pseudonym if isinstance(original, numbers.Integral) else float(pseudonym)

    def _text(self, kind: str, word: str, original: str | bytes) -> str | bytes:
        pseudonym = self._pseudonyms.text(kind, word, original)
        if isinstance(original, bytes):
            return pseudonym.encode()
        self._originals.add(original)
        return pseudonym

    def _replace_leaks(self, columns: Sequence[tuple[Column, Rows | None]]) -> None:
        """Replace the strings that were not replaced yet but contain a string that was replaced elsewhere."""
        for column, rows in columns:
            texts = {value: _as_text(value) for value in column.cells.values(rows) if isinstance(value, str | bytes)}
            leaks = self._leaks(texts.values())
            found = {value: self._text("text", "text", value) for value, text in texts.items() if text in leaks}
            if found:
                self._add_report(column, None, "within", len(found))
            # The column is rewritten even if nothing was found, because it may still store strings of rows that were
            # removed.
            if column.cells.has_texts:
                column.cells.replace(partial(_replaced, found), rows)

    def _leaks(self, texts: Iterable[str]) -> set[str]:
        """Return the strings that are ids or contain a string that was replaced."""
        if len(self._originals) != self._indexed_count:
            # Originals are only added and never removed.
            self._lengths, self._indexed_count = _lengths_by_beginning(self._originals), len(self._originals)
        lengths = self._lengths
        return {
            text
            for text in texts
            if text in self._originals or _is_id(text) or _occurs_in(text, self._originals, lengths)
        }

    def _add_report(self, column: Column, resource: str | None, how: str, cells: int) -> None:
        self._report.append({"column": column.label, "resource": resource, "how": str(how), "cells": cells})


def _check_plain(columns: Sequence[Column]) -> None:
    for column in columns:
        if not column.cells.is_plain:
            raise InvalidValue(
                f"the column {column.label} has lists, structures or other containers in its cells, which are not"
                " searched for names; create a row for each of them (explode), or drop the column"
            )


def _lengths_by_beginning(words: Iterable[str]) -> dict[str, set[int]]:
    """Return the lengths of the words, grouped by their first few characters."""
    lengths: dict[str, set[int]] = {}
    for word in words:
        if len(word) >= _SHORTEST_WITHIN:
            lengths.setdefault(word[:_SHORTEST_WITHIN], set()).add(len(word))
    return lengths


def _occurs_in(text: str, words: AbstractSet[str], lengths: Mapping[str, AbstractSet[int]]) -> bool:
    """Return whether any of the words occurs in a string.

    The time depends on the length of the string and not on the number of words.
    """
    return any(
        text[begin : begin + length] in words
        for begin in range(len(text) - _SHORTEST_WITHIN + 1)
        for length in lengths.get(text[begin : begin + _SHORTEST_WITHIN], ())
    )


def _has_paths(column: Column) -> bool:
    """Return whether a column, under any name, contains the resource paths of the rows."""
    if column.name == "path" or not column.cells.has_texts or is_value_column(column.name):
        return column.name == "path"
    values = column.cells.values()
    return bool(values) and all(map(is_path, values))


def _paths_of(column: Column, paths: Mapping[str, Cells]) -> list[Cells]:
    """Return the columns with the paths of a column's values.

    After a join, it is the column with the same suffix, or else all columns of paths.
    """
    suffixes = {name: name.removeprefix("path") for name in paths if name.startswith("path") and name != "path"}
    own = [paths[name] for name, suffix in suffixes.items() if str(column.name).endswith(suffix)]
    return own or list(paths.values())


def _is_id(value: object) -> bool:
    return isinstance(value, str | bytes) and bool(known_id("value", _as_text(value)))


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def _replaced(found: Mapping[Any, Any], value: Any) -> Any:
    return found.get(value, value)


def _treatments(paths: Cells) -> dict[Treatment, list[str]]:
    """Return the paths that occur, grouped by treatment."""
    found: dict[Treatment, list[str]] = {}
    for path in paths.values():
        if (treatment := treatment_of(path)) is not None:
            found.setdefault(treatment, []).append(path)
    return found


def _coarse(original: Any) -> Any:
    """Return a coordinate rounded to tenths of degrees, in its former type.

    The result is ``None`` if the value is not a number of degrees.
    """
    if not (isinstance(original, str | bytes) or _is_number(original)):
        return None
    try:
        degrees = round(float(original), _DECIMALS)
    except (ValueError, OverflowError):
        return None
    # The number is not in degrees, so rounding would not hide anything.
    if abs(degrees) > _MOST_DEGREES:
        return None
    if isinstance(original, str | bytes):
        return str(degrees) if isinstance(original, str) else str(degrees).encode()
    return degrees


def _as_text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")
