"""What the commands have in common: arguments and options."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from mirror_sdk._client import MirrorClient
from mirror_sdk.errors import MirrorError
from mirror_sdk.wire.device_requests import MAX_EXPIRY_SECONDS
from mirror_sdk.wire.paths import check_path_pattern, parse_path

if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:
    # Older versions of click have no type parameter here.
    _TextType = click.ParamType


class DeviceName(_TextType):
    """A device, by its id or its endpoint name."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word; an empty one, as of a variable that is not set, would mean none, or all."""
        if not value:
            self.fail("it is empty; give an id or an endpoint name, as 'mirror devices' shows them", param, ctx)
        return str(value)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """The endpoint names that begin so; none when they cannot be asked for."""
        try:
            with MirrorClient.from_env(timeout=2) as client:
                found = client.devices.list(filters={"endpoint_name__gte": incomplete}, limit=50)
        except MirrorError:
            return []
        names = [device.endpoint_name for device in found]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class _Path(_TextType):
    """A resource path, completed with those the device has."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The path, checked."""
        try:
            parse_path(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)

    def shell_complete(
        self,
        ctx: click.Context,
        param: click.Parameter,  # noqa: ARG002 - click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        """The paths of the device that begin so; none when they cannot be asked for."""
        device = ctx.params.get("device")
        if not device:
            return []
        try:
            with MirrorClient.from_env(timeout=2) as client:
                found = client.devices.resources(device)
        except MirrorError:
            return []
        return [CompletionItem(resource.uri) for resource in found if resource.uri.startswith(incomplete)]


_BELOW_ZERO = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class ValueCommand(click.Command):
    """A command with an argument for a value: a number below 0 is one, and no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; any other word with a dash in front is an option, also where it is misspelt."""
        options = {name for one in self.get_params(ctx) for name in (*one.opts, *one.secondary_opts)}
        for word in args[: args.index("--")] if "--" in args else args:
            name = word.partition("=")[0]
            if word.startswith("-") and word != "-" and name not in options and not _BELOW_ZERO.fullmatch(word):
                alike = get_close_matches(name, options)
                cure = (
                    None
                    if alike
                    else f"No such option: {name}. A value that begins so goes behind two dashes: -- {word}"
                )
                raise click.NoSuchOption(name, cure, alike, ctx)
        ctx.ignore_unknown_options = True
        return super().parse_args(ctx, args)


class _Pattern(_TextType):
    """A pattern of resource paths."""

    name = "pattern"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The pattern, checked."""
        try:
            return check_path_pattern(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


pattern_type = _Pattern()
device_argument = click.argument("device", type=DeviceName())
path_argument = click.argument("path", type=_Path())
patterns_option = click.option(
    "--path",
    "paths",
    type=pattern_type,
    multiple=True,
    metavar="PATTERN",
    help="Only these, such as '/3303/*'; may be given several times.",
)
timeout_option = click.option(
    "--timeout", type=click.FloatRange(min=0), help="Seconds to wait for the device; a minute by default."
)
expiry_option = click.option(
    "--expiry-seconds",
    type=click.IntRange(1, MAX_EXPIRY_SECONDS),
    help="For how long the request may wait for the device.",
)


def connect(**options: Any) -> MirrorClient:
    """A client as the environment and the options in front of the command say."""
    given = click.get_current_context().find_root().params
    limits = {name: given[name] for name in ("timeout", "max_retries") if given.get(name) is not None}
    return MirrorClient.from_env(**limits, **options)
