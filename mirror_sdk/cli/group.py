"""The group of commands, and what they have in common: how failures are told, arguments and options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from mirror_sdk._client import MirrorClient
from mirror_sdk.demo import DemoError
from mirror_sdk.errors import MirrorError, WaitTimeout
from mirror_sdk.wire.paths import check_path_pattern, parse_path

if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:
    # Older versions of click have no type parameter here.
    _TextType = click.ParamType


class _NoAnswer(click.ClickException):
    """The device did not answer in time."""

    exit_code = 3


class _Commands(click.Group):
    """Tells what went wrong in one line."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(context)
        except WaitTimeout as error:
            raise _NoAnswer(str(error)) from error
        except BrokenPipeError:
            # Whoever read the output has enough; click ends quietly.
            raise
        except (MirrorError, DemoError, ImportError, OSError) as error:
            raise click.ClickException(str(error)) from error


class DeviceName(_TextType):
    """A device, by its id or its endpoint name."""

    name = "device"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """The endpoint names that begin so; none when they cannot be asked for."""
        try:
            with MirrorClient.from_env(timeout=2) as client:
                found = client.list_devices(filters={"endpoint_name__gte": incomplete}, limit=50)
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
                found = client.list_resources(device_id(client, device))
        except MirrorError:
            return []
        return [CompletionItem(resource.uri) for resource in found if resource.uri.startswith(incomplete)]


class _Pattern(_TextType):
    """A pattern of resource paths."""

    name = "pattern"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The pattern, checked."""
        try:
            return check_path_pattern(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


device_argument = click.argument("device", type=DeviceName())
path_argument = click.argument("path", type=_Path())
patterns_option = click.option(
    "--path",
    "paths",
    type=_Pattern(),
    multiple=True,
    metavar="PATTERN",
    help="Only these, such as '/3303/*'; may be given several times.",
)
timeout_option = click.option(
    "--timeout", type=click.FloatRange(min=0), help="Seconds to wait for the device; a minute by default."
)
expiry_option = click.option(
    "--expiry-seconds", type=click.IntRange(min=1), help="For how long the request may wait for the device."
)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="device-state-mirror")
def main() -> None:
    """Work with a device state mirror.

    \b
    Begin here: a mirror with simulated devices, and JupyterLab on the first notebook:
      mirror lab

    \b
    All other commands ask the mirror that API_HOST and API_KEY lead to; without API_HOST
    that is http://127.0.0.1:8080, where 'mirror-server demo' and 'run' listen:
      export API_HOST=http://127.0.0.1:8080 API_KEY=ak_...
      mirror devices --state registered
      mirror write light-01 /3311/0/5851 40
      mirror plan wanted.csv --apply
      mirror get light-01
      mirror watch --path '/3303/*'
      mirror record run.parquet

    \b
    A DEVICE is an id or an endpoint name. To complete names and paths in bash:
      eval "$(_MIRROR_COMPLETE=bash_source mirror)"
    and with zsh_source or fish_source in those shells.

    \b
    Exit status: 0 done, 1 refused or failed, 2 wrong usage, 3 no answer in time.
    """  # noqa: D301 - click wants the character, not its escape


def device_id(client: MirrorClient, device: str) -> str:
    """The id of the device that has this name, or what was given, which then is an id."""
    named = client.list_devices(endpoint_name=device, limit=1)
    return named[0].id if named else device
