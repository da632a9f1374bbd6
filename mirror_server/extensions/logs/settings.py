"""The settings of the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import click

from mirror_server.config import setting

LogFormat = Literal["console", "json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """How the log looks, and whether it has requests."""

    log_format: LogFormat = setting(
        "console",
        "How the log on stderr looks: lines for people, or a JSON object a line for programs.",
        type=click.Choice(get_args(LogFormat)),
        commands=("run", "demo"),
    )
    access_log: bool = setting(
        True,
        "Write a line for each request; failures are written in either case.",
        option="--access-log/--no-access-log",
        commands=("run",),
    )
