"""How the server's own log looks: lines for people, or an object of JSON a line for programs."""

from __future__ import annotations

import logging
import sys
from typing import Any, TextIO

import orjson
import structlog
from structlog.typing import EventDict, Processor

from mirror_server.config import ACCESS_LOG, LogFormat
from mirror_server.log_lines import LineHandler


def configure(
    log_format: LogFormat, level: int = logging.INFO, stream: TextIO = sys.stderr, *, access_log: bool = True
) -> None:
    """Write the log of this process to the stream, in UTC; with a line for each request or without."""
    for_all: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(),
    ]
    handler = LineHandler(stream, log_format)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=for_all,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _without_colours,
                *_render(log_format, stream),
            ],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger(ACCESS_LOG).setLevel(logging.NOTSET if access_log else logging.WARNING)


def _to_json(event: EventDict, **options: Any) -> str:
    return orjson.dumps(event, default=options["default"]).decode()


def _without_colours(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Uvicorn sends its messages a second time, in colours."""
    event.pop("color_message", None)
    return event


def _render(log_format: LogFormat, stream: TextIO) -> list[Processor]:
    # Tracebacks without the values of variables, which may be payloads and keys.
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(_to_json)]
    plain = structlog.dev.plain_traceback
    # Quoted, so that a path with a line break in it is still one line.
    return [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=plain, repr_native_str=True)]
