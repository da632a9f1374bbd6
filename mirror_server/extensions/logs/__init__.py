"""The server's log on stderr: lines for people or JSON objects, with one line per request.

JSON for programs, without the line per request::

    mirror-server run --log-format json --no-access-log

``--log-format`` is ``console`` (in color on a terminal) or ``json`` for programs. The line of a request contains its
method, path, status, duration, request id (``X-Request-ID``), application and async-id. ``--no-access-log`` turns these
lines off, ``--access-log`` turns them on. Failures are logged in both cases. The log contains no keys, no query strings
and no values.

Each line is written before the server continues, so no line is lost if the process is killed. A pipe without a reader
does not block the server. It queues 10,000 lines, then drops further ones and counts them (``mirror_lost_log_lines`` in
``/metrics``). Lines that cannot be written, for example on a full disk, are counted too. The count is logged as soon as
writing is possible again.

Under gunicorn or waitress, the log is theirs, and requests are records of the logger ``mirror_server.requests``.
Without this extension, the server logs with Python's ``logging``, without lines for requests.
"""

# Start reading with ``handler``.

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
    """Return the settings of the log."""
    return LogSettings


@extends
def help_topics() -> dict[str, str]:
    """Return the help about the log."""
    return {"logs": __name__}


@extends
def configure_logging(settings: Settings) -> None:
    """Write the log to stderr in the configured format."""
    from mirror_server.extensions.logs.handler import configure

    own = settings.of(LogSettings)
    configure(own.log_format, sys.stderr, access_log=own.access_log)


@extends
def build() -> Sequence[object]:
    """Return the request log."""
    from mirror_server.extensions.logs.handler import RequestLog

    return [RequestLog()]
