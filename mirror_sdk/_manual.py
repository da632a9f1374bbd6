"""The manual of the command ``help``: a Markdown file for each topic, which the reference shows too."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from mirror_sdk._lazy_command_group import did_you_mean

FOLDER = Path(__file__).parent / "manual"
_BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)


def topics_in(*folders: Path) -> dict[str, Path]:
    """Return the file of each topic in these folders, in alphabetical order. A folder may be missing."""
    return dict(sorted((file.stem, file) for folder in folders for file in folder.glob("*.md")))


def show_topic(
    name: str | None, topics: Mapping[str, Path], groups: Mapping[str, Sequence[str]], more: Callable[[], str] = str
) -> None:
    """Print a topic, or list the topics if no name is given.

    The text is formatted on a terminal and printed unchanged otherwise.

    Args:
        name: The topic.
        topics: The file of each topic.
        groups: The headings of the list, with their topics in the order of the list. Topics that do not exist are left
            out. Topics without a heading come last.
        more: Returns text to print after the topic.

    Raises:
        UsageError: There is no such topic.
    """
    if name is None:
        _list_topics(topics, groups)
        return
    if name not in topics:
        unknown = f"no topic {name!r}.{did_you_mean(name, topics)} Topics are {', '.join(topics)}."
        raise click.UsageError(
            f"{unknown} For a command use '{_command(name)} --help'. 'mirror help' describes the client, 'mirror-server"
            " help' the server."
        )
    text = _text_of(name, topics) + more()
    if sys.stdout.isatty():
        _print_formatted(text)
    else:
        click.echo(text, nl=False)


def _text_of(name: str, topics: Mapping[str, Path]) -> str:
    """Return the text of a topic; of a Python module, its docstring."""
    text = topics[name].read_text(encoding="utf-8")
    return f"# {name}\n\n{ast.get_docstring(ast.parse(text))}\n" if topics[name].suffix == ".py" else text


def summary(text: str) -> str:
    """Return the first paragraph after the title of a topic, in one line and without marks."""
    return " ".join(text.split("\n\n")[1].replace("`", "").split())


def _list_topics(topics: Mapping[str, Path], groups: Mapping[str, Sequence[str]]) -> None:
    others = [topic for topic in topics if not any(topic in group for group in groups.values())]
    # Topics of the same width align the summaries of all groups.
    width = max(map(len, topics))
    listed = click.HelpFormatter()
    for heading, group in [*groups.items(), ("Other extensions", others)]:
        if found := [topic for topic in group if topic in topics]:
            with listed.section(heading):
                listed.write_dl([(f"{topic:{width}}", summary(_text_of(topic, topics))) for topic in found])
    click.echo(listed.getvalue(), nl=False)


def _command(name: str) -> str:
    """Return the command line of the command with this name, or ``COMMAND`` if it does not exist."""
    group = click.get_current_context().parent
    if group is None or not isinstance(group.command, click.Group) or name not in group.command.list_commands(group):
        return "COMMAND"
    return f"{group.info_name} {name}"


def _print_formatted(text: str) -> None:
    # These are slow to import, and piped output does not need them.
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.syntax import Syntax

    console = Console()
    first, *rest = _BLOCK.split(text)
    console.print(Markdown(first))
    for language, code, prose in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        # Without a margin and line breaks, so that a reader can copy the code from the terminal.
        highlighted = Syntax("", language or "text", theme="ansi_dark", background_color="default").highlight(code)
        console.print("", highlighted, sep="\n", end="", soft_wrap=True)
        console.print("", Markdown(prose), sep="\n")
