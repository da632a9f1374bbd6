"""What the server writes to stderr with ``--log-format json``."""

import json

import pytest

pytestmark = pytest.mark.process


def test_every_line_is_an_object_from_the_first_to_the_last(start_server):
    server = start_server("--log-format", "json")
    key = server.key()
    assert server.client(key).http.get("/v3/devices").status_code == 200
    assert server.stop() == 0
    lines = [json.loads(line) for line in server.stderr.splitlines()]
    assert all({"event", "level", "logger", "timestamp"} <= line.keys() for line in lines)
    (request,) = [line for line in lines if line["event"] == "request" and line["path"] == "/v3/devices"]
    assert (request["method"], request["status"]) == ("GET", 200)


def test_the_format_can_be_set_in_the_environment(start_server):
    server = start_server(MIRROR_LOG_FORMAT="json")
    assert server.stop() == 0
    assert all(json.loads(line)["event"] for line in server.stderr.splitlines())
