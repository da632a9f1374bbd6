"""A click group that imports the module of a command only when the command is used."""

from __future__ import annotations

import codecs
import errno
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.machinery import PathFinder
from io import TextIOWrapper
from types import CodeType
from typing import TYPE_CHECKING, Any, cast

import click

if TYPE_CHECKING:
    from importlib.abc import InspectLoader

_WIDEST, _NARROWEST, _MARGIN = 80, 50, 2
_PLAIN_ASCII = "mirror-ascii"


class _LazyCommands(dict[str, click.Command]):
    """The commands of a group by name. A missing command is added by importing its module."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        super().__init__()
        self.modules = modules

    def __missing__(self, name: str) -> click.Command:
        module = self.modules[name]
        import_module(module)
        if name not in self:
            raise click.ClickException(
                f"the module {module} is listed with the command {name!r}, but adds none of this name to the group"
            )
        return self[name]


class LazyGroup(click.Group):
    """A click group whose help and shell completion do not import the modules of its commands.

    Args:
        modules: The names of the commands in each module. The module adds these commands to the group when it is
            imported. Each command is a function of the same name, whose docstring is the help of the command.
    """

    def __init__(self, *args: Any, modules: Mapping[str, Sequence[str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self._modules = modules
        self.commands: dict[str, click.Command] = _LazyCommands(
            {name: module for module, names in modules.items() for name in names}
        )

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command. Characters that the encoding of an output cannot represent are escaped."""
        _replace_closed()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                _escape_in(stream)
        try:
            return super().main(*args, **extra)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            click.echo(f"Error: {error}", err=True)
            sys.exit(1)
        finally:
            _drop_unwritten()

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the sorted names of the commands."""
        return sorted(name for names in self._modules.values() for name in names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import the module of a command and return the command, or ``None`` if it does not exist."""
        try:
            return self.commands[cmd_name]
        except KeyError:
            return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names, and the remaining arguments.

        Raises:
            UsageError: There is no such command. The message suggests similar names.
        """
        name = args[0]
        # An unknown option can also be the first argument, and click reports it.
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            ctx.fail(f"no command {name!r}.{did_you_mean(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        """Return the help in the width that click would use.

        Unlike click, this method does not import :mod:`shutil`.
        """
        if ctx.terminal_width is None:
            widest = ctx.max_content_width or _WIDEST
            ctx.terminal_width = max(min(_columns(), widest) - _MARGIN, _NARROWEST)
        return super().get_help(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names of the commands and their short help to the formatter."""
        click.Group(commands=self.listed()).format_commands(ctx, formatter)

    def listed(self) -> dict[str, click.Command]:
        """Return commands that have only a name and a help text.

        The help is read from compiled modules, which are not run.
        """
        return {
            name: click.Command(name, help=helps.get(name))
            for module, names in self._modules.items()
            for helps in [_helps(module)]
            for name in names
        }


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question with known words that are similar to a mistyped one, or an empty string if none is similar."""
    import difflib  # not needed for the help of a group

    close = difflib.get_close_matches(word, known)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def _helps(module: str) -> dict[str, str]:
    """Return the docstrings of a module's functions, or nothing if the module is not loaded from a file."""
    package = module.rpartition(".")[0]
    # Other finders, such as the import hook of a test runner, may not provide the code of a module.
    spec = PathFinder.find_spec(module, import_module(package).__path__ if package else None)
    code = spec and spec.loader and cast("InspectLoader", spec.loader).get_code(module)
    functions = [each for each in (code.co_consts if code else ()) if isinstance(each, CodeType) and each.co_consts]
    return {each.co_name.rstrip("_").replace("_", "-"): each.co_consts[0] for each in functions}


def is_utf8(stream: TextIOWrapper) -> bool:
    """Return whether a stream has the encoding UTF-8, which can represent every character."""
    return codecs.lookup(stream.encoding).name == "utf-8"


def _replace_closed() -> None:
    """Replace standard streams that the shell has closed (``>&-``) by the null device."""
    # In the order of their file descriptors, because each new file gets the lowest free descriptor.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - stays open


def _drop_unwritten() -> None:
    """Discard output that stdout could not write, because Python would try again at exit and report an error."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escape_in(stream: TextIOWrapper) -> None:
    """Escape the characters that the encoding of a stream cannot represent."""
    if codecs.lookup(stream.encoding).name != "ascii":
        stream.reconfigure(errors="backslashreplace")
        return
    # click takes the encoding ASCII for a wrong configuration and writes UTF-8. A codec with another name avoids this.
    codecs.register(_find_ascii)
    stream.reconfigure(encoding=_PLAIN_ASCII, errors="backslashreplace")


def _find_ascii(name: str) -> codecs.CodecInfo | None:
    if name != _PLAIN_ASCII.replace("-", "_"):
        return None
    ascii_codec = codecs.lookup("ascii")
    return codecs.CodecInfo(
        ascii_codec.encode,
        ascii_codec.decode,
        ascii_codec.streamreader,
        ascii_codec.streamwriter,
        ascii_codec.incrementalencoder,
        ascii_codec.incrementaldecoder,
        name=_PLAIN_ASCII,
    )


def _columns() -> int:
    """Return the width of the terminal in columns, by the rules of :func:`shutil.get_terminal_size`."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return (os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ else 0) or _WIDEST
    except (OSError, ValueError):
        return _WIDEST
