"""Error messages for queries, with the most similar names and hints for common mistakes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain

from mirror_sdk._arguments import closest
from mirror_sdk.sql.source import FUNCTIONS, ViewSource

_UNKNOWN_TABLE = re.compile(r"^Table(?: Function)? with name (.+) does not exist")
_UNKNOWN_COLUMN = re.compile(r'^(?:Referenced column|.*"(?P<table>.+)" does not have a column named) "(?P<name>.+?)"')
_POSITION = re.compile(r"^LINE [0-9]+: ", re.MULTILINE)
_QUOTED = re.compile(r"'[^']*'")
_COMPARED = re.compile(r"([\w.]+)\s*(=|<>|!=|i?like\b)\s*(\"[^\"]+\"|/\d[\d/*%]*|[a-z][\w:/-]*)", re.IGNORECASE)
_AGE = re.compile(r"\) *- *[0-9]+ *(?:ms|s|min|m|h|d|w)\b", re.IGNORECASE)
_TIMES = ("changed_at", "reported_at", "requested_at", "last_at", "last_contact")
_USUAL = {
    "id": ("device_id", "async_id"),
    "name": ("endpoint_name",),
    "value": ("value_num", "reported_num", "after_num"),
    "time": _TIMES,
    "timestamp": _TIMES,
}
"""Usual names of columns. The first column of the tables in the query is suggested."""


def names_of(source: ViewSource) -> str:
    """Return the names of all views and table functions of a source."""
    return ", ".join([*source.views, *(f"{name}({', '.join(FUNCTIONS[name])})" for name in source.functions)])


def explained(message: str, query: str, source: ViewSource, tables: Mapping[str, str]) -> str:
    """Return an error message of DuckDB for a query, with similar names and a hint.

    Args:
        message: The message.
        query: The query.
        source: The source of the tables.
        tables: The tables of the query by their alias or name.
    """
    kind, _, text = message.partition(": ")
    at = _POSITION.search(text)
    head, position = (text[: at.start()].rstrip(), text[at.start() :]) if at else (text, "")
    fault = head.partition("\n")[0]
    if found := _UNKNOWN_TABLE.search(fault):
        fault = _unknown_table(found[1], source)
    elif found := _UNKNOWN_COLUMN.search(fault):
        fault = _unknown_column(found["name"], found["table"], source, tables) + _unquoted(
            query, rf"{re.escape(found['name'])}\b"
        )
    elif ("STRING_LITERAL" in fault and "-(TIMESTAMP" in fault) or ("syntax" in fault and _AGE.search(query)):
        fault = "only an interval can be subtracted from a time; write now() - interval 1 hour"
    elif "timestamp field" in fault:
        fault += "; write a time as '2026-01-31 08:00' or now() - interval 1 hour"
    else:
        fault = (head.removesuffix("!") if kind.endswith("Error") else message) + _unquoted(query, "/")
    # A query that was rewritten has other positions. DuckDB shortens long lines with dots.
    line = position.partition("\n")[0].partition(": ")[2].strip(".")
    return f"{fault}\n\n{position}" if line and line in query else fault


def _unknown_table(name: str, source: ViewSource) -> str:
    if name.lower() in source.functions:
        return f"{name} needs an instant: {name.lower()}('2h')"
    similar = closest(name, [*source.views, *source.functions])
    return f"there is no view {name!r}; {similar} ({source.name} has {names_of(source)})"


def _unknown_column(name: str, alias: str | None, source: ViewSource, tables: Mapping[str, str]) -> str:
    schemas = {**source.views, **source.functions}
    read = [tables[alias]] if alias is not None and alias in tables else tables.values()
    named = [schemas[one].names for one in read if one in schemas] or [schema.names for schema in schemas.values()]
    # A column of this name exists in a part of the query that cannot be used here.
    columns = [one for one in dict.fromkeys(chain.from_iterable(named)) if one != name]
    usual = next((one for one in _USUAL.get(name.lower(), ()) if one in columns), None)
    return f"there is no column {name!r}; {f'similar: {usual}' if usual else closest(name, columns)}"


def _unquoted(query: str, begin: str) -> str:
    """Return a hint for a text without quotes that matches a regular expression, or an empty string."""
    for column, operator, text in _COMPARED.findall(_QUOTED.sub("''", query)):
        word = text.strip('"')
        if re.match(begin, word):
            return f"; put text in single quotes: {column} {operator} '{word}'"
    return ""
