"""How the ``mirror`` command shows rows: as a table for people, as JSON or CSV for programs."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from io import TextIOWrapper
from typing import Any, Literal, TypeVar

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mirror_sdk._lazy_group import is_utf8
from mirror_sdk._visible import visible, without_formula

_AS_WIDE_AS_NEEDED = 10_000

_NAMES = {"csv": "CSV in UTF-8", "json": "JSON"}

F = TypeVar("F", bound=Callable[..., Any])
Form = Literal["json", "csv"] | None
"""``None`` is a table."""

Row = Mapping[str, object]


def form_options(command: F) -> F:
    """Give a command the options ``--json`` and ``--csv``; it gets ``form``."""
    for form, name in _NAMES.items():
        command = click.option(f"--{form}", "form", flag_value=form, help=f"Show {name}, not a table.")(command)
    return command


def show(found: Iterable[Row], columns: Sequence[str], form: Form, nothing: str | None = None) -> None:
    """Print the rows, all with these columns; where there are none, ``nothing`` says so on standard error."""
    rows = list(found)
    if not rows and nothing is not None:
        click.echo(nothing, err=True)
    if form == "json":
        click.echo(json.dumps([{name: _plain(row[name]) for name in columns} for row in rows], indent=1))
    elif form == "csv":
        _write_csv(columns)
        for row in rows:
            _write_csv([without_formula(_shown(row[name])) for name in columns])
        # Here, where it is told quietly if nobody reads it any more.
        sys.stdout.flush()
    elif rows:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in columns:
            table.add_column(name.replace("_", " "), overflow="fold")
        for row in rows:
            # As Text, because what devices say may look like markup.
            table.add_row(*[Text(_readable(row[name])) for name in columns])
        # Where nobody looks at it, nothing is cut to a width.
        Console(width=None if sys.stdout.isatty() else _AS_WIDE_AS_NEEDED, highlight=False).print(table)


def show_heading(columns: Sequence[str], form: Form) -> None:
    """Print what comes before the lines of :func:`show_line`: the names of the columns in CSV, else nothing."""
    if form == "csv":
        _write_csv(columns)
        sys.stdout.flush()


def show_line(row: Row, form: Form) -> None:
    """Print one row of many that come one after another."""
    if form == "json":
        click.echo(json.dumps({name: _plain(value) for name, value in row.items()}))
    elif form == "csv":
        _write_csv([without_formula(_shown(value)) for value in row.values()])
        sys.stdout.flush()
    else:
        click.echo("  ".join(filter(None, map(_readable, row.values()))))


def _write_csv(cells: Sequence[str]) -> None:
    # A program gets every character, also where a terminal could not show it.
    if isinstance(sys.stdout, TextIOWrapper) and not is_utf8(sys.stdout):
        sys.stdout.reconfigure(encoding="utf-8")
    # A line end of another kind is not put into quotes by itself, and would begin a new row.
    quoting: Literal[0, 1] = csv.QUOTE_ALL if any("\r" in cell for cell in cells) else csv.QUOTE_MINIMAL
    csv.writer(sys.stdout, lineterminator="\n", quoting=quoting).writerow(cells)


def _readable(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}Z"
    if isinstance(value, timedelta):
        return str(timedelta(seconds=round(value.total_seconds())))
    if isinstance(value, bool):
        return "yes" if value else "no"
    # Lines and columns of a value may be shown; whatever else moves about on a screen is not.
    text = "\n".join(map(visible, _shown(value).expandtabs().split("\n")))
    # An escape that standard output makes of a character is wider: a table has to know before it lays out its columns.
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(_shown, value))
    plain = _plain(value)
    return "" if plain is None else str(plain)
