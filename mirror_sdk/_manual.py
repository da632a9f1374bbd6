"""The manual behind the command ``help``: its topics are docstrings of modules, which the API reference shows too."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import click

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
_LITERAL = re.compile(r"::$", re.MULTILINE)
_ROLE = re.compile(r":([a-z]+):`~?([^`]+)`")


def show_topic(name: str | None, topics: Mapping[str, str], more: Callable[[], str] = str) -> None:
    """Print a topic: laid out on a terminal, as it is written where a program reads it. Without a name, list them.

    Args:
        name: Which topic.
        topics: The module of each topic, a package or a module right in one, which is not loaded.
        more: Gives what stands behind the text of the topic.

    Raises:
        UsageError: There is no such topic.
    """
    if name is None:
        listed = click.HelpFormatter()
        listed.write_dl(
            [(topic, _text_of(module).splitlines()[0].replace("``", "")) for topic, module in topics.items()]
        )
        click.echo(listed.getvalue(), nl=False)
        return
    if name not in topics:
        there = f"no topic {name!r}; there are {', '.join(topics)}. What a command does says {_command(name)} --help"
        raise click.UsageError(f"{there}; the client is told by 'mirror help', the server by 'mirror-server help'")
    text = _text_of(topics[name]) + more()
    if not sys.stdout.isatty():
        click.echo(text)
        return
    # What is piped needs neither; both take longer to load than all else here.
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(_as_markdown(text)))


def _command(name: str) -> str:
    """How the command of this name is called; ``COMMAND`` where there is none."""
    group = click.get_current_context().parent
    if group is None or not isinstance(group.command, click.Group) or name not in group.command.list_commands(group):
        return "COMMAND"
    return f"{group.info_name} {name}"


def _text_of(module: str) -> str:
    """The docstring, out of the source: to import the module may need what is not installed."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ImportError(f"no module {module}")
    docstring = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return _ROLE.sub(_as_name, docstring)


def _as_name(role: re.Match[str]) -> str:
    """A module by its whole name, which ``help`` and ``import`` take; anything else without the package."""
    kind, name = role.groups()
    return f"``{name if kind == 'mod' else name.removeprefix('mirror_sdk.')}``"


def _as_markdown(text: str) -> str:
    """What Markdown would not know: examples, and blocks behind two colons."""
    return _LITERAL.sub(":", _EXAMPLE.sub("```pycon\n\\g<0>\n```", text))
