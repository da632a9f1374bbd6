"""The settings of the directory."""

from __future__ import annotations

from dataclasses import dataclass

import click

from mirror_server.config import setting
from mirror_server.extensions.options import read_retention


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySettings:
    """The settings for the retention of device events."""

    keep_device_events_seconds: float = setting(
        30 * 24 * 3600,
        "How long the server stores device events (registrations, their updates and ends), such as 30d or 12h.",
        option="--keep-device-events",
        metavar="TIME",
        default="30d",
        callback=read_retention,
    )
    max_device_events: int = setting(
        1_000_000,
        "Maximum number of stored device events. The server deletes the oldest once an hour.",
        type=click.IntRange(min=1000),
    )
