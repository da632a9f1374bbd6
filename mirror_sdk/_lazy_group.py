"""A group of commands that loads a command's module when the command is asked for, not to list it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose help and completion of a word need nothing of what its commands do.

    Args:
        modules: For each module with commands the commands it adds to this group when it is loaded, each with the first
            sentence of its help, which the help of the group shows.
    """

    def __init__(self, *args: Any, modules: Mapping[str, Mapping[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self._modules = {name: module for module, summaries in modules.items() for name in summaries}
        self._listed = click.Group(
            commands={
                name: click.Command(name, help=summary)
                for summaries in modules.values()
                for name, summary in summaries.items()
            }
        )

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in order."""
        return self._listed.list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, from its module; ``None`` if there is none of this name."""
        if cmd_name in self._modules:
            import_module(self._modules[cmd_name])
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the names and what they do."""
        self._listed.format_commands(ctx, formatter)
