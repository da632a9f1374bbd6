"""Checks of a query before it runs, and the rewriting of its table functions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

import duckdb

from mirror_sdk._arguments import instant, is_span
from mirror_sdk.errors import InvalidValue
from mirror_sdk.sql.conditions import text_after
from mirror_sdk.sql.faults import names_of
from mirror_sdk.sql.source import FUNCTIONS, ViewSource

_READING = "a query only reads; write one statement that begins with select, from, with, describe or summarize"
_LIKE = "~~"
_TEXTS = {"device_id", "endpoint_name", "path"}
_OPTIONAL = {"end"}


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a table function in a query.

    Attributes:
        view: The name of the view that replaces the call.
        function: The name of the function.
        instants: The arguments.
    """

    view: str
    function: str
    instants: tuple[datetime, ...]


def check_statement(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    """Check that a query is one statement that only reads.

    Raises:
        InvalidValue: It is not.
        duckdb.Error: The query cannot be parsed.
    """
    statements = connection.extract_statements(query)
    pivot = "; a pivot needs the list of its columns: on COLUMN in (VALUES)" if "pivot" in query.lower() else ""
    if len(statements) != 1:
        count = "no statement" if not statements else f"{len(statements)} statements"
        raise InvalidValue(f"the query has {count}; {_READING}{pivot}")
    kind = statements[0].type
    if kind == duckdb.StatementType.EXPLAIN:
        raise InvalidValue("explain is not supported; pass explain=True (--explain) to see what the query fetches")
    if kind != duckdb.StatementType.SELECT:
        raise InvalidValue(f"the query is a statement of the kind {kind.name}; {_READING}{pivot}")
    if statements[0].named_parameters:
        names = ", ".join(sorted(statements[0].named_parameters))
        raise InvalidValue(f"the query has parameters ({names}); write the values into the query")


def rewrite(
    connection: duckdb.DuckDBPyConnection, query: str, source: ViewSource, now: Callable[[], datetime]
) -> tuple[str, list[FunctionCall]]:
    """Return the query with a view instead of each call of a table function, and these calls.

    A condition ``path like '/3303/%'`` gets an equivalent range, which DuckDB passes to the view.

    Raises:
        InvalidValue: An argument of a table function is not a time, or the source does not have the function.
        duckdb.Error: The query cannot be parsed.
    """
    tree = json.loads(_value(connection, "select json_serialize_sql(?)", query))
    if tree["error"]:
        # Some statements that only read cannot be serialized. They have no table functions.
        return query, []
    calls: list[FunctionCall] = []
    is_changed = False
    for node in list(_nodes(tree)):
        if node.get("type") == "TABLE_FUNCTION" and node["function"]["function_name"].lower() in FUNCTIONS:
            calls.append(_call(connection, query, node, source, now, len(calls)))
            _replace(node, _table(connection, calls[-1], node))
            is_changed = True
        elif node.get("function_name") == _LIKE:
            is_changed = _add_range(connection, node) or is_changed
    return (
        _value(connection, "select json_deserialize_sql(?::json)", json.dumps(tree)) if is_changed else query
    ), calls


def tables_of(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, str]:
    """Return the tables and functions that a query reads, by their alias or else by their name."""
    names = [
        (node["alias"], str(node.get("table_name") or node["function"]["function_name"]).lower())
        for node in _nodes(json.loads(_value(connection, "select json_serialize_sql(?)", query)))
        if node.get("type") in {"BASE_TABLE", "TABLE_FUNCTION"}
    ]
    return {alias or name: name for alias, name in names}


def may_stop_early(connection: duckdb.DuckDBPyConnection, query: str) -> bool:
    """Return whether a query ends when it has enough rows, because it has a limit without an order or groups."""
    tree = json.loads(_value(connection, "select json_serialize_sql(?)", query))
    node = {} if tree["error"] else tree["statements"][0]["node"]
    kinds = [modifier["type"] for modifier in node.get("modifiers", ())]
    has_groups = node.get("group_expressions") or node.get("aggregate_handling") != "STANDARD_HANDLING"
    return kinds == ["LIMIT_MODIFIER"] and not has_groups


def position_line(query: str, position: int) -> str:
    """Return the line of a query with a mark below a position, like the error messages of DuckDB."""
    # DuckDB counts bytes.
    before = query.encode()[:position].decode(errors="replace")
    number, _, column = before.count("\n") + 1, None, len(before.rpartition("\n")[2])
    label = f"LINE {number}: "
    return f"{label}{query.split(chr(10))[number - 1]}\n{' ' * (len(label) + column)}^"


def _call(
    connection: duckdb.DuckDBPyConnection,
    query: str,
    node: dict[str, Any],
    source: ViewSource,
    now: Callable[[], datetime],
    number: int,
) -> FunctionCall:
    function = node["function"]["function_name"].lower()
    where = position_line(query, node["query_location"])
    if function not in source.functions:
        raise InvalidValue(f"{source.name} has no {function}(); it has {names_of(source)}\n\n{where}")
    parameters = FUNCTIONS[function]
    arguments = _arguments(node["function"])
    fewest = len([name for name in parameters if name not in _OPTIONAL])
    if not fewest <= len(arguments) <= len(parameters):
        raise InvalidValue(f"{function} takes {' and '.join(parameters)}, got {len(arguments)} arguments\n\n{where}")
    instants = []
    for name, argument in zip(parameters, arguments, strict=False):
        try:
            instants.append(_instant(connection, name, argument, now))
        except (InvalidValue, TypeError, duckdb.Error) as error:
            fault = str(error).partition("\n")[0].partition(";")[0]
            raise InvalidValue(
                f"{function}: {name} must be a constant time, such as '2026-01-31T08:00Z', '2h' or now() - interval"
                f" 2 hour ({fault})\n\n{where}"
            ) from error
    return FunctionCall(f"{function}:{number}", function, tuple(instants))


def _instant(
    connection: duckdb.DuckDBPyConnection, name: str, argument: Mapping[str, Any], now: Callable[[], datetime]
) -> datetime:
    tree = json.loads(_value(connection, "select json_serialize_sql(?)", "select 1"))
    tree["statements"][0]["node"]["select_list"] = [argument]
    value = _value(connection, _value(connection, "select json_deserialize_sql(?::json)", json.dumps(tree)))
    if isinstance(value, str) and not is_span(value):
        query = "select try_cast(? as timestamptz), try_cast(? as interval)"
        time_or_age = connection.execute(query, [value, value]).fetchall()[0]
        value = next((one for one in time_or_age if one is not None), value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if isinstance(value, datetime) and value.tzinfo is None:
        # Times of a query without a time zone are in UTC, as in the conditions of the query.
        value = value.replace(tzinfo=UTC)
    return instant(name, value, now).astimezone(UTC)


def _arguments(function: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    # DuckDB 1 has a list of expressions, and DuckDB 2 a list of named expressions.
    if "children" in function:
        return list(function["children"])
    return [argument["expression"] for argument in function["arguments"]]


def _table(connection: duckdb.DuckDBPyConnection, call: FunctionCall, node: Mapping[str, Any]) -> dict[str, Any]:
    tree = json.loads(_value(connection, "select json_serialize_sql(?)", f'select * from "{call.view}"'))
    table: dict[str, Any] = tree["statements"][0]["node"]["from_table"]
    same = {name: node[name] for name in ("alias", "sample", "column_name_alias") if name in node}
    return {**table, **same, "alias": node["alias"] or call.function}


def _add_range(connection: duckdb.DuckDBPyConnection, node: dict[str, Any]) -> bool:
    """Replace ``x like 'a%'`` by ``x like 'a%' and x >= 'a' and x < 'b'``, if the column can be sent to the service."""
    column, pattern = _arguments(node)
    if column.get("class") != "COLUMN_REF" or column["column_names"][-1].lower() not in _TEXTS:
        return False
    text = _text(pattern)
    prefix = text.replace("_", "%").partition("%")[0] if text else ""
    after = text_after(prefix) if prefix else None
    if text is None or after is None or prefix == text:
        return False
    # A column of the query may have this name and another type. For a string, DuckDB removes the cast.
    low, high = (limit.replace("'", "''") for limit in (prefix, after))
    both = _expression(connection, f"y and x::varchar >= '{low}' and x::varchar < '{high}'")
    for part in list(_nodes(both)):
        if part.get("class") == "COLUMN_REF":
            _replace(part, deepcopy(column if part["column_names"] == ["x"] else node))
    _replace(node, both)
    return True


def _text(constant: Mapping[str, Any]) -> str | None:
    """Return the string of a constant, or ``None`` if it is not a string."""
    found = constant.get("literal", {}).get("text") or constant.get("value", {}).get("value")
    return found if isinstance(found, str) and constant.get("class") == "CONSTANT" else None


def _expression(connection: duckdb.DuckDBPyConnection, text: str) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads(_value(connection, "select json_serialize_sql(?)", f"select {text}"))
    found: dict[str, Any] = tree["statements"][0]["node"]["select_list"][0]
    return found


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(child)


def _replace(node: dict[str, Any], other: Mapping[str, Any]) -> None:
    node.clear()
    node.update(other)


def _value(connection: duckdb.DuckDBPyConnection, query: str, *parameters: str) -> Any:
    # All rows are fetched, because a result that is not complete blocks the connection.
    return connection.execute(query, parameters).fetchall()[0][0]
