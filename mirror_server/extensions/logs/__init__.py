"""The server's log on stderr: lines for people or JSON objects, with one line per request."""

# Read ``handler`` first.

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mirror_server.extensions.logs.settings import LogSettings
from mirror_server.hooks import extends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirror_server.config import Settings


@extends
def settings() -> type:
    """Return the settings class of the log."""
    return LogSettings


@extends
def configure_logging(settings: Settings) -> None:
    """Write the log to stderr in the configured format."""
    from mirror_server.extensions.logs.handler import configure

    own = settings.of(LogSettings)
    configure(own.log_format, sys.stderr, access_log=own.access_log)


@extends
def build() -> Sequence[object]:
    """Build the request log."""
    from mirror_server.extensions.logs.handler import RequestLog

    return [RequestLog()]
