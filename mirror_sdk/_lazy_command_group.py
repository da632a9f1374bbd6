"""A group of commands that imports the module of a command only when the command is used."""

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
    """Commands by name. If a command is missing, its module is imported."""

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
    """A group whose help and completion need no imports of its commands.

    Args:
        modules: For each module, the commands that it adds to this group when it is imported. A command is made of the
            function with its name, whose docstring is its help.
    """

    def __init__(self, *args: Any, modules: Mapping[str, Sequence[str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self._modules = modules
        self.commands: dict[str, click.Command] = _LazyCommands(
            {name: module for module, names in modules.items() for name in names}
        )

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command; characters that an output cannot encode are escaped."""
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
        """Return the names, sorted."""
        return sorted(name for names in self._modules.values() for name in names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Return the command from its module, or ``None`` if there is no command with this name."""
        try:
            return self.commands[cmd_name]
        except KeyError:
            return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first argument names, and the other arguments.

        Raises:
            UsageError: There is no such command; the message suggests similar ones.
        """
        name = args[0]
        # click reports an unknown option, which stands in the same place.
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            ctx.fail(f"no command {name!r}.{did_you_mean(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def get_help(self, ctx: click.Context) -> str:
        """Return the help as wide as click makes it, without :mod:`shutil`, which click imports for the width."""
        if ctx.terminal_width is None:
            widest = ctx.max_content_width or _WIDEST
            ctx.terminal_width = max(min(_columns(), widest) - _MARGIN, _NARROWEST)
        return super().get_help(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names of the commands and their short help."""
        click.Group(commands=self.listed()).format_commands(ctx, formatter)

    def listed(self) -> dict[str, click.Command]:
        """Return the commands with only their help, read from the code of their modules without running it."""
        return {
            name: click.Command(name, help=helps.get(name))
            for module, names in self._modules.items()
            for helps in [_helps(module)]
            for name in names
        }


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question with the known words that are similar to a mistyped word. Empty if there are none."""
    import difflib  # the help of a group does not need it

    close = difflib.get_close_matches(word, known)
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def _helps(module: str) -> dict[str, str]:
    """Return the docstrings of a module's functions; none if the module is not loaded from a file."""
    package = module.rpartition(".")[0]
    # Other finders, such as the import hook of a test run, may provide no code.
    spec = PathFinder.find_spec(module, import_module(package).__path__ if package else None)
    code = spec and spec.loader and cast("InspectLoader", spec.loader).get_code(module)
    functions = [each for each in (code.co_consts if code else ()) if isinstance(each, CodeType) and each.co_consts]
    return {each.co_name.rstrip("_").replace("_", "-"): each.co_consts[0] for each in functions}


def is_utf8(stream: TextIOWrapper) -> bool:
    """Return whether the stream can encode every character."""
    return codecs.lookup(stream.encoding).name == "utf-8"


def _replace_closed() -> None:
    """Replace standard streams that a shell closed (``>&-``) by empty streams."""
    # In the order of their file descriptors: each gets the lowest free one, which is its own.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - as long as the process


def _drop_unwritten() -> None:
    """Discard output that stdout could not write: Python would try again at exit, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escape_in(stream: TextIOWrapper) -> None:
    """Escape the characters that the encoding of a stream lacks."""
    if codecs.lookup(stream.encoding).name != "ascii":
        stream.reconfigure(errors="backslashreplace")
        return
    # click treats ASCII under its usual name as a mistake, and writes UTF-8 instead.
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
    """Return the columns of the terminal by the rules of :func:`shutil.get_terminal_size`."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return (os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ else 0) or _WIDEST
    except (OSError, ValueError):
        return _WIDEST
