"""The program that ``mirror watch --exec`` runs for each alarm."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import click

from mirror_sdk.conditions import Alarm

_MINUTE_SECONDS = 60.0
_LIMIT_SECONDS = 60.0
_STANDARD_ERROR = 2


class AlarmProgram:
    """A program that runs once for each alarm, one run after the other, without a shell.

    Args:
        command: The program and its arguments, with the quotation marks of a shell.
        per_minute: The maximum number of starts per minute. Further alarms wait.
        clock: A function that returns the current time in seconds.
        sleep: A function that waits for a number of seconds.

    Raises:
        click.BadParameter: The program does not exist, or a quotation mark is missing.
    """

    def __init__(
        self,
        command: str,
        per_minute: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise click.BadParameter(f"{command!r}: {error}", param_hint="--exec") from error
        if not self._words or shutil.which(self._words[0]) is None:
            name = self._words[0] if self._words else ""
            if Path(name).is_file():
                cure = f"{name!r} is not executable; make it so with: chmod +x {shlex.quote(name)}"
                raise click.BadParameter(cure, param_hint="--exec")
            raise click.BadParameter(f"there is no program {name!r}; pass its path", param_hint="--exec")
        self._started: deque[float] = deque(maxlen=per_minute)
        self._clock = clock
        self._sleep = sleep

    def run(self, alarm: Alarm) -> None:
        """Run the program with an alarm in its environment. A failure is reported on standard error."""
        self._wait_for_turn()
        try:
            # The words are not interpreted by a shell, and the alarm is only in the environment.
            ended = subprocess.run(  # noqa: S603
                self._words,
                check=False,
                env=os.environ | environment_of(alarm),
                stdin=subprocess.DEVNULL,
                # Standard output has only the lines of the alarms.
                stdout=_STANDARD_ERROR,
                timeout=_LIMIT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            click.echo(f"{self._words[0]} was stopped, because it ran for more than {_LIMIT_SECONDS:.0f} s", err=True)
        except OSError as error:
            click.echo(f"{self._words[0]} could not be started: {error.strerror}", err=True)
        else:
            if ended.returncode:
                click.echo(f"{self._words[0]} ended with the exit status {ended.returncode}", err=True)

    def _wait_for_turn(self) -> None:
        if len(self._started) == self._started.maxlen:
            wait_seconds = self._started[0] + _MINUTE_SECONDS - self._clock()
            if wait_seconds > 0:
                click.echo(f"waiting for {wait_seconds:.0f} s before the next start of {self._words[0]}", err=True)
                self._sleep(wait_seconds)
        self._started.append(self._clock())


def environment_of(alarm: Alarm) -> dict[str, str]:
    """Return the environment variables of an alarm: ``MIRROR_ALARM`` as JSON, and one for each attribute."""
    variables = {"MIRROR_ALARM": alarm.to_json()}
    for name, value in alarm.to_dict().items():
        text = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        variables[f"MIRROR_ALARM_{name.upper()}"] = text
    # An environment variable cannot contain this character.
    return {name: text.replace("\0", "\\x00") for name, text in variables.items()}
