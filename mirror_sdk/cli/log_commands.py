"""The commands about the notification log: watching and recording."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from mirror_sdk.cli.arguments import DeviceName, connect, patterns_option
from mirror_sdk.cli.group import in_words_of_the_shell, main
from mirror_sdk.cli.output import Form, Row, form_options, show_heading, show_line
from mirror_sdk.events import Event
from mirror_sdk.values import plain_text

if TYPE_CHECKING:
    from mirror_sdk._client import MirrorClient
    from mirror_sdk.recording import Recorder

_EVENT = ("at", "event", "device_id", "endpoint_name", "path", "value", "async_id", "status", "category")
_NOT_COMPLETE = 1
_LOOK_SECONDS = 0.2
_SILENT_SECONDS = 10


@main.command()
@click.option("--device", type=DeviceName(), help="Only this one.")
@patterns_option
@click.option("--limit", type=click.IntRange(min=1), help="End after so many events.")
@click.option("--timeout", type=click.FloatRange(min=0), help="End when none came for so many seconds.")
@form_options
def watch(device: str | None, paths: Sequence[str], limit: int | None, timeout: float | None, form: Form) -> None:
    """Show events as they come, until Ctrl-C.

    Of values those come that a rule or a subscription of the key covers: see 'mirror rules' and 'mirror subscribe'.
    They come when they change; where the clock of a demo is manual, that is when it is moved.

    Where the mirror cannot be reached any more, that is told on standard error, and it goes on when the mirror is back:
    what happened meanwhile is not left out.

    \b
      mirror watch --path '/3303/*'
      mirror watch --device light-01 --limit 1 --json
    """  # noqa: D301 - click wants the character, not its escape
    signal.signal(signal.SIGTERM, stop)
    # So it is to end: what was shown is all there is to say.
    with suppress(KeyboardInterrupt), connect() as client:
        only = [client.devices.get(device).id] if device else None
        seconds = float("inf") if timeout is None else timeout
        events = client.events(timeout=seconds, outage_timeout=seconds, limit=limit, paths=paths or None, devices=only)
        show_heading(_EVENT, form)
        silence = Silence(_what_brings_values(device, paths))
        with _looked_after(client, silence):
            for event in events:
                silence.end()
                show_line(_event_row(event), form)
        if told := silence.at_the_end():
            click.echo(told, err=True)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--device", "devices", type=DeviceName(), multiple=True, help="Only this one; may be given several times."
)
@patterns_option
@click.option("--subscribe", is_flag=True, help="Have rules for all of this while it records.")
@click.option("--seconds", type=click.FloatRange(min=0), help="End after so many seconds.")
@click.option("--audit", "only_audit", is_flag=True, help="Record nothing; say whether FOLDER is complete.")
@click.option(
    "--finalize", "only_finalize", is_flag=True, help="Record nothing; let other programs see all that FOLDER holds."
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
    """Record events into FOLDER until Ctrl-C; where one was stopped or killed, the next one goes on.

    At the end it says whether the recording is complete, with status 1 if not. What no rule and no subscription of the
    key covers does not come, which is told at the beginning. Other programs see what is older than five minutes; of a
    killed one, --finalize shows them the rest.

    \b
      mirror record run.parquet --path '/3303/*' --subscribe
      python -c "import pandas; print(pandas.read_parquet('run.parquet'))"
    """  # noqa: D301 - click wants the character, not its escape
    if not (only_audit or only_finalize):
        with connect() as client, _begun(client, folder, devices, paths, subscribe=subscribe) as recorder:
            # Before it is said that it records: whoever waits for that may end it at once.
            signal.signal(signal.SIGTERM, stop)
            _wait_for_the_end(recorder, seconds)
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
        told = "values come of what a rule or a subscription of this key covers; --subscribe has rules while it records"
        click.echo(f"nothing has come; {told}", err=True)
    if not audit.complete:
        sys.exit(_NOT_COMPLETE)


def _begun(
    client: MirrorClient, folder: Path, devices: Sequence[str], paths: Sequence[str], *, subscribe: bool
) -> Recorder:
    """A recorder; what is to be said at its beginning is said without a line of this program."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        recorder = client.record(folder, devices=list(devices) or None, paths=list(paths) or None, subscribe=subscribe)
    for warning in caught:
        click.echo(f"Warning: {in_words_of_the_shell(str(warning.message))}", err=True)
    return recorder


class Silence:
    """What a watch says, once, where nothing at all has come of what it waits for.

    Args:
        cure: How it comes to come.
        clock: Seconds.
    """

    def __init__(self, cure: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._cure = cure
        self._clock = clock
        self._began_at = clock()
        self._is_over = False

    def end(self) -> None:
        """Something has come."""
        self._is_over = True

    def told(self) -> str | None:
        """What is to be said now, where it has been silent for long enough."""
        seconds = self._clock() - self._began_at
        if seconds < _SILENT_SECONDS:
            return None
        return self._tell(f"nothing has come for {seconds:.0f} s, and watching goes on")

    def at_the_end(self) -> str | None:
        """What is to be said when the watch is over."""
        return self._tell("nothing has come")

    def _tell(self, what: str) -> str | None:
        is_over, self._is_over = self._is_over, True
        return None if is_over else f"{what}; {self._cure}"


def _what_brings_values(device: str | None, paths: Sequence[str]) -> str:
    chosen = [*(["--device", device] if device else []), *(word for path in paths for word in ("--path", path))]
    add = shlex.join(["mirror", "rules", "--add", *(chosen or ["--device", "*"])])
    return (
        "values come when they change at a device, of what a rule or a subscription of this key covers;"
        f" {add} adds such a rule, 'mirror rules' lists them, 'mirror subscribe DEVICE PATH' is for a single value"
    )


@contextmanager
def _looked_after(client: MirrorClient, silence: Silence) -> Iterator[None]:
    """Say when the mirror is out of reach, which events wait out, and when it is back; and what nothing comes of."""
    is_over = threading.Event()

    def look() -> None:
        was_away = False
        while not is_over.wait(_LOOK_SECONDS):
            status = client.notifications.status()
            is_away = status.failures > 0
            if not is_away and (told := silence.told()):
                click.echo(told, err=True)
            if is_away and not was_away:
                click.echo(f"waiting for the mirror: {status.last_failure}", err=True)
            elif was_away and not is_away:
                click.echo("the mirror is back", err=True)
            was_away = is_away

    looking = threading.Thread(target=look, name="mirror-looking", daemon=True)
    looking.start()
    try:
        yield
    finally:
        is_over.set()
        looking.join()


def _wait_for_the_end(recorder: Recorder, seconds: float | None) -> None:
    """Wait until the time is over, the recorder has ended by itself, or someone wants it to end."""
    end_at = None if seconds is None else time.monotonic() + seconds
    try:
        click.echo(f"recording into {recorder.path}; Ctrl-C ends it", err=True)
        while recorder.is_running and (end_at is None or time.monotonic() < end_at):
            time.sleep(_LOOK_SECONDS if end_at is None else max(0, min(_LOOK_SECONDS, end_at - time.monotonic())))
    except KeyboardInterrupt:
        return
    if recorder.failure is not None:
        raise click.ClickException(f"the recording ended: {recorder.failure}")


def stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    """End as Ctrl-C does, at a signal."""
    raise KeyboardInterrupt


def _event_row(event: Event) -> Row:
    value = None if event.value is None else plain_text(event.value)
    # Of a loss nobody knows when; the clock here would not be the one of the other lines.
    told = {"at": event.changed_at, "event": event.kind.value, "value": value}
    return {name: told[name] if name in told else getattr(event, name) for name in _EVENT}
