"""The formats of a line in the server's log: text for people, colored text for a terminal, and JSON for programs."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

import orjson

Details = Mapping[str, object]

_OF_EVERY_RECORD = frozenset(logging.makeLogRecord({}).__dict__)

_END, _BOLD, _DIM = "\x1b[0m", "\x1b[1m", "\x1b[2m"
_RED, _GREEN, _YELLOW, _BLUE, _MAGENTA, _CYAN = (f"\x1b[{number}m" for number in range(31, 37))
_LEVELS = {"debug": _GREEN, "info": _GREEN, "warning": _YELLOW, "error": _RED, "critical": _RED}


class LogLine(NamedTuple):
    """The content of one line in the log."""

    event: str
    level: str
    logger: str
    details: Details
    traceback: str | None = None


def line_of(record: logging.LogRecord) -> LogLine:
    """Return the content of the line for a log record."""
    details = {name: value for name, value in record.__dict__.items() if name not in _OF_EVERY_RECORD}
    # Uvicorn also adds its message in color.
    details.pop("color_message", None)
    if record.stack_info:
        details["stack_info"] = record.stack_info
    error = record.exc_info or None
    # The traceback does not include the values of variables, which can be payloads or keys.
    has_error = error is not None and error[1] is not None
    text = "".join(traceback.format_exception(*error)).removesuffix("\n") if error is not None and has_error else None
    return LogLine(record.getMessage(), record.levelname.lower(), record.name, details, text)


def json_line(line: LogLine) -> str:
    """Format a line as a JSON object."""
    head = {"event": line.event, "level": line.level, "logger": line.logger, "timestamp": _now()}
    end = {} if line.traceback is None else {"exception": line.traceback}
    return orjson.dumps({**head, **line.details, **end}, default=repr).decode()


def console_line(line: LogLine) -> str:
    """Format a line for people who read it in a file."""
    # Values are quoted, so that a line break in a path does not start a new line.
    details = [f"{name}={value!r}" for name, value in sorted(line.details.items())]
    return _with_traceback(line, f"{_now()} [{line.level:<9}] {line.event:<30} [{line.logger}]", details)


def colored_line(line: LogLine) -> str:
    """Format a line for people who read it on a terminal."""
    details = [f"{_CYAN}{name}{_END}={_MAGENTA}{value!r}{_END}" for name, value in sorted(line.details.items())]
    level = f"{_LEVELS.get(line.level, '')}{_BOLD}{line.level:<9}{_END}"
    event, logger = f"{_BOLD}{line.event:<30}{_END}", f"{_BOLD}{_BLUE}{line.logger}{_END}"
    return _with_traceback(line, f"{_DIM}{_now()}{_END} [{level}] {event} [{logger}]", details)


def _with_traceback(line: LogLine, head: str, details: list[str]) -> str:
    text = " ".join([head, *details])
    return text if line.traceback is None else f"{text}\n{line.traceback}"


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
