"""The ``mirror`` command."""

from __future__ import annotations

import csv
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.shell_completion import CompletionItem

from mirror_sdk import examples
from mirror_sdk._client import MirrorClient
from mirror_sdk._output import Form, Row, form_options, show, show_line
from mirror_sdk._tables import with_pandas
from mirror_sdk.demo import DemoError
from mirror_sdk.device import DeviceObject, Resource
from mirror_sdk.errors import MirrorError, ValueRefused, WaitTimeout
from mirror_sdk.events import Event
from mirror_sdk.lab import run_lab
from mirror_sdk.values import TEXT_PLAIN, PythonValue, ValueKind, decode, encode
from mirror_sdk.wire.paths import matches, parse_path

if TYPE_CHECKING:
    from mirror_sdk.recording import Recorder

    _TextType = click.ParamType[str]
else:
    # Older versions of click have no type parameter here.
    _TextType = click.ParamType

_DRIFTS = 1
_NOT_COMPLETE = 1
_NOT_ALL = 1
_LOOK_SECONDS = 0.2


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
      mirror plan wanted.csv --apply
      mirror get light-01
      mirror watch --path '/3303/*'
      mirror record run.parquet
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
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--device", "devices", type=_Device(), multiple=True, help="Only this one; may be given several times.")
@patterns_option
@click.option("--seconds", type=click.FloatRange(min=0), help="End after so many seconds.")
@click.option("--audit", "only_audit", is_flag=True, help="Record nothing; say whether FOLDER is complete.")
def record(folder: Path, devices: Sequence[str], paths: Sequence[str], seconds: float | None, only_audit: bool) -> None:
    r"""Record events into FOLDER until Ctrl-C; where one was stopped or killed, the next one goes on.

    At the end it says whether the recording is complete, with status 1 if not.

    \b
      mirror record run.parquet --path '/3303/*'
      python -c "import pandas; print(pandas.read_parquet('run.parquet'))"
    """
    if not only_audit:
        with MirrorClient.from_env() as client:
            chosen = [_device_id(client, device) for device in devices] or None
            with client.record(folder, devices=chosen, paths=list(paths) or None) as recorder:
                # Before it is said that it records: whoever waits for that may end it at once.
                signal.signal(signal.SIGTERM, _stop)
                _wait_for_the_end(recorder, seconds)
    try:
        audit = with_pandas("mirror_sdk.recording").Recording(folder).audit()
    except FileNotFoundError as error:
        raise click.BadParameter(str(error), param_hint="FOLDER") from error
    click.echo(str(audit))
    if not audit.complete:
        sys.exit(_NOT_COMPLETE)


@main.command()
@form_options
def requests(form: Form) -> None:
    """List the requests of this key that have no answer yet."""
    with MirrorClient.from_env() as client:
        waiting = client.list_device_requests()
    columns = ["async_response_id", "device_id", "method", "uri", "state", "placed_at", "expires_at", "attempts"]
    show(({name: getattr(request, name) for name in columns} for request in waiting), columns, form)


@main.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--apply", "is_applied", is_flag=True, help="Send what the plan says. Without it nothing is sent.")
@click.option("--undo", "undo_file", type=click.Path(path_type=Path), help="Write the values before into this file.")
@click.option("--concurrency", type=click.IntRange(min=1), default=8, show_default=True, help="How many at once.")
@click.option(
    "--canary",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="How many to send first; all of them must succeed.",
)
@click.option(
    "--max-failures", type=click.IntRange(min=0), default=5, show_default=True, help="After more than so many, stop."
)
@click.option(
    "--expiry-seconds", type=click.IntRange(min=1), default=60, show_default=True, help="How long a write may wait."
)
@click.option("--include-offline", is_flag=True, help="Send to devices that are not registered too.")
@form_options
def plan(file: Path, is_applied: bool, undo_file: Path | None, form: Form, **limits: Any) -> None:
    r"""Check the writes in FILE, a CSV with the columns device, path and value, and send them with --apply.

    It ends with status 1 if something is refused, and with --apply if not all has succeeded. Ctrl-C sends no more; what
    became of each write is shown all the same.

    \b
      mirror plan wanted.csv
      mirror plan wanted.csv --apply --undo before.csv
    """
    tables = with_pandas("mirror_sdk._table_rows")
    with MirrorClient.from_env() as client:
        made = client.plan(_wanted_values(client, file))
        frame = made.frame
        if undo_file is not None:
            _write_values(made.values_before(), undo_file)
        ended_well = bool(frame["decision"].ne("refuse").all())
        if is_applied:
            try:
                with suppress(KeyboardInterrupt):
                    made.apply(**limits)
            finally:
                # However it ended, what was sent has to be known.
                result = made.result
                show(tables.ledger_rows(frame, result), tables.LEDGER_COLUMNS, form)
            ended_well = ended_well and bool(result["status"].eq("success").all())
        else:
            show(tables.plan_rows(frame), tables.PLAN_COLUMNS, form)
    click.echo(repr(made), err=True)
    if not ended_well:
        sys.exit(_NOT_ALL)


@main.command()
@patterns_option
@click.option("--tolerance", type=click.FloatRange(min=0), default=0, help="By how much numbers may differ.")
@click.option("--check", is_flag=True, help="End with status 1 if anything drifts.")
@form_options
def drift(paths: Sequence[str], tolerance: float, check: bool, form: Form) -> None:
    """Show where desired and reported values differ, in the whole fleet."""
    with MirrorClient.from_env() as client:
        state = client.snapshot(paths=list(paths) or None)
    found = state.mirror.drift(tolerance=tolerance)
    tables = with_pandas("mirror_sdk._table_rows")
    show(tables.drift_rows(found, state), tables.DRIFT_COLUMNS, form)
    if check and not found.empty:
        sys.exit(_DRIFTS)


@main.command()
@click.argument("file", type=click.Path(path_type=Path))
@patterns_option
@click.option("--state", type=click.Choice(["registered", "deregistered"]), help="Only devices in this state.")
@click.option("--type", "endpoint_type", help="Only devices of this endpoint type.")
@click.option("--dataset", is_flag=True, help="FILE is a folder, for many Parquet files: a fleet larger than memory.")
@click.option("--overwrite", is_flag=True, help="With --dataset, put it into the place of another dataset.")
def snapshot(
    file: Path, paths: Sequence[str], state: str | None, endpoint_type: str | None, dataset: bool, overwrite: bool
) -> None:
    """Write the state of the whole fleet, as of one instant, into FILE, by its ending as Parquet or CSV.

    With --dataset FILE is a folder of Parquet files, which are written while the fleet arrives.
    """
    if overwrite and not dataset:
        raise click.BadParameter("goes with --dataset alone; a file is always replaced", param_hint="--overwrite")
    if not dataset and file.suffix not in {".parquet", ".csv"}:
        raise click.BadParameter(
            f"{file.name} ends neither in .parquet nor in .csv; for a folder give --dataset", param_hint="FILE"
        )
    selection: dict[str, Any] = {"paths": list(paths) or None, "state": state, "endpoint_type": endpoint_type}
    with MirrorClient.from_env() as client:
        if dataset:
            written = client.snapshot_dataset(file, overwrite=overwrite, **selection)
            _tell_written(written.rows, written.device_count, file)
            return
        frame = client.snapshot(**selection)
    if file.suffix == ".csv":
        frame.to_csv(file, index=False)
    else:
        frame.to_parquet(file)
    _tell_written(len(frame), frame.attrs["mirror"]["devices"], file)


def _tell_written(rows: int, device_count: int, file: Path) -> None:
    click.echo(f"wrote {rows} rows of {device_count} devices into {file}", err=True)


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
@click.option(
    "--database",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the devices and all that is known of them in this file, for the next time. Without it they are lost.",
)
@click.option("--port", type=click.IntRange(0, 65535), help="Port of JupyterLab; by default 8888 or the next free one.")
@click.option("--no-browser", is_flag=True, help="Do not open a browser; JupyterLab prints the address to open.")
def lab(folder: Path, device_count: int, seed: int, database: Path | None, port: int | None, no_browser: bool) -> None:
    """Start a mirror with simulated devices, and JupyterLab on the notebooks.

    API_HOST and API_KEY are set in the notebooks, and a tile in JupyterLab's launcher opens the mirror's own page. The
    mirror lives as long as JupyterLab, and what it knows with it, unless --database names a file to keep it in. Its
    time is simulated: it begins on Monday 5 January 2026, 08:00 UTC, passes as usual, and a notebook can let
    hours of it pass in a moment.
    """
    signal.signal(signal.SIGTERM, _stop)
    options = ["--no-browser"] if no_browser else []
    if port is not None:
        options.append(f"--ServerApp.port={port}")
    try:
        status = run_lab(
            examples.copy(folder), devices=device_count, seed=seed, database=database, options=options, say=click.echo
        )
    except KeyboardInterrupt:
        status = 0
    sys.exit(status)


def _wait_for_the_end(recorder: Recorder, seconds: float | None) -> None:
    """Until the time is over, the recorder has ended by itself, or someone wants it to end."""
    end_at = None if seconds is None else time.monotonic() + seconds
    try:
        click.echo(f"recording into {recorder.path}; Ctrl-C ends it", err=True)
        while recorder.is_running and (end_at is None or time.monotonic() < end_at):
            time.sleep(_LOOK_SECONDS if end_at is None else max(0, min(_LOOK_SECONDS, end_at - time.monotonic())))
    except KeyboardInterrupt:
        return
    if recorder.failure is not None:
        raise click.ClickException(f"the recording ended: {recorder.failure}")


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


def _wanted_values(client: MirrorClient, file: Path) -> list[tuple[str, str, object]]:
    """The writes a file asks for; one that is no CSV in UTF-8 is wrong usage."""
    try:
        return _read_wanted(client, file)
    except (UnicodeDecodeError, csv.Error) as error:
        raise click.BadParameter(f"{file.name} is no CSV in UTF-8: {error}", param_hint="FILE") from error


def _read_wanted(client: MirrorClient, file: Path) -> list[tuple[str, str, object]]:
    """The writes a file asks for, each value as its path declares it."""
    with file.open(newline="", encoding="utf-8-sig") as lines:
        rows = csv.DictReader(lines)
        lacking = {"device", "path", "value"} - set(rows.fieldnames or [])
        if lacking:
            raise click.BadParameter(f"{file.name} lacks the column {', '.join(sorted(lacking))}", param_hint="FILE")
        device_id = lru_cache(partial(_device_id, client))
        wanted: list[tuple[str, str, object]] = []
        for row in rows:
            device, path, value = (row[name] for name in ("device", "path", "value"))
            if device is None or path is None or value is None:
                raise click.BadParameter(f"line {rows.line_num} of {file.name} is too short", param_hint="FILE")
            wanted.append((device_id(device), path, _typed_or_text(value, path)))
        return wanted


def _typed_or_text(text: str, path: str) -> PythonValue:
    """The value a text stands for; one that is none is left for the plan to refuse."""
    value = decode(text.encode(), TEXT_PLAIN, path)
    return text if value.kind is ValueKind.OPAQUE or value.python is None else value.python


def _write_values(values: Iterable[tuple[str, str, object]], file: Path) -> None:
    rows = []
    for device, path, value in values:
        try:
            rows.append((device, path, encode(value, path)[0].decode()))
        except (ValueRefused, UnicodeDecodeError) as error:
            click.echo(f"{path} of {device} is left out of {file}: {error}", err=True)
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines)
        writer.writerow(["device", "path", "value"])
        writer.writerows(rows)
