"""The lines of the server's log: request lines have the format of all others, and lost lines are counted."""

import json
import logging
import os
import re
import select
import socket
import sys
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest

from mirror_server.extensions.logs import handler
from mirror_server.extensions.logs.handler import ACCESS_LOG, LineHandler, configure, lost_lines, write_request
from mirror_server.extensions.logs.lines import colored_line, console_line, json_line, line_of

DETAILS = {
    "method": "GET",
    "path": "/v3/devices/ä'\"\n\x1b[31m/echo",
    "status": 200,
    "duration_ms": 0.31,
    "request_id": "0123456789abcdef" * 2,
    "application": "0123abcd",
    "async_id": "my own",
}
FORMATS = pytest.mark.parametrize("log_format", ["console", "json"])


@pytest.fixture
def log_to(monkeypatch):
    """Write the entire log of this process to a stream, like the command does, until the test ends."""

    def begin(log_format, stream):
        # This must not close pytest's own handlers.
        monkeypatch.setattr(logging.root, "handlers", [])
        configure(log_format, stream=stream)

    yield begin
    for each in logging.root.handlers:
        each.close()


def without_instant(line, log_format):
    if log_format == "json":
        members = json.loads(line)
        assert members.pop("timestamp").endswith("Z")
        return list(members.items())
    instant, _, rest = line.partition(" ")
    assert instant.endswith("Z")
    return rest


@FORMATS
def test_request_line_has_the_format_of_other_lines(log_to, log_format):
    stream = StringIO()
    log_to(log_format, stream)
    write_request(DETAILS)
    logging.getLogger(ACCESS_LOG).info("request", extra=DETAILS)
    made, formatted = stream.getvalue().splitlines()
    assert without_instant(made, log_format) == without_instant(formatted, log_format)


def a_failure():
    try:
        try:
            raise ValueError("two\nlines")
        except ValueError as error:
            raise RuntimeError("ä") from error
    except RuntimeError:
        return sys.exc_info()


PLAIN = "[info     ] a line                         [mirror_server.x]"
RECORDS = (
    ({"msg": "a" * 50}, f"[info     ] {'a' * 50} [mirror_server.x]", {"event": "a" * 50}),
    (
        {"msg": "%d of %s", "args": (3, "ä\x1b[31m")},
        PLAIN.replace("a line     ", "3 of ä\x1b[31m"),
        {"event": "3 of ä\x1b[31m"},
    ),
    ({"msg": "one\ntwo"}, PLAIN.replace("a line ", "one\ntwo"), {"event": "one\ntwo"}),
    (
        {"path": "/a\nb", "z": 1, "a": None, "number": 0.5, "words": ["x"]},
        f"{PLAIN} a=None number=0.5 path='/a\\nb' words=['x'] z=1",
        {"path": "/a\nb", "z": 1, "a": None, "number": 0.5, "words": ["x"]},
    ),
    ({"at": Path("/tmp")}, f"{PLAIN} at=PosixPath('/tmp')", {"at": "PosixPath('/tmp')"}),
    ({"color_message": "\x1b[31ma line"}, PLAIN, {}),
    ({"levelno": 30, "levelname": "WARNING"}, PLAIN.replace("info   ", "warning"), {"level": "warning"}),
    ({"levelno": 5, "levelname": "TRACE"}, PLAIN.replace("info ", "trace"), {"level": "trace"}),
    ({"exc_info": (None,) * 3}, PLAIN, {}),
    ({"exc_info": False}, PLAIN, {}),
    ({"stack_info": "Stack:\n  here"}, f"{PLAIN} stack_info='Stack:\\n  here'", {"stack_info": "Stack:\n  here"}),
)


def a_record(attributes):
    known = {"name": "mirror_server.x", "msg": "a line", "levelno": logging.INFO, "levelname": "INFO", "args": ()}
    return line_of(logging.makeLogRecord(known | attributes))


@pytest.mark.parametrize(("attributes", "console", "members"), RECORDS)
def test_line_contains_the_members_of_its_record(attributes, console, members):
    assert without_instant(console_line(a_record(attributes)), "console") == console
    expected = {"event": "a line", "level": "info", "logger": "mirror_server.x"} | members
    assert sorted(without_instant(json_line(a_record(attributes)), "json")) == sorted(expected.items())


def test_log_line_of_an_exception_has_traceback_and_cause():
    for info in (a_failure(), (*a_failure()[:2], None)):
        line = a_record({"exc_info": info, "path": "/x"})
        text = dict(without_instant(json_line(line), "json"))["exception"]
        assert text == line.traceback
        assert text.splitlines()[-1] == "RuntimeError: ä"
        assert "\nValueError: two\nlines\n" in text
        assert without_instant(console_line(line), "console") == f"{PLAIN} path='/x'\n{text}"
        assert colored_line(line).endswith(f"\n{text}")


COLORS = (("DEBUG", 32), ("INFO", 32), ("WARNING", 33), ("ERROR", 31), ("CRITICAL", 31))


@pytest.mark.parametrize(("level", "color"), COLORS)
def test_terminal_log_has_the_same_text_in_color(level, color):
    attributes = {"levelname": level, "path": "/a\nb", "number": 3}
    instant, line = colored_line(a_record(attributes)).split(" ", 1)
    assert re.fullmatch(r"\x1b\[2m\S+Z\x1b\[0m", instant)
    assert f"[\x1b[{color}m\x1b[1m{level.lower():<9}\x1b[0m] \x1b[1ma line" in line
    assert line.endswith("\x1b[36mnumber\x1b[0m=\x1b[35m3\x1b[0m \x1b[36mpath\x1b[0m=\x1b[35m'/a\\nb'\x1b[0m")
    plain = re.sub(r"\x1b\[\d+m", "", line)
    assert plain == without_instant(console_line(a_record(attributes)), "console")


def test_request_log_record_is_created_only_for_additional_handlers(log_to, monkeypatch, caplog):
    stream = StringIO()
    log_to("json", stream)
    with monkeypatch.context() as patched:
        patched.setattr(logging.getLogger(ACCESS_LOG), "makeRecord", None)
        write_request(DETAILS)
    logging.getLogger().addHandler(caplog.handler)
    write_request(DETAILS)
    assert [record.path for record in caplog.records] == [DETAILS["path"]]
    assert stream.getvalue().count(DETAILS["request_id"]) == 2


@FORMATS
def test_request_lines_on_a_terminal_are_in_color(log_to, log_format):
    stream = StringIO()
    stream.isatty = lambda: True
    log_to(log_format, stream)
    write_request(DETAILS)
    assert ("\x1b[" in stream.getvalue()) == (log_format == "console")


@FORMATS
def test_lines_that_a_full_disk_rejected_are_counted_and_reported(log_to, log_format, tmp_path):
    log_file = (tmp_path / "log.txt").open("w")
    log_to(log_format, log_file)
    write_request(DETAILS)
    file = os.dup(log_file.fileno())
    for already_lost in (0, 3):
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, log_file.fileno())
        os.close(full)
        write_request(DETAILS)
        logging.getLogger("mirror_server").error("something else")
        write_request(DETAILS)
        assert lost_lines() == already_lost + 3
        os.dup2(file, log_file.fileno())
        write_request(DETAILS)
        write_request(DETAILS)
    os.close(file)
    log_file.close()
    lines = Path(log_file.name).read_text().splitlines()
    assert len(lines) == 1 + 2 * 3
    for line in (lines[1], lines[4]):
        assert "lines of this log were lost" in line
        assert ('"lost_lines":3' if log_format == "json" else "lost_lines=3") in line


@pytest.fixture(params=["pipe", "pipe of another user", "socket"])
def unread(request, monkeypatch):
    """Yield both ends of a log that only the test reads, and an endless sequence of lines."""
    if request.param == "socket":
        ends = socket.socketpair()
        reader, writer = (end.detach() for end in ends)
    else:
        reader, writer = os.pipe()
    if request.param == "pipe of another user":
        monkeypatch.setattr(handler, "_nonblocking_copy", lambda _: None)
    os.set_blocking(reader, False)
    with open(writer, "w") as stream:  # noqa: PTH123 - of a descriptor
        yield reader, stream
        os.close(reader)
        # The thread must not write to the descriptor later, when it may be another file.
        (writer,) = (each for each in logging.getLogger().handlers if isinstance(each, LineHandler))
        with writer._queue_changed:
            assert writer._queue_changed.wait_for(lambda: not writer._queue, 60)


def lines_of(reader, until):
    """Read lines of a log until one of them contains a text."""
    read = b""
    while until not in read or not read.endswith(b"\n"):
        assert select.select([reader], [], [], 60)[0]
        read += os.read(reader, 65536)
    return [json.loads(line) for line in read.splitlines()]


def fill(stream):
    """Fill a pipe or socket with short lines, so that the next line has to wait."""
    os.set_blocking(stream.fileno(), False)
    with suppress(BlockingIOError):
        while True:
            os.write(stream.fileno(), b"{}\n")
    os.set_blocking(stream.fileno(), True)


def test_unread_log_does_not_block_and_loses_no_queued_line(log_to, unread):
    reader, stream = unread
    log_to("json", stream)
    for number in range(3000):
        write_request({"number": number})
    write_request({"number": 3000, "path": "x" * 200_000})
    write_request({"number": 3001, "path": "last"})
    assert [line["number"] for line in lines_of(reader, b"last")] == list(range(3002))
    assert lost_lines() == 0
    logging.getLogger().handlers[0].flush()
    write_request({"path": "after"})
    assert len(lines_of(reader, b"after")) == 1


def test_lines_beyond_the_queue_are_counted_and_reported_when_the_log_is_read_again(log_to, unread, monkeypatch):
    monkeypatch.setattr(handler, "_MAX_QUEUED", 100)
    reader, stream = unread
    log_to("json", stream)
    # In a pipe with free space, a slow thread could empty a full queue, and report some lost lines too early.
    fill(stream)
    count = 0
    while lost_lines() < 7:
        write_request({"number": count})
        count += 1
    lines = lines_of(reader, b"lines of this log were lost")
    lines += [] if "number" in lines[-1] else lines_of(reader, b"number")
    assert [line["lost_lines"] for line in lines if "lost_lines" in line] == [7]
    assert [line["number"] for line in lines if "number" in line] == list(range(count - 7))
