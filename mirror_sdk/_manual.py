"""The manual of the command ``help``. Its topics are docstrings of modules, which the API reference shows too."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import click

from mirror_sdk._lazy_group import did_you_mean

_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
_LITERAL = re.compile(r"::$", re.MULTILINE)
_ROLE = re.compile(r":([a-z]+):`~?([^`]+)`")


def show_topic(name: str | None, topics: Mapping[str, str], more: Callable[[], str] = str) -> None:
    """Print a topic, or list the topics if no name is given.

    The text is formatted on a terminal and printed unchanged otherwise.

    Args:
        name: The topic.
        topics: The module of each topic: a package, or a module directly in a package. It is not imported.
        more: Returns text to print after the topic.

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
        unknown = f"no topic {name!r}.{did_you_mean(name, topics)} Topics are {', '.join(topics)}."
        raise click.UsageError(
            f"{unknown} For a command use '{_command(name)} --help'. 'mirror help' describes the client, 'mirror-server"
            " help' the server."
        )
    text = _text_of(topics[name]) + more()
    if not sys.stdout.isatty():
        click.echo(text)
        return
    # These are slow to import, and piped output does not need them.
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(_as_markdown(text)))


def _command(name: str) -> str:
    """Return the command line of the command with this name, or ``COMMAND`` if it does not exist."""
    group = click.get_current_context().parent
    if group is None or not isinstance(group.command, click.Group) or name not in group.command.list_commands(group):
        return "COMMAND"
    return f"{group.info_name} {name}"


def _text_of(module: str) -> str:
    """Read the docstring from the source, since an import may need packages that are not installed."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ImportError(f"no module {module}")
    docstring = ast.get_docstring(ast.parse(Path(spec.origin).read_text(encoding="utf-8"))) or ""
    return _ROLE.sub(_as_name, docstring)


def _as_name(role: re.Match[str]) -> str:
    """Return the full name of a module, which ``help`` and ``import`` accept, and other names without the package."""
    kind, name = role.groups()
    return f"``{name if kind == 'mod' else name.removeprefix('mirror_sdk.')}``"


def _as_markdown(text: str) -> str:
    """Convert doctest examples and literal blocks, which Markdown does not support."""
    return _LITERAL.sub(":", _EXAMPLE.sub("```pycon\n\\g<0>\n```", text))
