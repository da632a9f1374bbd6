"""The ``mirror`` command."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from mirror_sdk import examples
from mirror_sdk._client import MirrorClient
from mirror_sdk._output import Form, Row, form_options, show, show_line
from mirror_sdk.device import DeviceObject, Resource
from mirror_sdk.errors import MirrorError, WaitTimeout
from mirror_sdk.events import Event
from mirror_sdk.lab import LabError, run_lab
from mirror_sdk.values import TEXT_PLAIN, PythonValue, ValueKind, decode
from mirror_sdk.wire.paths import matches, parse_path

if TYPE_CHECKING:
    import pandas as pd

    _TextType = click.ParamType[str]
else:
    # Older versions of click have no type parameter here.
    _TextType = click.ParamType

_DRIFTS = 1


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
        except (MirrorError, LabError, ImportError) as error:
            raise click.ClickException(str(error)) from error


class _Device(_TextType):
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
    """A resource path."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The path, checked."""
        try:
            parse_path(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


device_argument = click.argument("device", type=_Device())
path_argument = click.argument("path", type=_Path())
patterns_option = click.option(
    "--path",
    "paths",
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
    r"""Work with a device state mirror.

    \b
    Begin here: a mirror with simulated devices, and JupyterLab on the first notebook:
      mirror lab
    \b
    All other commands ask the mirror that API_HOST and API_KEY lead to:
      export API_HOST=http://127.0.0.1:8080 API_KEY=ak_...
      mirror devices --state registered
      mirror write light-01 /3311/0/5851 40
      mirror get light-01
      mirror watch --path '/3303/*'
    \b
    A DEVICE is an id or an endpoint name. To complete names in bash:
      eval "$(_MIRROR_COMPLETE=bash_source mirror)"
    \b
    Exit status: 0 done, 1 refused or failed, 2 wrong usage, 3 no answer in time.
    """


@main.command()
@click.option("--state", type=click.Choice(["registered", "deregistered"]), help="Only those in this state.")
@click.option("--type", "endpoint_type", help="Only those of this endpoint type.")
@click.option("--limit", type=click.IntRange(min=1), help="How many at most.")
@form_options
def devices(state: str | None, endpoint_type: str | None, limit: int | None, form: Form) -> None:
    """List the devices."""
    with MirrorClient.from_env() as client:
        found = client.list_devices(state=state, endpoint_type=endpoint_type, limit=limit)
    columns = ["id", "endpoint_name", "endpoint_type", "state", "queue_mode", "updated_at"]
    show(({name: getattr(device, name) for name in columns} for device in found), columns, form)


@main.command()
@device_argument
@patterns_option
@form_options
def get(device: str, paths: Sequence[str], form: Form) -> None:
    """Show the last reported and the last desired values of a DEVICE, without asking it."""
    with MirrorClient.from_env() as client:
        found = client.get_device(_device_id(client, device))
    show(_resource_rows(found, paths), list(_COLUMNS), form)


@main.command()
@device_argument
@path_argument
@timeout_option
@expiry_option
def read(device: str, path: str, timeout: float | None, expiry_seconds: int | None) -> None:
    r"""Ask a DEVICE for the value at PATH now.

    \b
      mirror read weather-station-01 /3303/0/5700
    """
    with MirrorClient.from_env() as client:
        request = client.begin_read(_device_id(client, device), path, expiry_seconds=expiry_seconds)
        click.echo(str(request.result(timeout)))


@main.command()
@device_argument
@path_argument
@click.argument("value")
@timeout_option
@expiry_option
@click.option("--allow-read-only", is_flag=True, help="Also what is declared read-only, for a device that takes it.")
def write(
    device: str, path: str, value: str, timeout: float | None, expiry_seconds: int | None, allow_read_only: bool
) -> None:
    r"""Have a DEVICE take a VALUE at PATH; done when it has.

    \b
      mirror write light-01 /3311/0/5850 1
    """
    typed = _typed(value, path)
    with MirrorClient.from_env() as client:
        device_id = _device_id(client, device)
        request = client.begin_write(
            device_id, path, typed, expiry_seconds=expiry_seconds, allow_read_only=allow_read_only
        )
        request.result(timeout)


@main.command()
@device_argument
@path_argument
@click.option("--end", is_flag=True, help="End the subscription instead.")
def subscribe(device: str, path: str, end: bool) -> None:
    """Have changes of the value at PATH of a DEVICE reported from now on."""
    with MirrorClient.from_env() as client:
        act = client.unsubscribe if end else client.subscribe
        act(_device_id(client, device), path)


@main.command()
@click.option("--device", type=_Device(), help="Only this one.")
@patterns_option
@click.option("--limit", type=click.IntRange(min=1), help="End after so many events.")
@click.option("--timeout", type=click.FloatRange(min=0), help="End when none came for so many seconds.")
@form_options
def watch(device: str | None, paths: Sequence[str], limit: int | None, timeout: float | None, form: Form) -> None:
    """Show events as they come, until Ctrl-C."""
    shown = 0
    with MirrorClient.from_env() as client:
        device_id = _device_id(client, device) if device else None
        for event in client.events(timeout=float("inf") if timeout is None else timeout):
            if not _is_wanted(event, device_id, paths):
                continue
            show_line(_event_row(event), form)
            shown += 1
            if shown == limit:
                return


@main.command()
@form_options
def requests(form: Form) -> None:
    """List the requests of this key that have no answer yet."""
    with MirrorClient.from_env() as client:
        waiting = client.list_device_requests()
    columns = ["async_response_id", "device_id", "method", "uri", "state", "placed_at", "expires_at", "attempts"]
    show(({name: getattr(request, name) for name in columns} for request in waiting), columns, form)


@main.command()
@patterns_option
@click.option("--tolerance", type=click.FloatRange(min=0), default=0, help="By how much numbers may differ.")
@click.option("--check", is_flag=True, help="End with status 1 if anything drifts.")
@form_options
def drift(paths: Sequence[str], tolerance: float, check: bool, form: Form) -> None:
    """Show where desired and reported values differ, in the whole fleet."""
    with MirrorClient.from_env() as client:
        state = client.state_frame(paths=list(paths) or None)
    found = state.mirror.drift(tolerance=tolerance)
    show(_drift_rows(found, state), ["device", "path", "desired", "reported", "kind", "since", "age"], form)
    if check and not found.empty:
        sys.exit(_DRIFTS)


@main.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@patterns_option
def snapshot(file: Path, paths: Sequence[str]) -> None:
    """Write the state of the whole fleet into FILE, by its ending as Parquet or CSV."""
    if file.suffix not in {".parquet", ".csv"}:
        raise click.BadParameter(f"{file.name} ends neither in .parquet nor in .csv", param_hint="FILE")
    with MirrorClient.from_env() as client:
        state = client.state_frame(paths=list(paths) or None)
    if file.suffix == ".csv":
        state.to_csv(file, index=False)
    else:
        state.to_parquet(file)
    click.echo(f"wrote {len(state)} rows of {state.attrs['mirror']['devices']} devices into {file}", err=True)


@main.command()
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default="mirror-notebooks",
    show_default=True,
    help="Where the notebooks are copied to. What is there already stays as it is.",
)
@click.option(
    "--devices",
    "device_count",
    type=click.IntRange(min=1),
    default=12,
    show_default=True,
    help="How many devices to have.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same devices and values.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port of JupyterLab; by default 8888 or the next free one.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser; JupyterLab prints the address to open.")
def lab(folder: Path, device_count: int, seed: int, port: int | None, no_browser: bool) -> None:
    """Start a mirror with simulated devices, and JupyterLab on the notebooks.

    API_HOST and API_KEY are set in the notebooks. The mirror lives as long as JupyterLab: its database is temporary.
    Its time is simulated: it begins on Monday 5 January 2026, 08:00 UTC, passes as usual, and a notebook can let
    hours of it pass in a moment.
    """
    signal.signal(signal.SIGTERM, _stop)
    options = ["--no-browser"] if no_browser else []
    if port is not None:
        options.append(f"--ServerApp.port={port}")
    try:
        status = run_lab(examples.copy(folder), devices=device_count, seed=seed, options=options, say=click.echo)
    except KeyboardInterrupt:
        status = 0
    sys.exit(status)


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _device_id(client: MirrorClient, device: str) -> str:
    """The id of the device that has this name, or what was given, which then is an id."""
    named = client.list_devices(endpoint_name=device, limit=1)
    return named[0].id if named else device


def _typed(text: str, path: str) -> PythonValue:
    """The value a text stands for, by what is declared for the path."""
    value = decode(text.encode(), TEXT_PLAIN, path)
    if value.kind is ValueKind.OPAQUE or value.python is None:
        raise click.BadParameter(f"{text!r} is no value for {path}", param_hint="VALUE")
    return value.python


def _status_word(resource: Resource) -> str | None:
    status = resource.desired.status if resource.desired else None
    return None if status is None else status.name.lower()


_COLUMNS: dict[str, Callable[[Resource], object]] = {
    "path": lambda resource: resource.path,
    "label": lambda resource: resource.label,
    "reported": lambda resource: resource.reported and str(resource.reported.value),
    "reported_at": lambda resource: resource.reported and resource.reported.reported_at,
    "desired": lambda resource: resource.desired and str(resource.desired.value),
    "desired_at": lambda resource: resource.desired and resource.desired.desired_at,
    "status": _status_word,
    "subscribed": lambda resource: resource.subscribed,
}


def _resource_rows(device: DeviceObject, patterns: Sequence[str]) -> Iterator[Row]:
    for resource in device.resources.values():
        if not patterns or any(matches(pattern, resource.path) for pattern in patterns):
            yield _resource_row(resource)


def _resource_row(resource: Resource) -> Row:
    return {name: read_column(resource) for name, read_column in _COLUMNS.items()}


def _is_wanted(event: Event, device_id: str | None, patterns: Sequence[str]) -> bool:
    if device_id is not None and event.device_id not in {device_id, None}:
        return False
    return not patterns or (event.path is not None and any(matches(pattern, event.path) for pattern in patterns))


def _event_row(event: Event) -> Row:
    return {
        "at": event.changed_at or event.received_at,
        "event": event.kind.value,
        "device_id": event.device_id,
        "path": event.path,
        "value": None if event.value is None else str(event.value),
        "async_id": event.async_id,
        "status": event.status,
        "category": event.category,
    }


def _drift_rows(found: pd.DataFrame, state: pd.DataFrame) -> Iterator[Mapping[str, object]]:
    import pandas as pd  # noqa: PLC0415 - an extra; that it is there shows in the frame

    names = dict(zip(state["device_id"], state["endpoint_name"], strict=True))
    values = zip(found.mirror.desired, found.mirror.value, strict=True)
    for (_, row), (desired, reported) in zip(found.iterrows(), values, strict=True):
        yield {
            "device": names[row["device_id"]],
            "path": row["path"],
            "desired": None if pd.isna(desired) else desired,
            "reported": None if pd.isna(reported) else reported,
            "kind": row["kind"],
            "since": row["since"].to_pydatetime(),
            "age": row["age"].to_pytimedelta(),
        }
