"""The handler of the server's log.

It writes each line before the program continues, but never waits for a slow reader. Python's logging finds the caller,
creates a record and formats it in a chain of functions. For each request, this takes half as long as a small request
itself. Therefore a :class:`LineHandler` formats the line of a request directly, if it writes the complete log. Under
another server that has its own log, the line is an ordinary record.
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
from mirror_server.views.requests import log_details, request_id

if TYPE_CHECKING:
    from flask import Response

ACCESS_LOG = "mirror_server.requests"
"""The name of the logger that writes a line for each request."""

_EVENT = "request"
_MAX_QUEUED = 10_000
_FLUSH_SECONDS = 2
# A pipe accepts up to this many bytes either completely or not at all.
_ATOMIC_WRITE_BYTES = getattr(select, "PIPE_BUF", 512)

_access_log = logging.getLogger(ACCESS_LOG)
_log = logging.getLogger(__name__)


class LineHandler(logging.Handler):
    """A handler that writes each line before the program continues, so that no line is lost if the process ends.

    The program never waits for a pipe or terminal that is not read. If a line cannot be written immediately, this line
    and all later lines are queued, in order, for a thread that waits. If the queue is full, lines are dropped. The
    handler counts dropped lines and lines that cannot be written, for example on a full disk. It logs their number
    when lines can be written again.

    Args:
        stream: The stream to write to.
        log_format: The format of the lines.

    Attributes:
        lost_lines: The number of lines that were dropped or could not be written.
    """

    def __init__(self, stream: TextIO, log_format: LogFormat) -> None:
        super().__init__()
        self.lost_lines = 0
        self._reported_lines = 0
        # Whether the last write ended in the middle of a line, because the disk was full.
        self._is_cut = False
        self._stream = stream
        console = colored_line if stream.isatty() else console_line
        self._line = json_line if log_format == "json" else console
        self._file = None if stream.isatty() else _unbuffered(stream)
        self._may_block = _may_block(stream)
        self._nonblocking = _nonblocking_copy(stream) if self._may_block else None
        self._queue: deque[str] = deque()
        self._queue_changed = threading.Condition()
        self._writer: threading.Thread | None = None
        self._is_closed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line of a record. Logging calls this method while it holds the lock of the handler."""
        try:
            line = self._line(line_of(record))
        except Exception:  # like all handlers of logging: an error in a log line must not break the program
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
        """Wait until the queued lines are written.

        The wait has a time limit, because the process at the other end of the pipe or socket may have stopped reading.
        """
        with self._queue_changed:
            self._queue_changed.wait_for(lambda: not self._queue, _FLUSH_SECONDS)

    def close(self) -> None:
        """Close the pipe or socket. The thread ends after it has written the queued lines."""
        with self._queue_changed:
            self._is_closed = True
            self._queue_changed.notify_all()
        if self._nonblocking is not None:
            self._nonblocking.close()
        super().close()

    def _write(self, line: str) -> None:
        """Write or queue a line. The caller must have acquired the lock of the handler."""
        if not self._may_block:
            self._put_line(line, reports_lost=True)
        elif self._queue or not self._try_write(line):
            self._enqueue(line)

    def _try_write(self, line: str) -> bool:
        """Write a line to a pipe or socket. Return false if the write would block."""
        if self._nonblocking is None:
            return False
        encoded = f"{line}\n".encode(errors="backslashreplace")
        if len(encoded) > _ATOMIC_WRITE_BYTES:
            return False
        try:
            if isinstance(self._nonblocking, FileIO):
                return self._nonblocking.write(encoded) is not None
            self._nonblocking.send(encoded, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except (OSError, ValueError):
            self._count_lost()
        return True

    def _enqueue(self, line: str) -> None:
        with self._queue_changed:
            if len(self._queue) >= _MAX_QUEUED:
                self._count_lost()
                return
            self._queue.append(line)
            self._queue_changed.notify_all()
            if self._writer is None:
                # This is a daemon thread, so that a pipe without a reader does not prevent the process from ending.
                self._writer = threading.Thread(target=self._write_queued, name="log", daemon=True)
                self._writer.start()

    def _write_queued(self) -> None:
        """Write the queued lines, in a thread that may block."""
        while True:
            with self._queue_changed:
                self._queue_changed.wait_for(lambda: self._queue or self._is_closed)
                if not self._queue:
                    self._writer = None
                    return
            # The line stays in the queue until it is written, so that no later line is written before it.
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
                # Another process made the pipe non-blocking.
                select.select([], [self._file], [])
            else:
                rest = rest[written:]
            self._is_cut = bool(rest)


def configure(log_format: LogFormat, stream: TextIO, *, access_log: bool = True) -> None:
    """Write the log of this process to the stream, in UTC.

    ``access_log`` is whether the log contains a line per request.
    """
    logging.basicConfig(level=logging.INFO, handlers=[LineHandler(stream, log_format)], force=True)
    logging.getLogger(ACCESS_LOG).setLevel(logging.NOTSET if access_log else logging.WARNING)


def write_request(details: Details) -> None:
    """Write the line of a request through logging, or directly if the only handler is a :class:`LineHandler`."""
    handlers = logging.root.handlers
    if len(handlers) == 1 and isinstance(handlers[0], LineHandler):
        handlers[0].emit_request(details)
    else:
        _access_log.info(_EVENT, extra=details)


def lost_lines() -> int:
    """Return the number of lost lines of this process's log."""
    return sum(handler.lost_lines for handler in logging.root.handlers if isinstance(handler, LineHandler))


class RequestLog:
    """The hooks that write the request lines of one server, and count lost lines."""

    # This hook is called last, because other extensions can change the response.
    @extends(trylast=True)
    def response_ready(
        self,
        environ: dict[str, Any],
        response: Response,
        route: tuple[str, str],  # noqa: ARG002 - of the hook
        seconds: float,
    ) -> None:
        """Write the line of a request. The query string is left out, because it can contain confidential data."""
        if _access_log.isEnabledFor(logging.INFO):
            write_request(
                {
                    "method": environ["REQUEST_METHOD"],
                    "path": get_path_info(environ),
                    "status": response.status_code,
                    "duration_ms": round(seconds * 1000, 2),
                    "request_id": request_id(environ),
                    **log_details(environ),
                }
            )

    @extends
    def measurements(self) -> list[Measurement]:
        """Return the number of lost lines, if a :class:`LineHandler` writes the log."""
        if not any(isinstance(handler, LineHandler) for handler in logging.root.handlers):
            return []
        meaning = "Lines of the log that were dropped or could not be written."
        return [Measurement("mirror_lost_log_lines", meaning, lost_lines())]


def _unbuffered(stream: TextIO) -> FileIO | None:
    """Return the unbuffered file of a stream, or ``None`` if the stream has no file.

    A buffer would keep bytes that a full disk rejected, and would write them later.
    """
    try:
        number = stream.fileno()
    except OSError:
        return None
    stream.flush()
    return FileIO(number, "w", closefd=False)


def _may_block(stream: TextIO) -> bool:
    """Return whether a write to a stream can block until the stream is read."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stream.isatty()


def _nonblocking_copy(stream: TextIO) -> FileIO | socket.socket | None:
    """Return the pipe or socket of a stream, opened for non-blocking writes, or ``None`` if this is not possible."""
    number = stream.fileno()
    try:
        if stat.S_ISSOCK(os.fstat(number).st_mode):
            opened = socket.socket(fileno=os.dup(number))
            if opened.family == socket.AF_UNIX:
                return opened
            opened.close()
        elif not stream.isatty():
            # The pipe is opened again, because processes that share the original may expect blocking writes.
            return FileIO(os.open(f"/proc/self/fd/{number}", os.O_WRONLY | os.O_NONBLOCK), "w")
    except OSError:
        # The system is not Linux, or the pipe belongs to another user.
        return None
    return None
