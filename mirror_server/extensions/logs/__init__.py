"""The server's own log: lines for people or objects of JSON, one for each request, on stderr.

``--log-format`` (``console``, or ``json`` for programs) says how a line looks; on a terminal it is in colours. A line
for each request has its method, path, status, duration, request id (``X-Request-ID``), application and async-id, unless
``--no-access-log`` leaves them out (``--access-log`` is the opposite); failures are written in either case. There are
no keys, no queries and no values in the log.

Each line is written before anything goes on, so that none is lost when the process is killed. A pipe that is not read
stops nothing: 10,000 lines are queued, further ones are dropped and counted (``mirror_lost_log_lines`` of
``/metrics``), as are those that cannot be written, on a full disk for instance. How many there were is logged as soon
as lines can be written again.

Under gunicorn or waitress the log is theirs, and requests are records of the logger ``mirror_server.requests``. Without
this extension the log is that of Python's ``logging``, and has no line for a request.
"""

# To read it begin with ``handler``.

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
    """How the log looks, and whether it has requests."""
    return LogSettings


@extends
def help_topics() -> dict[str, str]:
    """What the log has, and what becomes of it where it is not read."""
    return {"logs": __name__}


@extends
def configure_logging(settings: Settings) -> None:
    """Write the log to stderr as the settings have it."""
    from mirror_server.extensions.logs.handler import configure

    own = settings.of(LogSettings)
    configure(own.log_format, sys.stderr, access_log=own.access_log)


@extends
def build() -> Sequence[object]:
    """The lines of requests."""
    from mirror_server.extensions.logs.handler import RequestLog

    return [RequestLog()]
