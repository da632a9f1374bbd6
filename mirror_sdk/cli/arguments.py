"""Arguments and options that several commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from functools import partial
from typing import Any, TypeVar

import click

from mirror_sdk._client import MirrorClient
from mirror_sdk.errors import MirrorError
from mirror_sdk.wire.device_requests import MAX_EXPIRY_SECONDS
from mirror_sdk.wire.paths import check_path_pattern, parse_path

Command = TypeVar("Command", bound=Callable[..., Any])

# The shell is blocked while it waits for completions, so the timeout is short.
_COMPLETION_SECONDS = 2
_NEGATIVE_NUMBER = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def check_device(name: str) -> str:
    """Reject an empty name, which is the result of an unset variable.

    An empty name would select no device or all devices.
    """
    if not name:
        raise click.BadParameter("the value is empty; pass an id or an endpoint name, as 'mirror devices' shows them")
    return name


def complete_device(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the endpoint names that begin with ``incomplete``.

    The list is empty if the mirror cannot be reached.
    """
    with suppress(MirrorError), MirrorClient.from_env(timeout=_COMPLETION_SECONDS) as client:
        found = client.devices.list(filters={"endpoint_name__gte": incomplete}, limit=50)
        return [device.endpoint_name for device in found if device.endpoint_name.startswith(incomplete)]
    return []


def check_path(path: str) -> str:
    """Reject a string that is not a resource path."""
    try:
        parse_path(path)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return path


def complete_path(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the paths of the device that begin with ``incomplete``.

    The list is empty if the mirror cannot be reached.
    """
    device = context.params.get("device")
    if device:
        with suppress(MirrorError), MirrorClient.from_env(timeout=_COMPLETION_SECONDS) as client:
            found = client.devices.resources(device)
            return [resource.uri for resource in found if resource.uri.startswith(incomplete)]
    return []


def check_pattern(pattern: str) -> str:
    """Reject a string that is not a pattern of resource paths."""
    try:
        return check_path_pattern(pattern)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


class ValueCommand(click.Command):
    """A command with an argument for a value, which may be a negative number."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments.

        A negative number is a value. Any other word with a leading dash is an option, even if it is misspelled.
        """
        options = {name for one in self.get_params(ctx) for name in (*one.opts, *one.secondary_opts)}
        for word in args[: args.index("--")] if "--" in args else args:
            name = word.partition("=")[0]
            if word.startswith("-") and word != "-" and name not in options and not _NEGATIVE_NUMBER.fullmatch(word):
                similar = get_close_matches(name, options)
                cure = f"No such option: {name}. Write two dashes before a value that begins with a dash: -- {word}"
                raise click.NoSuchOption(name, None if similar else cure, similar, ctx)
        # With this setting, click passes a negative number on as the value.
        ctx.ignore_unknown_options = True
        return super().parse_args(ctx, args)


device_argument = click.argument("device", type=check_device, shell_complete=complete_device)
path_argument = click.argument("path", type=check_path, shell_complete=complete_path)
device_option = partial(click.option, "--device", type=check_device, shell_complete=complete_device, metavar="DEVICE")
patterns_option = click.option(
    "--path",
    "paths",
    type=check_pattern,
    multiple=True,
    metavar="PATTERN",
    help="Only resources with these paths, such as '/3303/*'. Can be repeated.",
)
limit_option = partial(click.option, "--limit", type=click.IntRange(min=1))
timeout_option = click.option(
    "--timeout", type=click.FloatRange(min=0), help="Seconds to wait for the device. By default a minute."
)
expiry_option = click.option(
    "--expiry-seconds",
    type=click.IntRange(1, MAX_EXPIRY_SECONDS),
    help="How many seconds the request may wait for the device. By default two hours, or three days in queue mode.",
)
revision_option = partial(click.option, "--if-match", type=click.IntRange(min=0), metavar="REVISION")


def selection_options(command: Command) -> Command:
    """Add the options that select devices and resources: ``paths``, ``state`` and ``endpoint_type``."""
    command = click.option("--type", "endpoint_type", help="Only devices of this endpoint type.")(command)
    return patterns_option(state_option(command))


state_option = click.option(
    "--state", type=click.Choice(["registered", "deregistered"]), help="Only devices in this state."
)


def connect(**options: Any) -> MirrorClient:
    """Return a client with the settings from the environment and from the options before the command."""
    params = click.get_current_context().find_root().params
    limits = {name: params[name] for name in ("timeout", "max_retries") if params.get(name) is not None}
    return MirrorClient.from_env(**limits, **options)
