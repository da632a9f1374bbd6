"""How the server's own log looks: lines for people, or an object of JSON a line for programs."""

from __future__ import annotations

import logging
import sys
import traceback
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

import orjson

from mirror_server.config import ACCESS_LOG, LogFormat
from mirror_server.log_lines import LINES, Line, LineHandler

if TYPE_CHECKING:
    from structlog.stdlib import ProcessorFormatter
    from structlog.typing import EventDict, Processor

_LEVELS = frozenset({"debug", "info", "warning", "error", "critical"})
_OF_EVERY_RECORD = frozenset(logging.makeLogRecord({}).__dict__)
_OWN = frozenset({"event", "level", "logger", "logger_name", "timestamp", "exception", "exc_info", "stack"})
"""Names with a place of their own in a line."""


def configure(
    log_format: LogFormat, level: int = logging.INFO, stream: TextIO = sys.stderr, *, access_log: bool = True
) -> None:
    """Write the log of this process to the stream, in UTC; with a line for each request or without."""
    handler = LineHandler(stream, log_format)
    handler.setFormatter(LineFormatter(log_format, is_terminal=stream.isatty()))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger(ACCESS_LOG).setLevel(logging.NOTSET if access_log else logging.WARNING)


class LineFormatter(logging.Formatter):
    """Makes the line of a record; structlog does for a terminal, and of what is rare, and is loaded only then.

    Args:
        log_format: How the line looks.
        is_terminal: Whether people read along, in colours.
    """

    def __init__(self, log_format: LogFormat, *, is_terminal: bool) -> None:
        super().__init__()
        self._log_format = log_format
        self._is_terminal = is_terminal

    def format(self, record: logging.LogRecord) -> str:
        """The line, of which a traceback may make several."""
        line = None if self._is_terminal else _plain(record)
        return self._by_structlog.format(record) if line is None else LINES[self._log_format](line)

    @cached_property
    def _by_structlog(self) -> ProcessorFormatter:
        import structlog  # noqa: PLC0415 - takes long to load

        for_all: list[Processor] = [
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.stdlib.ExtraAdder(),
        ]
        processors = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, _without_colours]
        return structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=for_all, processors=[*processors, *self._renderers()]
        )

    def _renderers(self) -> list[Processor]:
        import structlog  # noqa: PLC0415 - takes long to load

        # Tracebacks without the values of variables, which may be payloads and keys.
        if self._log_format == "json":
            return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(_to_json)]
        plain = structlog.dev.plain_traceback
        # Quoted, so that a path with a line break in it is still one line.
        return [
            structlog.dev.ConsoleRenderer(colors=self._is_terminal, exception_formatter=plain, repr_native_str=True)
        ]


def _plain(record: logging.LogRecord) -> Line | None:
    """What the line of a record tells; ``None`` where it is made of more than that."""
    level = record.levelname.lower()
    details = {name: value for name, value in record.__dict__.items() if name not in _OF_EVERY_RECORD}
    # Uvicorn sends its messages a second time, in colours.
    details.pop("color_message", None)
    error = record.exc_info or None
    is_odd = error is not None and error[1] is None
    if is_odd or record.stack_info or level not in _LEVELS or details.keys() & _OWN:
        return None
    # Without the values of variables, which may be payloads and keys.
    told = None if error is None else "".join(traceback.format_exception(*error)).removesuffix("\n")
    return Line(record.getMessage(), level, record.name, details, told)


def _to_json(event: EventDict, **options: Any) -> str:
    return orjson.dumps(event, default=options["default"]).decode()


def _without_colours(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Uvicorn sends its messages a second time, in colours."""
    event.pop("color_message", None)
    return event
