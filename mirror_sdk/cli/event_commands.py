"""The commands that watch and record events."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from mirror_sdk.cli.alarm_program import AlarmProgram
from mirror_sdk.cli.arguments import connect, device_option, limit_option, patterns_option
from mirror_sdk.cli.group import in_words_of_the_shell, main
from mirror_sdk.cli.output import OutputFormat, Row, form_options, show_heading, show_line
from mirror_sdk.conditions import Condition
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import Event
from mirror_sdk.values import plain_text

if TYPE_CHECKING:
    from mirror_sdk._client import MirrorClient
    from mirror_sdk.recording import Recorder

_EVENT = ("at", "event", "device_id", "endpoint_name", "path", "value", "async_id", "status", "category")
_ALARM = (
    *("at", "kind", "device_id", "endpoint_name", "path", "condition", "value", "extreme", "begin", "hidden", "gap"),
    "id",
)
_INCOMPLETE = 1
_POLL_SECONDS = 0.2
_SILENT_SECONDS = 10


@main.command()
@device_option(help="Only events of this device.")
@patterns_option
@limit_option(help="Stop after this many events.")
@click.option("--timeout", type=click.FloatRange(min=0), help="Stop after this many seconds without an event.")
@click.option(
    "--alarm",
    "alarms",
    multiple=True,
    metavar="CONDITION",
    help="Show when this condition starts and ends, such as '/3303/0/5700 > 25 for 10min'. Can be repeated.",
)
@click.option("--exec", "command", metavar="COMMAND", help="Run this program for each alarm, without a shell.")
@click.option(
    "--exec-per-minute",
    type=click.IntRange(min=1),
    default=60,
    show_default=True,
    help="How often to start the program per minute. Further alarms wait.",
)
@click.option(
    "--state-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Continue from this file, and store the state of the alarms there.",
)
@click.option("--subscribe", is_flag=True, help="Add presubscription rules for the paths of the alarms. They remain.")
@form_options
def watch(
    device: str | None,
    paths: Sequence[str],
    limit: int | None,
    timeout: float | None,
    alarms: Sequence[str],
    command: str | None,
    exec_per_minute: int,
    state_file: Path | None,
    subscribe: bool,
    form: OutputFormat,
) -> None:
    """Show events as they arrive, until Ctrl-C.

    A value arrives when it changes, if a rule or a subscription of the key covers it: see 'mirror rules' and 'mirror
    subscribe'. With the manual clock of a demo, values change only when the clock is advanced.

    If the mirror becomes unreachable, the command prints a message on standard error. It continues when the mirror can
    be reached again, and no event in between is lost.

    With --alarm, the command shows alarms instead of events, one line when a condition starts and one when it ends:
    see 'mirror help conditions'. --exec runs a program for each of them, one after the other, with the alarm in
    environment variables such as MIRROR_ALARM_KIND, and as JSON in MIRROR_ALARM. Its output goes to standard error. A
    program that fails or runs for more than a minute is reported there, and the command continues.

    \b
      mirror watch --path '/3303/*'
      mirror watch --device light-01 --limit 1 --json
      mirror watch --alarm '/3303/*/5700 > 25 for 10min' --subscribe --exec './notify.sh'
    """  # noqa: D301 - click wants the character, not its escape
    signal.signal(signal.SIGTERM, stop)
    if alarms:
        if paths:
            raise click.UsageError("--path and --alarm cannot be combined; the paths are in the condition")
        program = None if command is None else AlarmProgram(command, exec_per_minute)
        options: Any = {"state_file": state_file, "subscribe": subscribe, "devices": [device] if device else None}
        _watch_alarms(list(map(_condition, alarms)), options, limit, timeout, program, form)
        return
    for option, value in (("--exec", command), ("--state-file", state_file), ("--subscribe", subscribe)):
        if value:
            raise click.UsageError(f"{option} needs --alarm")
    # Ctrl-C is the normal way to end the command.
    with suppress(KeyboardInterrupt), connect() as client:
        only = [client.devices.get(device).id] if device else None
        seconds = float("inf") if timeout is None else timeout
        events = client.events(timeout=seconds, outage_timeout=seconds, limit=limit, paths=paths or None, devices=only)
        show_heading(_EVENT, form)
        is_reported, advice = threading.Event(), _advice(device, paths)
        with _reported_outages(client, is_reported, advice):
            for event in events:
                is_reported.set()
                show_line(_event_row(event), form)
        if not is_reported.is_set():
            click.echo(f"no events received; {advice}", err=True)


def _condition(text: str) -> Condition:
    try:
        return Condition.parse(text)
    except InvalidValue as error:
        raise click.BadParameter(str(error), param_hint="--alarm") from error


def _watch_alarms(
    conditions: Sequence[Condition],
    options: Any,
    limit: int | None,
    timeout: float | None,
    program: AlarmProgram | None,
    form: OutputFormat,
) -> None:
    """Show alarms, and run the program for each of them."""
    seconds = float("inf") if timeout is None else timeout
    show_heading(_ALARM, form)
    is_reported = threading.Event()
    # No alarms for a long time are normal.
    is_reported.set()
    with (
        suppress(KeyboardInterrupt),
        connect() as client,
        client.watch_conditions(conditions, timeout=seconds, outage_timeout=seconds, **options) as alarms,
        _reported_outages(client, is_reported, ""),
    ):
        for alarm in islice(alarms, limit):
            if form:
                show_line({name: getattr(alarm, name) for name in _ALARM}, form)
            else:
                click.echo(str(alarm))
            if program is not None:
                program.run(alarm)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@device_option("devices", multiple=True, help="Only events of this device. Can be repeated.")
@patterns_option
@click.option(
    "--subscribe", is_flag=True, help="Add presubscription rules for these devices and paths during the recording."
)
@click.option("--seconds", type=click.FloatRange(min=0), help="Stop after this many seconds.")
@click.option("--audit", "only_audit", is_flag=True, help="Record nothing. Check whether FOLDER is complete.")
@click.option(
    "--finalize",
    "only_finalize",
    is_flag=True,
    help="Record nothing. Make all events in FOLDER visible to other programs.",
)
def record(
    folder: Path,
    devices: Sequence[str],
    paths: Sequence[str],
    subscribe: bool,
    seconds: float | None,
    only_audit: bool,
    only_finalize: bool,
) -> None:
    """Record events into FOLDER until Ctrl-C. An existing recording is continued.

    At the end, the command prints whether the recording is complete. If it is not, the exit status is 1. A value
    arrives only if a rule or a subscription of the key covers it. If a path is not covered, the command prints a
    warning at the start. Other programs that read FOLDER see an event up to five minutes later. If the command was
    killed, run it with --finalize to make the newest events visible.

    \b
      mirror record run.parquet --path '/3303/*' --subscribe
      python -c "import pandas; print(pandas.read_parquet('run.parquet'))"
    """  # noqa: D301 - click wants the character, not its escape
    if not (only_audit or only_finalize):
        selection: Any = {"devices": list(devices) or None, "paths": list(paths) or None}
        with connect() as client, client.record(folder, **selection, subscribe=subscribe) as recorder:
            # This comes before the first line of output, because another program may end the recording as soon as it
            # reads that line.
            signal.signal(signal.SIGTERM, stop)
            _wait_for_end(recorder, seconds)
    try:
        from mirror_sdk.recording import Recording

        recording = Recording(folder)
        if only_finalize:
            recording.finalize()
        audit = recording.audit()
    except FileNotFoundError as error:
        raise click.BadParameter(in_words_of_the_shell(str(error)), param_hint="FOLDER") from error
    click.echo(in_words_of_the_shell(str(audit)))
    if not (audit.events or subscribe or only_audit or only_finalize):
        advice = "values arrive if a rule or a subscription of this key covers them; --subscribe adds rules"
        click.echo(f"no events received; {advice}", err=True)
    if not audit.complete:
        sys.exit(_INCOMPLETE)


def _advice(device: str | None, paths: Sequence[str]) -> str:
    selected = [*(["--device", device] if device else []), *(word for path in paths for word in ("--path", path))]
    add = shlex.join(["mirror", "rules", "--add", *(selected or ["--device", "*"])])
    return (
        "a value arrives when it changes and a rule or a subscription of this key covers it. To add a rule:"
        f" {add}. To list rules: 'mirror rules'. For a single value: 'mirror subscribe DEVICE PATH'"
    )


@contextmanager
def _reported_outages(client: MirrorClient, is_reported: threading.Event, advice: str) -> Iterator[None]:
    """Report when the mirror becomes unreachable and when it can be reached again.

    Report once if no events are received for some time. ``is_reported`` is set after an event or after that report.
    """
    is_over, started_at = threading.Event(), time.monotonic()

    def poll() -> None:
        was_failing = False
        while not is_over.wait(_POLL_SECONDS):
            status = client.notifications.status()
            is_failing = status.failures > 0
            seconds = time.monotonic() - started_at
            if not is_failing and not is_reported.is_set() and seconds >= _SILENT_SECONDS:
                is_reported.set()
                click.echo(f"no events received for {seconds:.0f} s, still watching; {advice}", err=True)
            if is_failing and not was_failing:
                click.echo(f"waiting for the mirror: {status.last_failure}", err=True)
            elif was_failing and not is_failing:
                click.echo("the mirror is back", err=True)
            was_failing = is_failing

    polling = threading.Thread(target=poll, name="mirror-outages", daemon=True)
    polling.start()
    try:
        yield
    finally:
        is_over.set()
        polling.join()


def _wait_for_end(recorder: Recorder, seconds: float | None) -> None:
    """Wait until the time is over, the recorder ends, or the user presses Ctrl-C."""
    end_at = float("inf") if seconds is None else time.monotonic() + seconds
    try:
        click.echo(f"recording into {recorder.path}; Ctrl-C ends it", err=True)
        while recorder.is_running and (remaining := end_at - time.monotonic()) > 0:
            time.sleep(min(_POLL_SECONDS, remaining))
    except KeyboardInterrupt:
        return
    if recorder.failure is not None:
        raise click.ClickException(f"the recording ended: {recorder.failure}")


def stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Handle a signal in the same way as Ctrl-C."""
    raise KeyboardInterrupt


def _event_row(event: Event) -> Row:
    value = None if event.value is None else plain_text(event.value)
    # The time of a loss is unknown. The local time would not fit the times of the other lines.
    computed = {"at": event.changed_at, "event": event.kind.value, "value": value}
    return {name: computed[name] if name in computed else getattr(event, name) for name in _EVENT}
