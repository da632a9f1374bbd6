"""The lines of the server's own log on their way out, and the line that each request has there.

What logging does for any line, a look at where it was called from, a record and a chain of functions that format it,
takes half as long as a small request. So the line of a request is made at once where one :class:`LineHandler` takes the
whole log; elsewhere, under a server with a log of its own, it is a record like any other. How a line looks is
structlog's to say, which takes longer to load than most of the server; so what no terminal shows is made here, to look
the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from io import FileIO
from typing import NamedTuple, TextIO

import orjson

from mirror_server.config import ACCESS_LOG, LogFormat

Details = Mapping[str, object]

_EVENT = "request"

_access_log = logging.getLogger(ACCESS_LOG)
_log = logging.getLogger(__name__)


class Line(NamedTuple):
    """What one line tells."""

    event: str
    level: str
    logger: str
    details: Details
    traceback: str | None = None


class LineHandler(logging.Handler):
    """Writes each line before anything goes on, so that none is lost at a stop, whatever stops the process.

    A line that cannot be written, on a full disk or behind a pipe that nobody reads any more, holds nobody up: it is
    counted, and how many there were is said as soon as there is room again.

    Args:
        stream: Where to.
        log_format: How the line of a request looks; as the formatter of this handler would make it.

    Attributes:
        lost_lines: How many lines could not be written.
    """

    def __init__(self, stream: TextIO, log_format: LogFormat) -> None:
        super().__init__()
        self.lost_lines = 0
        self._told_lines = 0
        # Whether the disk was full within a line.
        self._is_cut = False
        self._stream = stream
        # On a terminal people read along, in colours, which the formatter knows.
        self._line = None if stream.isatty() else LINES[log_format]
        self._file = None if stream.isatty() else _unbuffered(stream)

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line of a record; under the lock of the handler, as logging does."""
        try:
            line = self.format(record)
        except Exception:  # as logging has it: a mistake in a line is not one of the program
            self.handleError(record)
        else:
            self._write(line)

    def emit_request(self, details: Details) -> bool:
        """Write the line of a request; false where that takes a record."""
        if self._line is None:
            return False
        line = self._line(Line(_EVENT, "info", ACCESS_LOG, details))
        self.acquire()
        try:
            self._write(line)
        finally:
            self.release()
        return True

    def _write(self, line: str) -> None:
        # A closed stream raises ValueError.
        try:
            if self.lost_lines != self._told_lines:
                self._put(self._line_of_lost())
                self._told_lines = self.lost_lines
            self._put(f"{line}\n")
        except (OSError, ValueError):
            self.lost_lines += 1

    def _line_of_lost(self) -> str:
        message, count = "lines of this log were lost: they could not be written", self.lost_lines - self._told_lines
        record = _log.makeRecord(_log.name, logging.WARNING, "", 0, message, (), None, extra={"lost_lines": count})
        return f"{self.format(record)}\n"

    def _put(self, text: str) -> None:
        if self._file is None:
            self._stream.write(text)
            self._stream.flush()
            return
        rest = (f"\n{text}" if self._is_cut else text).encode(errors="backslashreplace")
        while rest:
            written = self._file.write(rest)
            # Of a pipe that is full and that whoever made it does not want to be waited for.
            if written is None:
                raise BlockingIOError
            rest = rest[written:]
            self._is_cut = bool(rest)


def tells_requests() -> bool:
    """Whether the log has a line for each request."""
    return _access_log.isEnabledFor(logging.INFO)


def tell_request(details: Details) -> None:
    """Write the line of a request."""
    handlers = logging.root.handlers
    if len(handlers) == 1 and isinstance(handlers[0], LineHandler) and handlers[0].emit_request(details):
        return
    _access_log.info(_EVENT, extra=details)


def lost_lines() -> int:
    """How many lines of this process's log could not be written."""
    return sum(handler.lost_lines for handler in logging.root.handlers if isinstance(handler, LineHandler))


def _unbuffered(stream: TextIO) -> FileIO | None:
    """The file behind a stream: a buffer would keep what a full disk refused, and hand it out in pieces later."""
    try:
        number = stream.fileno()
    except OSError:
        return None
    stream.flush()
    return FileIO(number, "w", closefd=False)


def _now() -> str:
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")


def _json_line(line: Line) -> str:
    head = {"event": line.event, "level": line.level, "logger": line.logger, "timestamp": _now()}
    end = {} if line.traceback is None else {"exception": line.traceback}
    return orjson.dumps({**head, **line.details, **end}, default=repr).decode()


def _console_line(line: Line) -> str:
    # Quoted, so that a path with a line break in it is still one line.
    told = [f"{name}={value!r}" for name, value in sorted(line.details.items())]
    text = " ".join([f"{_now()} [{line.level:<9}] {line.event:<30} [{line.logger}]", *told])
    return text if line.traceback is None else f"{text}\n{line.traceback}"


LINES: dict[LogFormat, Callable[[Line], str]] = {"console": _console_line, "json": _json_line}
"""How a line is made of what it tells, where no terminal shows it."""
