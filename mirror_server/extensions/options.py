"""Options that several extensions share: retention times, and stopping at the end of standard input."""

from __future__ import annotations

import os
import signal
import threading

import click

from mirror_server.config import read_time

_MIN_RETENTION_SECONDS = 60


def read_retention(_context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Return a retention time in seconds, at least 60. This is the callback of an option.

    Raises:
        BadParameter: The text is not a time, or the time is too short.
    """
    if text is None:
        return None
    seconds = read_time(text)
    if seconds < _MIN_RETENTION_SECONDS:
        cure = ", or leave the option out to store nothing" if parameter.default is None else ""
        raise click.BadParameter(f"{text} is too short; use at least one minute, for example 30d or 12h{cure}")
    return seconds


def stop_with_stdin() -> None:
    """Send SIGTERM to this process when its standard input ends, because the program that started it has then ended."""

    def run() -> None:
        # os.read, because sys.stdin has a lock, which this thread would still hold when the interpreter exits.
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=run, name="stdin", daemon=True).start()
