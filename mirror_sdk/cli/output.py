"""The output of rows, as a table for people and as JSON or CSV for programs."""

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

from mirror_sdk._formatting import visible, without_formula
from mirror_sdk._lazy_command_group import is_utf8

_UNLIMITED_WIDTH = 10_000

Command = TypeVar("Command", bound=Callable[..., Any])
OutputFormat = Literal["json", "csv"] | None
"""The format of the output. ``None`` means a table."""

Row = Mapping[str, object]


def one_of(parameter: str, **helps: str) -> Callable[[Command], Command]:
    """Return a decorator that adds several flags, of which at most one may be set.

    Args:
        parameter: The parameter of the command. Its value is the name of the flag, or ``None`` if no flag is set.
        helps: The help text of each flag, by the name of the flag.
    """

    def choose(context: click.Context, flag: click.Parameter, is_set: bool) -> None:
        chosen = context.params.setdefault(parameter, None)
        if is_set and chosen is not None:
            raise click.UsageError(f"--{chosen} and --{flag.name} cannot be combined; remove one of them")
        if is_set:
            context.params[parameter] = flag.name

    def add(command: Command) -> Command:
        for name, text in reversed(helps.items()):
            option = click.option(f"--{name}", is_flag=True, expose_value=False, callback=choose, help=text)
            command = option(command)
        return command

    return add


form_options = one_of("form", json="Print JSON instead of a table.", csv="Print CSV in UTF-8 instead of a table.")


def attribute_rows(objects: Iterable[object], names: Sequence[str]) -> list[dict[str, object]]:
    """Return these attributes of each object as rows."""
    return [{name: getattr(one, name) for name in names} for one in objects]


def show(rows: Sequence[Row], columns: Sequence[str], form: OutputFormat, if_empty: str | None = None) -> None:
    """Print these columns of the rows. If there are no rows, print ``if_empty`` to standard error."""
    if not rows and if_empty is not None:
        click.echo(if_empty, err=True)
    if form == "json":
        click.echo(json.dumps([{name: _plain(row[name]) for name in columns} for row in rows], indent=1))
    elif form == "csv":
        _write_csv(columns)
        for row in rows:
            _write_csv([without_formula(_text(row[name])) for name in columns])
        # A closed pipe is reported here, where click ends the program quietly.
        sys.stdout.flush()
    elif rows:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in columns:
            table.add_column(name.replace("_", " "), overflow="fold")
        for row in rows:
            # Strings from devices may look like markup, so they are wrapped in Text.
            table.add_row(*[Text(_readable(row[name])) for name in columns])
        # Lines are not wrapped in a file or a pipe.
        Console(width=None if sys.stdout.isatty() else _UNLIMITED_WIDTH, highlight=False).print(table)


def show_heading(columns: Sequence[str], form: OutputFormat) -> None:
    """Print the heading of the lines of :func:`show_line`.

    For CSV, it consists of the names of the columns. For other formats, nothing is printed.
    """
    if form == "csv":
        _write_csv(columns)
        sys.stdout.flush()


def show_line(row: Row, form: OutputFormat) -> None:
    """Print a single row of a stream."""
    if form == "json":
        click.echo(json.dumps({name: _plain(value) for name, value in row.items()}))
    elif form == "csv":
        _write_csv([without_formula(_text(value)) for value in row.values()])
        sys.stdout.flush()
    else:
        click.echo("  ".join(filter(None, map(_readable, row.values()))))


def _write_csv(cells: Sequence[str]) -> None:
    # A program gets every character, including characters that the terminal cannot display.
    if isinstance(sys.stdout, TextIOWrapper) and not is_utf8(sys.stdout):
        sys.stdout.reconfigure(encoding="utf-8")
    # The csv module does not quote a carriage return, although it would start a new row.
    quoting: Literal[0, 1] = csv.QUOTE_ALL if any("\r" in cell for cell in cells) else csv.QUOTE_MINIMAL
    csv.writer(sys.stdout, lineterminator="\n", quoting=quoting).writerow(cells)


def _readable(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}Z"
    if isinstance(value, timedelta):
        return str(timedelta(seconds=round(value.total_seconds())))
    if isinstance(value, bool):
        return "yes" if value else "no"
    # Line ends and tabs of a value are kept. Other control characters are escaped.
    text = "\n".join(map(visible, _text(value).expandtabs().split("\n")))
    # Characters that standard output cannot encode are escaped here, because the table needs their width for its
    # layout.
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _text(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(_text, value))
    if isinstance(value, dict):
        return json.dumps(_plain(value), ensure_ascii=False)
    plain = _plain(value)
    return "" if plain is None else str(plain)
