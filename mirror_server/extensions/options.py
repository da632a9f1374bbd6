"""Options that several extensions have: how long something is kept, and an end together with standard input."""

from __future__ import annotations

import os
import signal
import threading

import click

from mirror_server.config import read_time

_MIN_RETENTION_SECONDS = 60


def read_retention(_context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Return for how many seconds something is kept, at least 60; the callback of an option.

    Raises:
        BadParameter: The text is no time, or a shorter one.
    """
    if text is None:
        return None
    seconds = read_time(text)
    if seconds < _MIN_RETENTION_SECONDS:
        cure = ", or leave it out for none" if parameter.default is None else ""
        raise click.BadParameter(f"{text} is too short; write a minute or more, 30d or 12h{cure}")
    return seconds


def stop_with_stdin() -> None:
    """Send SIGTERM to this process when its standard input ends, as it does when the program that started it ends."""

    def run() -> None:
        # Not through sys.stdin: its lock would be held when the interpreter ends.
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=run, name="stdin", daemon=True).start()
