"""The ``mirror-server`` command: the group, which is all that its help loads."""

from __future__ import annotations

from typing import Any

import click

from mirror_sdk._lazy_group import LazyGroup
from mirror_server.store.failures import DatabaseError

_MODULES = {
    "mirror_server.cli.commands": {
        "backup": "Copy the database into the new FILE.",
        "check": "Check the database: what is wrong, how often and where; exit status 1 if anything is.",
        "demo": "Run with simulated devices, a temporary database and a fresh key, for trying things out.",
        "erase": "Erase all that is stored of a device, for the privacy of its user, and print a receipt.",
        "keys": "Make, list, renew and revoke access keys.",
        "restore": "Make the database anew from the backup FILE.",
        "run": "Run the server until it is stopped with Ctrl-C or SIGTERM.",
    },
}


class _Commands(LazyGroup):
    """Tells what the operator can mend in one line."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except DatabaseError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands, modules=_MODULES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="device-state-mirror")
def main() -> None:
    """A device state mirror: the last reported and the last desired value of every resource of every device.

    \b
    Try it, with simulated devices and a fresh key:
      mirror-server demo
    \b
    Run it, with a database of your own:
      mirror-server keys create my-app --database sqlite:///mirror.db
      mirror-server run --database sqlite:///mirror.db
    """  # noqa: D301 - click wants the character, not its escape
