"""The ``mirror-server`` command group and its manual. Displaying the help imports nothing else.

The commands are in the other modules of this package and in extensions. Each command imports the modules that it needs
when it is called. This package may import all of the core. Read ``run`` first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from mirror_sdk._lazy_command_group import LazyGroup
from mirror_sdk._manual import show_topic, topics_in
from mirror_server.core.errors import CannotServe
from mirror_server.hooks import Broken, call_installed, extension_of_error, installed, topic_folders
from mirror_server.store.backend import DatabaseError

_MODULES: dict[str, Sequence[str]] = {
    "mirror_server.cli": ["help"],
    "mirror_server.cli.databases": ["backup", "check", "erase", "restore", "mark-restored"],
    "mirror_server.cli.keys": ["keys"],
    "mirror_server.cli.run": ["run"],
}
for _added in call_installed("commands"):
    _MODULES.update(_added)

TOPICS = topics_in(Path(__file__).parents[1] / "manual", *topic_folders().values())
for _added_topics in call_installed("help_topics"):
    for _topic, _module in _added_topics.items():
        if (_spec := find_spec(_module)) is not None and _spec.origin is not None:
            TOPICS[_topic] = Path(_spec.origin)

GROUPS = {
    "Start here": ["operate", "simulator", "keys", "settings"],
    "Connect devices": ["devices", "mirror-device", "device-requests"],
    "Serve applications": ["notifications", "streams", "directory", "history"],
    "Run the server in production": [
        "deploy",
        "scale",
        "tls",
        "connections",
        "storage",
        "restart",
        "logs",
        "metrics",
        "clocks",
    ],
    "Special tasks": ["processes", "wsgi", "programs", "older-calls", "extensions"],
}

_MISSING = "{} is missing; install what a server needs with: pip install 'device-state-mirror[server]'"


class _ServerCommands(LazyGroup):
    """A command group that reports errors which the operator can fix, in one line and without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (CannotServe, DatabaseError) as error:
            raise click.ClickException(str(error)) from error
        except ImportError as error:
            if isinstance(error, ModuleNotFoundError) and _is_required(error.name or ""):
                raise click.ClickException(_MISSING.format(error.name)) from error
            if name := extension_of_error(error):
                cure = f"fix or uninstall it, or start the server with --without {name}"
                raise click.ClickException(f"the extension {name} failed: {error}; {cure}") from error
            raise


def _is_required(module: str) -> bool:
    """Return whether a module belongs to a dependency of this package, including the dependencies of its extras."""
    required = [
        re.split(r"[^\w.-]", each)[0].lower().replace("-", "_") for each in requires("device-state-mirror") or ()
    ]
    return module.partition(".")[0].lower() in required


@click.group(cls=_ServerCommands, modules=_MODULES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="device-state-mirror")
def main() -> None:
    """Run and manage a device state mirror: the last reported and last desired values of all devices.

    \b
    Try it with simulated devices and a new key:
      mirror-server demo
    \b
    Run it with your own database:
      mirror-server keys create my-app --database sqlite:///mirror.db
      mirror-server run --database sqlite:///mirror.db
    \b
    More about running a server, and a list of all topics:
      mirror-server help operate
      mirror-server help
    """  # noqa: D301 - click wants the character, not its escape


@main.command("help")
@click.argument("topic", required=False)
def help_(topic: str | None) -> None:
    """Show a TOPIC of the manual. Without a topic, list the topics.

    \b
      mirror-server help operate
    """  # noqa: D301 - click wants the character, not its escape
    show_topic(topic, TOPICS, GROUPS, _installed if topic == "extensions" else str)


def _installed() -> str:
    """Return the list of installed extensions for the manual, with the name, purpose and topics of each."""
    lines = ["", "## Installed extensions", ""]
    folders = topic_folders()
    for name, extension in installed().items():
        if isinstance(extension, Broken):
            lines.append(f"- `{name}`: {extension.reason}")
            continue
        purpose = (extension.__doc__ or "").strip().partition("\n")[0].replace("``", "`")
        topics = ", ".join(topics_in(folders[name])) if name in folders else ""
        more = f" More in `mirror-server help`: {topics}." if topics else ""
        lines.append(f"- `{name}`: {purpose}{more}")
    return "\n".join([*lines, ""])
