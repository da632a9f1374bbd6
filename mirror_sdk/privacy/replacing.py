"""What is replaced in a table, whatever form it has: its columns are seen as cells, which are replaced by value."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from mirror_sdk.errors import InvalidValue
from mirror_sdk.naming import known_id
from mirror_sdk.privacy.personal import (
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
from mirror_sdk.tables.columns import categories_of
from mirror_sdk.tables.events import EVENTS_SCHEMA
from mirror_sdk.tables.history import HISTORY_SCHEMA
from mirror_sdk.tables.state import STATE_SCHEMA
from mirror_sdk.wire.declarations import Personal

Rows: TypeAlias = "npt.NDArray[np.bool_]"
Replace: TypeAlias = Callable[[Any], Any]
"""Gives what takes the place of a value; ``None`` is nothing."""

REPORT = "pseudonymized"
"""The name under which the report stands in what a table is based on."""

_KEPT_ABOUT = ("taken_at", "devices", "complete", "one_instant", "begin", "end", "oldest_at", "seq", "position", "rows")
"""What of the basis of a table tells of no device and no person."""
_FIXED = [field.name for field in (*STATE_SCHEMA, *EVENTS_SCHEMA, *HISTORY_SCHEMA) if categories_of(field)]
_OWN_WORDS = frozenset({"path", "label", "method", "kind", "decision", "check", "state", *_FIXED})
"""Columns whose texts are words of this package, of which a device may have one as its name."""
_LEAST_WITHIN = 4
"""The fewest characters of a name that is looked for within other texts; a shorter one is found as a whole alone."""
_DEVICE = "device"
"""A column that :meth:`mirror_sdk.MirrorClient.plan` takes for ids or endpoint names."""
_PLACES = 1
_MOST_DEGREES = 360


class Cells(Protocol):
    """The cells of a column."""

    @property
    def is_plain(self) -> bool:
        """Whether each is one value, and not a list, a structure or something else with values within."""

    @property
    def has_words(self) -> bool:
        """Whether some may be texts or bytes."""

    @property
    def is_temporal(self) -> bool:
        """Whether they are times or spans of time."""

    def values(self, rows: Rows | None = None) -> list[Any]:
        """Those that occur, each once, without what is missing."""

    def count(self, rows: Rows | None = None) -> int:
        """How many are not missing."""

    def places_of(self, values: Iterable[str]) -> Rows:
        """Where one of these stands."""

    def replace(self, replace: Replace, rows: Rows | None = None) -> None:
        """Put something else in the place of each, where it stands in these rows; nothing else of it is left."""


@dataclass(slots=True)
class FrameColumn:
    """A column or a level of an index.

    Attributes:
        name: Its name; ``None`` for none.
        cells: Its cells.
        path: The resource whose values they are, where the column is one of a wide table.
    """

    name: object
    cells: Cells
    path: str | None = None

    @property
    def told(self) -> str:
        """What it is called in the report; the name of a column of a wide table may have a device in it."""
        return self.path or str(self.name)


class Replacing:
    """Replaces what is personal in the columns of one table, and counts it.

    Args:
        key: The key of the pseudonyms.
        also: Texts that are looked for in those that stay.

    Raises:
        InvalidValue: It is no key, or too short.
    """

    def __init__(self, key: str | bytes, also: Iterable[str]) -> None:
        self._pseudonyms = Pseudonyms(key)
        self._report: list[dict[str, object]] = []
        self._originals: set[str] = set(also)
        self._lengths: dict[str, set[int]] = {}
        self._indexed_count = 0

    def __repr__(self) -> str:
        return "<Replacing>"

    def columns(self, columns: Sequence[FrameColumn]) -> None:
        """Replace what is personal in all columns of a table.

        Raises:
            InvalidValue: There are values, and no column says of which resource they are; or a column has lists.
        """
        for column in columns:
            if not column.cells.is_plain:
                raise InvalidValue(
                    f"the column {column.told} has lists, structures or other values within its cells, in which nobody"
                    " looks for names; have a row for each of them (explode), or leave the column out"
                )
        paths = {str(column.name): column.cells for column in columns if _has_paths(column)}
        words: list[tuple[FrameColumn, Rows | None]] = []
        kept: list[tuple[FrameColumn, Rows | None]] = []
        unknown: list[tuple[FrameColumn, Rows | None]] = []
        for column in columns:
            if (word := word_of_column(column.name)) is not None:
                self._count(column, None, None)
                column.cells.replace(self.word(word))
            elif column.path is not None:
                kept += self._of_resource(column)
            elif column.name in _OWN_WORDS or column.name in paths:
                if column.name not in _FIXED:
                    # They stay; what was cut away from the column may still be behind it.
                    column.cells.replace(_same)
            elif column.name in NOT_VALUES or column.cells.is_temporal:
                if column.cells.has_words:
                    words.append((column, None))
            elif column.cells.has_words and not is_known_text(column.name):
                unknown.append((column, self._values(column, paths)))
            else:
                kept.append((column, self._values(column, paths)))
        # Words such as labels are looked at first: they may stand in an unknown column too.
        self._look_within(words)
        for column, rows in unknown:
            self._unknown(column, rows)
        self._look_within(kept)

    def word(self, word: str) -> Replace:
        """Replaces texts by pseudonyms of a kind."""

        def replace(original: Any) -> Any:
            # Of a name such as 0012 pandas makes a number.
            is_text = isinstance(original, str | bytes)
            return self._text(word, word, original) if is_text else self._number(word, original)

        return replace

    def unknown(self, name: object) -> Replace:
        """Replaces texts that may be anything: those that are ids as ids, and those of a column ``device`` as names."""
        word = "name" if name == _DEVICE else "text"

        def replace(original: Any) -> Any:
            if not isinstance(original, str | bytes):
                return original
            kind = "device" if _is_id(original) else word
            return self._text(kind, kind, original)

        return replace

    def within(self, name: Any) -> Any:
        """The name of a column; a pseudonym if it is an id, or one occurs in it that was replaced elsewhere."""
        if _is_id(name):
            return self._text("device", "device", name)
        leaks = isinstance(name, str) and self._leaks([name])
        return self._text("text", "text", name) if leaks else name

    def about(self, about: Mapping[str, Any]) -> dict[str, Any]:
        """What a table is based on, without what is personal, and with the report of what was replaced.

        Raises:
            InvalidValue: The table has pseudonyms already.
        """
        kept = {name: about[name] for name in _KEPT_ABOUT if name in about}
        servers = [one for one in str(about.get("server") or "").split(", ") if one]
        if "server" in about:
            kept["server"] = ", ".join(str(self._text("server", "server", one)) for one in servers)
        return {**kept, REPORT: [{**line, "column": self.within(line["column"])} for line in self._report]}

    def expect(self, about: Mapping[str, Any]) -> None:
        """Look at what a table is based on before anything is replaced.

        Raises:
            InvalidValue: The table has pseudonyms already.
        """
        if REPORT in about:
            raise InvalidValue("the table has pseudonyms already; take the one it was made of")
        selection = about.get("selection") or {}
        self._originals.update(map(str, selection.get("device_ids") or ()))

    def _values(self, column: FrameColumn, paths: Mapping[str, Cells]) -> Rows | None:
        """Replace what is personal in a column that may have values; gives the rows that were left, ``None`` for all.

        Raises:
            InvalidValue: It has values, and no column says of which resources.
        """
        if not paths and is_value_column(column.name):
            raise InvalidValue(
                f"the table lacks the column path, so nobody knows whose values {column.name} has; take a table with"
                " its paths, and leave them out afterwards"
            )
        left: Rows | None = None
        for cells in _paths_of(column, paths):
            for treatment, found in _treatments(cells).items():
                rows = cells.places_of(found)
                self._treat(column, treatment, rows)
                left = ~rows if left is None else left & ~rows
        return left

    def _unknown(self, column: FrameColumn, rows: Rows | None) -> None:
        """Replace the texts of a column that is not known to have no names."""
        if any(isinstance(value, str | bytes) for value in column.cells.values(rows)):
            cells = column.cells.count(rows)
            self._report.append({"column": column.told, "resource": None, "how": "unknown", "cells": cells})
        column.cells.replace(self.unknown(column.name), rows)

    def _of_resource(self, column: FrameColumn) -> list[tuple[FrameColumn, Rows | None]]:
        """Replace the values of one resource; gives the column where they were left."""
        treatment = treatment_of(column.path or "")
        if treatment is None:
            return [(column, None)] if column.cells.has_words else []
        self._treat(column, treatment, None)
        return []

    def _treat(self, column: FrameColumn, treatment: Treatment, rows: Rows | None) -> None:
        if treatment.how is None and not column.cells.has_words:
            return
        if column.cells.count(rows):
            self._count(column, treatment, rows)
            if treatment.how is Personal.PLACE and not (column.path or has_scale_of_values(column.name)):
                # Rounding tells of another scale, such as millionths of degrees, where exactly it is.
                treatment = treatment._replace(how=Personal.HIDDEN)
            column.cells.replace(lambda original: self._value(treatment, original), rows)

    def _value(self, treatment: Treatment, original: Any) -> Any:
        if treatment.how is Personal.HIDDEN:
            return None
        if treatment.how is Personal.PLACE:
            return _coarse(original)
        if isinstance(original, str | bytes):
            return self._text(treatment.resource, treatment.word, original)
        return original if treatment.how is None else self._number(treatment.resource, original)

    def _number(self, kind: str, original: Any) -> float | None:
        """The pseudonym of a number; nothing for a boolean, which has only two, and for anything else."""
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

    def _look_within(self, columns: Sequence[tuple[FrameColumn, Rows | None]]) -> None:
        """Replace the texts that stayed and in which one occurs that was replaced elsewhere."""
        for column, rows in columns:
            told = {value: _as_text(value) for value in column.cells.values(rows) if isinstance(value, str | bytes)}
            leaks = self._leaks(told.values())
            found = {value: self._text("text", "text", value) for value, text in told.items() if text in leaks}
            if found:
                self._report.append({"column": column.told, "resource": None, "how": "within", "cells": len(found)})
            # Also where nothing was found: what was cut away from a text column may still be behind it.
            if column.cells.has_words:
                column.cells.replace(partial(_replaced, found), rows)

    def _leaks(self, texts: Iterable[str]) -> set[str]:
        """Those that are ids, or in which a text occurs that was replaced."""
        if len(self._originals) != self._indexed_count:
            # Originals are only ever added.
            self._lengths, self._indexed_count = _lengths_by_beginning(self._originals), len(self._originals)
        lengths = self._lengths
        return {
            text
            for text in texts
            if text in self._originals or _is_id(text) or _occurs_in(text, self._originals, lengths)
        }

    def _count(self, column: FrameColumn, treatment: Treatment | None, rows: Rows | None) -> None:
        self._report.append(
            {
                "column": column.told,
                "resource": treatment and treatment.resource,
                "how": str((treatment.how or "undeclared") if treatment else Personal.IDENTIFIER),
                "cells": column.cells.count(rows),
            }
        )


def _lengths_by_beginning(words: Iterable[str]) -> dict[str, set[int]]:
    """How long the words are that begin with the same few characters."""
    lengths: dict[str, set[int]] = {}
    for word in words:
        if len(word) >= _LEAST_WITHIN:
            lengths.setdefault(word[:_LEAST_WITHIN], set()).add(len(word))
    return lengths


def _occurs_in(text: str, words: AbstractSet[str], lengths: Mapping[str, AbstractSet[int]]) -> bool:
    """Whether one of many words occurs in a text; it takes as long as the text is, however many they are."""
    return any(
        text[begin : begin + length] in words
        for begin in range(len(text) - _LEAST_WITHIN + 1)
        for length in lengths.get(text[begin : begin + _LEAST_WITHIN], ())
    )


def _has_paths(column: FrameColumn) -> bool:
    """Whether a column says of which resources the rows are, whatever name a join or a program gave it."""
    if column.name == "path" or not column.cells.has_words or is_value_column(column.name):
        return column.name == "path"
    values = column.cells.values()
    return bool(values) and all(map(is_path, values))


def _paths_of(column: FrameColumn, paths: Mapping[str, Cells]) -> list[Cells]:
    """The columns that say whose values a column has: after a join the one with the same suffix, or any of them."""
    suffixes = {name: name.removeprefix("path") for name in paths if name.startswith("path") and name != "path"}
    own = [paths[name] for name, suffix in suffixes.items() if str(column.name).endswith(suffix)]
    return own or list(paths.values())


def _is_id(value: object) -> bool:
    return isinstance(value, str | bytes) and bool(known_id("value", _as_text(value)))


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def _same(value: Any) -> Any:
    return value


def _replaced(found: Mapping[Any, Any], value: Any) -> Any:
    return found.get(value, value)


def _treatments(paths: Cells) -> dict[Treatment, list[str]]:
    """What is to be done, with the paths that occur for which it is."""
    found: dict[Treatment, list[str]] = {}
    for path in paths.values():
        if (treatment := treatment_of(path)) is not None:
            found.setdefault(treatment, []).append(path)
    return found


def _coarse(original: Any) -> Any:
    """A coordinate in tenths of degrees, in the form it came in; nothing where it is no number of degrees."""
    if not (isinstance(original, str | bytes) or _is_number(original)):
        return None
    try:
        degrees = round(float(original), _PLACES)
    except (ValueError, OverflowError):
        return None
    if abs(degrees) > _MOST_DEGREES:
        return None
    if isinstance(original, str | bytes):
        return str(degrees) if isinstance(original, str) else str(degrees).encode()
    return degrees


def _as_text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode(errors="replace")
