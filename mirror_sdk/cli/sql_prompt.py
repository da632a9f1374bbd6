"""The prompt for SQL queries."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property

import click

# The package belongs to the extra of the queries, and the error says how to install it.
try:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document
except ModuleNotFoundError as _error:
    raise ImportError('the prompt needs prompt_toolkit: pip install "device-state-mirror[sql]"') from _error

from mirror_sdk._client import MirrorClient
from mirror_sdk.cli.group import in_words_of_the_shell
from mirror_sdk.errors import MirrorError
from mirror_sdk.history.changes import CHANGES_SCHEMA
from mirror_sdk.sql.tables import SERVICE_VIEWS
from mirror_sdk.wire.directory import Device

_KEYWORDS = (
    *("all", "and", "as", "asc", "asof", "between", "by", "case", "desc", "distinct", "else", "end", "from", "group"),
    *("having", "in", "interval", "is", "join", "left", "like", "limit", "not", "now()", "null", "on", "or", "order"),
    *("over", "partition", "qualify", "select", "then", "union", "using", "when", "where", "with"),
)
_FUNCTIONS = ("as_of(", "changes(", "avg(", "count(", "max(", "min(", "sum(", "time_bucket(")
_WORD = re.compile(r"\w*$")
_LEAVING = {"exit", "quit", r"\q"}
_HELPING = {"help", ".help", "?", r"\d", r"\?"}
_HELP = f"""\
The tables are {", ".join(SERVICE_VIEWS)}, as_of('2h') and changes('2h'). "describe history;" lists columns.
'mirror help sql' explains more. quit or Ctrl+D ends the prompt."""
_NAMES = 1000
_DEVICES = 20


class QueryCompleter(Completer):
    """Completions of views, columns and keywords, and within a string of endpoint names and paths.

    Args:
        client: The client that lists the names and paths, when they are first needed.
    """

    def __init__(self, client: MirrorClient) -> None:
        self._client = client
        columns = {name for schema in (*SERVICE_VIEWS.values(), CHANGES_SCHEMA) for name in schema.names}
        self._words = [*SERVICE_VIEWS, *_FUNCTIONS, *sorted(columns - SERVICE_VIEWS.keys()), *_KEYWORDS]

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield the completions of the word or of the string before the cursor."""
        del complete_event
        before = document.text_before_cursor
        if before.count("'") % 2:
            texts, _, begin = before.rpartition("'")
            known = self._attributes if texts.endswith("attributes[") else self._texts
        else:
            begin = before[_WORD.search(before).start() :]  # type: ignore[union-attr] # it matches any end
            known = self._words if begin else []
        for one in known:
            if one.startswith(begin.lower() if known is self._words else begin):
                yield Completion(one, -len(begin))

    @cached_property
    def _devices(self) -> list[Device]:
        with suppress(MirrorError):
            return list(self._client.devices.list(limit=_NAMES))
        return []

    @property
    def _attributes(self) -> list[str]:
        return sorted({name for device in self._devices for name in device.custom_attributes})

    @cached_property
    def _texts(self) -> list[str]:
        with suppress(MirrorError):
            state = self._client.fleet.snapshot(self._devices[:_DEVICES], as_="arrow")
            paths = {row["path"] for row in state.select(["path"]).to_pylist()}
            return sorted({device.endpoint_name for device in self._devices}) + sorted(paths)
        return []


def prompt(client: MirrorClient, run: Callable[[str], None]) -> None:
    """Read queries until the end of the input, and run each of them.

    A query ends with a semicolon or with an empty line.
    """
    session: PromptSession[str] = PromptSession(completer=QueryCompleter(client), complete_in_thread=True)
    click.echo(
        "A query ends with a semicolon or an empty line. Tab completes names. 'help' lists the tables, and 'quit' ends"
        " the prompt."
    )
    lines: list[str] = []
    while True:
        try:
            line = session.prompt("  ...> " if lines else "mirror> ")
        except KeyboardInterrupt:
            lines = []
            continue
        except EOFError:
            return
        lines.append(line)
        query = "\n".join(lines).strip()
        word = query.rstrip(";").lower()
        if word in _LEAVING:
            return
        if word in _HELPING:
            click.echo(_HELP)
            lines = []
            continue
        if not query or (line.strip() and not query.endswith(";")):
            lines = lines if query else []
            continue
        lines = []
        try:
            run(query)
        except KeyboardInterrupt:
            click.echo("The query was interrupted.", err=True)
        except (MirrorError, OSError, ValueError, ImportError) as error:
            click.echo(f"Error: {in_words_of_the_shell(str(error))}", err=True)
