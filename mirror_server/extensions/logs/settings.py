"""The settings of the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import click

from mirror_server.config import setting

LogFormat = Literal["console", "json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The settings for the format of the log, and for lines of requests."""

    log_format: LogFormat = setting(
        "console",
        "Format of the log on stderr: lines for people, or one JSON object per line for programs.",
        type=click.Choice(get_args(LogFormat)),
        commands=("run", "demo"),
    )
    access_log: bool = setting(
        True,
        "Log a line per request. The server logs failures in both cases.",
        option="--access-log/--no-access-log",
        commands=("run",),
    )
