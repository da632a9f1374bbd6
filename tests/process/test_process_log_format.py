"""The server's log on stderr: each line is written immediately, however the process or the pipe ends."""

import json
import os
import re
import select
import signal

import pytest
from process_server import ServerProcess

pytestmark = pytest.mark.process


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_each_completed_request_has_its_line_however_the_server_ends(start_server, signal_number):
    server = start_server(MIRROR_LOG_FORMAT="json")
    http = server.application().http
    request_ids = [f"{number:032x}" for number in range(50)]
    for request_id in request_ids:
        assert http.get("/v3/devices", headers={"X-Request-ID": request_id}).status_code == 200
    server.stop(signal_number)
    lines = [json.loads(line) for line in server.stderr.splitlines()]
    assert all({"event", "level", "logger", "timestamp"} <= line.keys() for line in lines)
    requests = [line for line in lines if line.get("path") == "/v3/devices"]
    assert [line["request_id"] for line in requests] == request_ids
    assert {(line["method"], line["status"]) for line in requests} == {("GET", 200)}


def test_pipe_without_a_reader_blocks_nothing_and_is_counted_in_a_metric(tmp_path):
    server = ServerProcess(tmp_path)
    server.stderr_path = tmp_path / "pipe"
    os.mkfifo(server.stderr_path)
    reader = os.open(server.stderr_path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        server.begin()
        http = server.application().http
        assert "mirror_lost_log_lines 0.0" in http.get("/metrics").text
        os.close(reader)
        for _ in range(20):
            assert http.get("/v3/devices").status_code == 200
        assert "mirror_lost_log_lines 20.0" in http.get("/metrics").text
        assert server.stop() == 0
    finally:
        server.close()


def test_unread_pipe_delays_neither_responses_nor_the_stop(tmp_path):
    server = ServerProcess(tmp_path, "--log-format", "json")
    server.stderr_path = tmp_path / "pipe"
    os.mkfifo(server.stderr_path)
    reader = os.open(server.stderr_path, os.O_RDONLY | os.O_NONBLOCK)
    # More than fits into a pipe.
    paths = [f"/v3/devices/{number}{'x' * 3000}" for number in range(40)]
    try:
        server.begin()
        http = server.application().http
        assert {http.get(path).status_code for path in paths} == {404}
        assert http.get("/healthz").status_code == 200
        read = b""
        while read.count(b"/v3/devices/") < len(paths) or not read.endswith(b"\n"):
            assert select.select([reader], [], [], 60)[0]
            read += os.read(reader, 65_536)
        found = [json.loads(line).get("path", "") for line in read.splitlines()]
        assert [path for path in found if path.startswith("/v3/devices/")] == paths
        assert {http.get(path).status_code for path in paths} == {404}
        assert server.stop() == 0
    finally:
        os.close(reader)
        server.close()


def test_without_its_extension_the_log_is_plain_and_has_no_requests(start_server):
    server = start_server("--without", "logs")
    server.application().http.get("/v3/devices")
    server.stop()
    lines = server.stderr.splitlines()
    assert all(re.fullmatch(r"[\d-]{10} [\d:,]{12} (INFO|WARNING) [\w.]+: .+", line) for line in lines)
    assert any("the extension logs is not loaded: --without leaves it out" in line for line in lines)
    assert "/v3/devices" not in server.stderr
