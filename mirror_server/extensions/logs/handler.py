"""Writes the server's own log: each line before anything goes on, but never waiting for a reader; and that of requests.

What logging does for any line, a look at where it was called from, a record and a chain of functions that format it,
takes half as long as a small request. So the line of a request is made at once where one :class:`LineHandler` takes the
whole log; elsewhere, under a server with a log of its own, it is a record like any other.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import stat
import threading
from collections import deque
from io import FileIO
from typing import TYPE_CHECKING, Any, TextIO

from werkzeug.wsgi import get_path_info

from mirror_server.extensions.logs.lines import Details, LogLine, colored_line, console_line, json_line, line_of
from mirror_server.extensions.logs.settings import LogFormat
from mirror_server.hooks import Measurement, extends
from mirror_server.views.requests import noted, request_id

if TYPE_CHECKING:
    from flask import Response

ACCESS_LOG = "mirror_server.requests"
"""Name of the logger that has a line for each request."""

_EVENT = "request"
_MOST_QUEUED = 10_000
_FLUSH_SECONDS = 2
# A pipe takes so much whole or not at all.
_WRITTEN_WHOLE_BYTES = getattr(select, "PIPE_BUF", 512)

_access_log = logging.getLogger(ACCESS_LOG)
_log = logging.getLogger(__name__)


class LineHandler(logging.Handler):
    """Writes each line before anything goes on, so that none is lost at a stop, whatever stops the process.

    Nothing waits for a pipe or a terminal that is not read: from the first line on that it does not take at once, lines
    are queued, in their order, for a thread that waits for it. Lines that find the queue full are dropped. They are
    counted, as are those that cannot be written, on a full disk for instance. How many there were is logged as soon as
    lines can be written again.

    Args:
        stream: Where to.
        log_format: How the lines look.

    Attributes:
        lost_lines: How many lines were dropped or could not be written.
    """

    def __init__(self, stream: TextIO, log_format: LogFormat) -> None:
        super().__init__()
        self.lost_lines = 0
        self._reported_lines = 0
        # Whether the disk was full within a line.
        self._is_cut = False
        self._stream = stream
        console = colored_line if stream.isatty() else console_line
        self._line = json_line if log_format == "json" else console
        self._file = None if stream.isatty() else _unbuffered(stream)
        self._may_block = _may_block(stream)
        self._offered = _opened_without_waiting(stream) if self._may_block else None
        self._queue: deque[str] = deque()
        self._queue_changed = threading.Condition()
        self._writer: threading.Thread | None = None
        self._is_closed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line of a record; under the lock of the handler, as logging does."""
        try:
            line = self._line(line_of(record))
        except Exception:  # as logging has it: a mistake in a line is not one of the program
            self.handleError(record)
        else:
            self._write(line)

    def emit_request(self, details: Details) -> None:
        """Write the line of a request."""
        line = self._line(LogLine(_EVENT, "info", ACCESS_LOG, details))
        self.acquire()
        try:
            self._write(line)
        finally:
            self.release()

    def flush(self) -> None:
        """Wait until the queued lines are written, but only for a moment: their reader may be gone."""
        with self._queue_changed:
            self._queue_changed.wait_for(lambda: not self._queue, _FLUSH_SECONDS)

    def close(self) -> None:
        """Let go of the pipe or socket; the thread ends when it has written what is queued."""
        with self._queue_changed:
            self._is_closed = True
            self._queue_changed.notify_all()
        if self._offered is not None:
            self._offered.close()
        super().close()

    def _write(self, line: str) -> None:
        """Write a line, or queue it; under the lock of the handler."""
        if not self._may_block:
            self._put_line(line, reports_lost=True)
        elif self._queue or not self._offer(line):
            self._enqueue(line)

    def _offer(self, line: str) -> bool:
        """Write a line to a pipe or socket that has room for it; false if it would have to wait."""
        if self._offered is None:
            return False
        encoded = f"{line}\n".encode(errors="backslashreplace")
        if len(encoded) > _WRITTEN_WHOLE_BYTES:
            return False
        try:
            if isinstance(self._offered, FileIO):
                return self._offered.write(encoded) is not None
            self._offered.send(encoded, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except (OSError, ValueError):
            self._count_lost()
        return True

    def _enqueue(self, line: str) -> None:
        with self._queue_changed:
            if len(self._queue) >= _MOST_QUEUED:
                self._count_lost()
                return
            self._queue.append(line)
            self._queue_changed.notify_all()
            if self._writer is None:
                # A daemon: a pipe that is never read does not keep the process from ending.
                self._writer = threading.Thread(target=self._write_queued, name="log", daemon=True)
                self._writer.start()

    def _write_queued(self) -> None:
        """Write the queued lines, each as soon as it is taken; in a thread that nothing waits for."""
        while True:
            with self._queue_changed:
                self._queue_changed.wait_for(lambda: self._queue or self._is_closed)
                if not self._queue:
                    self._writer = None
                    return
            # It stays in the queue meanwhile, so that no later line overtakes it.
            self._put_line(self._queue[0], reports_lost=len(self._queue) == 1)
            with self._queue_changed:
                self._queue.popleft()
                self._queue_changed.notify_all()

    def _put_line(self, line: str, *, reports_lost: bool) -> None:
        # A closed stream raises ValueError.
        try:
            lost = self.lost_lines
            if reports_lost and lost != self._reported_lines:
                self._put(self._line_of_lost(lost - self._reported_lines))
                self._reported_lines = lost
            self._put(f"{line}\n")
        except (OSError, ValueError):
            self._count_lost()

    def _count_lost(self) -> None:
        with self._queue_changed:
            self.lost_lines += 1

    def _line_of_lost(self, count: int) -> str:
        message = "lines of this log were lost: they could not be written, or were not read in time"
        return self._line(LogLine(message, "warning", _log.name, {"lost_lines": count})) + "\n"

    def _put(self, text: str) -> None:
        if self._file is None:
            self._stream.write(text)
            self._stream.flush()
            return
        rest = (f"\n{text}" if self._is_cut else text).encode(errors="backslashreplace")
        while rest:
            written = self._file.write(rest)
            if written is None:
                # Whoever made the pipe made it without waiting.
                select.select([], [self._file], [])
            else:
                rest = rest[written:]
            self._is_cut = bool(rest)


def configure(log_format: LogFormat, stream: TextIO, *, access_log: bool = True) -> None:
    """Write the log of this process to the stream, in UTC; with a line for each request or without."""
    logging.basicConfig(level=logging.INFO, handlers=[LineHandler(stream, log_format)], force=True)
    logging.getLogger(ACCESS_LOG).setLevel(logging.NOTSET if access_log else logging.WARNING)


def write_request(details: Details) -> None:
    """Write the line of a request."""
    handlers = logging.root.handlers
    if len(handlers) == 1 and isinstance(handlers[0], LineHandler):
        handlers[0].emit_request(details)
    else:
        _access_log.info(_EVENT, extra=details)


def lost_lines() -> int:
    """How many lines of this process's log could not be written."""
    return sum(handler.lost_lines for handler in logging.root.handlers if isinstance(handler, LineHandler))


class RequestLog:
    """The lines of requests of one server, and its metric of lost lines."""

    # Last, as other extensions may change the answer.
    @extends(trylast=True)
    def response_ready(
        self,
        environ: dict[str, Any],
        response: Response,
        route: tuple[str, str],  # noqa: ARG002 - of the hook
        seconds: float,
    ) -> None:
        """Write its line. The query is left out: it may hold what nobody should read."""
        if _access_log.isEnabledFor(logging.INFO):
            write_request(
                {
                    "method": environ["REQUEST_METHOD"],
                    "path": get_path_info(environ),
                    "status": response.status_code,
                    "duration_ms": round(seconds * 1000, 2),
                    "request_id": request_id(environ),
                    **noted(environ),
                }
            )

    @extends
    def measurements(self) -> list[Measurement]:
        """How many lines were lost, where this writes the log."""
        if not any(isinstance(handler, LineHandler) for handler in logging.root.handlers):
            return []
        meaning = "Lines of the log that were dropped or could not be written."
        return [Measurement("mirror_lost_log_lines", meaning, lost_lines())]


def _unbuffered(stream: TextIO) -> FileIO | None:
    """The file behind a stream: a buffer would keep what a full disk refused, and hand it out in pieces later."""
    try:
        number = stream.fileno()
    except OSError:
        return None
    stream.flush()
    return FileIO(number, "w", closefd=False)


def _may_block(stream: TextIO) -> bool:
    """Whether a write to a stream may have to wait for someone who reads it."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty()


def _opened_without_waiting(stream: TextIO) -> FileIO | socket.socket | None:
    """The same pipe or socket, to write to without waiting; ``None`` where that is not possible."""
    number = stream.fileno()
    try:
        if stat.S_ISSOCK(os.fstat(number).st_mode):
            opened = socket.socket(fileno=os.dup(number))
            if opened.family == socket.AF_UNIX:
                return opened
            opened.close()
        elif not stream.isatty():
            # Opened again: the one that was given may be shared with processes that expect their writes to wait.
            return FileIO(os.open(f"/proc/self/fd/{number}", os.O_WRONLY | os.O_NONBLOCK), "w")
    except OSError:
        # Not Linux, or the pipe belongs to another user.
        return None
    return None
