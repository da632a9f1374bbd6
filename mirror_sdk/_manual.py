"""The manual of the command ``help``. Each topic is a Markdown file, which the reference also contains."""

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
    """Return the files of all topics in these folders by name, in alphabetical order. Missing folders are ignored."""
    return dict(sorted((file.stem, file) for folder in folders for file in folder.glob("*.md")))


def show_topic(
    name: str | None, topics: Mapping[str, Path], groups: Mapping[str, Sequence[str]], more: Callable[[], str] = str
) -> None:
    """Print a topic of the manual, or list all topics if ``name`` is ``None``.

    On a terminal, the text is formatted. Otherwise, it is printed unchanged.

    Args:
        name: The name of the topic.
        topics: The file of each topic.
        groups: The headings of the list of topics, each with its topics in the order of the list. Topics that do not
            exist are left out. Topics without a heading are listed last.
        more: A function that returns text to print after the topic.

    Raises:
        UsageError: The topic does not exist.
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
    """Return the text of a topic. If the file is a Python module, the text is its docstring."""
    text = topics[name].read_text(encoding="utf-8")
    return f"# {name}\n\n{ast.get_docstring(ast.parse(text))}\n" if topics[name].suffix == ".py" else text


def summary(text: str) -> str:
    """Return the first paragraph after the title of a topic as one line, without backquotes."""
    return " ".join(text.split("\n\n")[1].replace("`", "").split())


def _list_topics(topics: Mapping[str, Path], groups: Mapping[str, Sequence[str]]) -> None:
    others = [topic for topic in topics if not any(topic in group for group in groups.values())]
    # All topics get the same width, so that the summaries of all groups are aligned.
    width = max(map(len, topics))
    listed = click.HelpFormatter()
    for heading, group in [*groups.items(), ("Other extensions", others)]:
        if found := [topic for topic in group if topic in topics]:
            with listed.section(heading):
                listed.write_dl([(f"{topic:{width}}", summary(_text_of(topic, topics))) for topic in found])
    click.echo(listed.getvalue(), nl=False)


def _command(name: str) -> str:
    """Return the command line for a command with this name, or ``COMMAND`` if there is no such command."""
    group = click.get_current_context().parent
    if group is None or not isinstance(group.command, click.Group) or name not in group.command.list_commands(group):
        return "COMMAND"
    return f"{group.info_name} {name}"


def _print_formatted(text: str) -> None:
    # These imports are slow, and output to a file or a pipe does not need them.
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.syntax import Syntax

    console = Console()
    first, *rest = _BLOCK.split(text)
    console.print(Markdown(first))
    for language, code, prose in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        # Without a margin and line breaks, so that users can copy the code from the terminal.
        highlighted = Syntax("", language or "text", theme="ansi_dark", background_color="default").highlight(code)
        console.print("", highlighted, sep="\n", end="", soft_wrap=True)
        console.print("", Markdown(prose), sep="\n")
