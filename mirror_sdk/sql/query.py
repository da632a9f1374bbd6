"""Queries: they are planned without rows, checked, and then run with the rows that they need."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

# Imported first, because duckdb belongs to an optional extra: the error says how to install it.
try:
    import duckdb
except ModuleNotFoundError as _error:
    if _error.name != "duckdb":
        raise
    raise ImportError('SQL queries need duckdb: pip install "device-state-mirror[sql]"') from _error

import pyarrow as pa

from mirror_sdk._arguments import SqlFormat, count
from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk.errors import InvalidValue
from mirror_sdk.sql.faults import explained
from mirror_sdk.sql.result import convert_result, explanation
from mirror_sdk.sql.running import RunningQuery
from mirror_sdk.sql.source import FUNCTIONS, ViewSource
from mirror_sdk.sql.statement import FunctionCall, check_statement, may_stop_early, rewrite, tables_of
from mirror_sdk.sql.views import Scans, make_view
from mirror_sdk.wire.model import write_timestamp

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from mirror_sdk.arrow_tables.arrow_types import ArrowTable

_SETTINGS: dict[str, Any] = {
    "enable_external_access": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "python_enable_replacements": False,
    # A query must not write files to the current folder.
    "temp_directory": "",
}
_LINE = re.compile(r"^LINE ([0-9]+):", re.MULTILINE)
_CLOCK_MACROS = {
    "now": "now",
    "current_timestamp": "now",
    "get_current_timestamp": "now",
    "transaction_timestamp": "now",
    "today": "now::date",
    "current_date": "now::date",
    "localtimestamp": "now::timestamp",
    "current_localtimestamp": "now::timestamp",
    "localtime": "now::time",
    "current_localtime": "now::time",
    "current_time": "now::timetz",
    "get_current_time": "now::timetz",
}
"""The functions of DuckDB that return the current time, and their expressions for a time ``now``."""


_Result: TypeAlias = "pd.DataFrame | ArrowTable | pl.DataFrame | duckdb.DuckDBPyRelation"


def start_query(
    query: str,
    source: ViewSource,
    *,
    as_: SqlFormat,
    explain: bool,
    max_rows: int,
    deadline: Deadline | None = None,
) -> RunningQuery[_Result]:
    """Start a query in a thread; see ``client.sql()``. Its result raises ``InvalidValue`` if the query is not valid.

    Raises:
        InvalidValue: ``as_`` or ``max_rows`` is not valid.
        TypeError: The query is not a string.
    """
    most = count("max_rows", max_rows)
    if most is None or as_ not in get_args(SqlFormat):
        raise InvalidValue(f"as_={as_!r} must be one of 'pandas', 'arrow', 'polars' or 'duckdb', and max_rows a number")
    if not isinstance(query, str):
        raise TypeError(f"query={query!r} must be a str")
    scans = Scans(source, most)
    connection = duckdb.connect(config=_SETTINGS)
    work = partial(_run, connection, scans, query, source, as_=as_, explain=explain)
    return RunningQuery(work, connection, scans.stop, deadline)


def _run(
    opened: duckdb.DuckDBPyConnection, scans: Scans, query: str, source: ViewSource, *, as_: SqlFormat, explain: bool
) -> _Result:
    now = source.now()
    with closing(opened) as connection, _described(connection, query, scans, source), closing(scans):
        _prepare(connection, now)
        _register(connection, source, scans)
        check_statement(connection, query)
        text, calls = rewrite(connection, query, source, lambda: now)
        _register_calls(connection, source, scans, calls)
        if text != query:
            _check_names(connection, query, source, scans)
        # The plan needs no rows, because the scans do not depend on them.
        connection.execute(text).fetchall()
        if explain:
            return convert_result(explanation(source, scans.planned), _metadata(source, now), [], as_=as_)
        scans.start(may_stop_early=may_stop_early(connection, query))
        table = connection.sql(text).to_arrow_table()
    schemas = [{**source.views, **source.functions}[scan.view] for scan in scans.planned]
    return convert_result(table, _metadata(source, now), schemas, as_=as_)


def _prepare(connection: duckdb.DuckDBPyConnection, now: datetime) -> None:
    connection.execute("set TimeZone = 'UTC'")
    constant = f"timestamptz '{write_timestamp(now)}'"
    for name, expression in _CLOCK_MACROS.items():
        connection.execute(f"create macro {name}() as {expression.replace('now', f'({constant})')}")
    # With one argument, DuckDB subtracts it from the current date of this machine.
    connection.execute(
        f"create macro age(t) as system.main.age(({constant})::date::timestamptz, t), (a, b) as system.main.age(a, b)"
    )
    connection.execute("set lock_configuration = true")


def _register(connection: duckdb.DuckDBPyConnection, source: ViewSource, scans: Scans) -> None:
    for name, schema in source.views.items():
        connection.register(name, make_view(name, schema, scans))


def _check_names(connection: duckdb.DuckDBPyConnection, query: str, source: ViewSource, scans: Scans) -> None:
    """Check the names in a query that was rewritten, because errors of the new text would show another position."""
    for name, schema in source.functions.items():
        rows, parameters = f'"{name}:"', [f"p{index}" for index in range(len(FUNCTIONS[name]))]
        connection.register(rows.strip('"'), make_view(name, schema, scans))
        forms = [", ".join(parameters[: index + 1]) for index in range(len(parameters))]
        connection.execute(f"create macro {name} {', '.join(f'({form}) as table (from {rows})' for form in forms)}")
    try:
        connection.execute(f"explain\n{query}").fetchall()
    except duckdb.Error as error:
        message = _LINE.sub(_earlier_line, str(error))
        raise InvalidValue(explained(message, query, source, tables_of(connection, query))) from error


def _earlier_line(found: re.Match[str]) -> str:
    """Return the number of a line in a query without the line before it, with the same width."""
    return f"LINE {int(found[1]) - 1}:".rjust(len(found[0]))


def _register_calls(
    connection: duckdb.DuckDBPyConnection, source: ViewSource, scans: Scans, calls: list[FunctionCall]
) -> None:
    for call in calls:
        connection.register(call.view, make_view(call.function, source.functions[call.function], scans, call.instants))


def _metadata(source: ViewSource, now: datetime) -> Mapping[str, object]:
    return {"taken_at": write_timestamp(now), "server": source.server}


@contextmanager
def _described(connection: duckdb.DuckDBPyConnection, query: str, scans: Scans, source: ViewSource) -> Iterator[None]:
    """Convert the errors of DuckDB, whose message has the position in the query."""
    try:
        yield
    except duckdb.Error as error:
        if scans.error is not None:
            raise scans.error from None
        raise InvalidValue(explained(str(error), query, source, tables_of(connection, query))) from error
    except pa.ArrowException:
        if scans.error is not None:
            raise scans.error from None
        raise
