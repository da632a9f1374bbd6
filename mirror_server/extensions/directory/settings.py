"""The settings of the directory."""

from __future__ import annotations

from dataclasses import dataclass

import click

from mirror_server.config import setting
from mirror_server.extensions.options import read_retention


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySettings:
    """The retention of device events."""

    keep_device_events_seconds: float = setting(
        30 * 24 * 3600,
        "How long device events are stored (registrations, their updates and ends): 30d, 12h.",
        option="--keep-device-events",
        metavar="TIME",
        default="30d",
        callback=read_retention,
    )
    max_device_events: int = setting(
        1_000_000,
        "Maximum number of device events. The oldest are deleted first, once an hour.",
        type=click.IntRange(min=1000),
    )
