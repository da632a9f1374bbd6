"""A line of the log for each request."""

import json
import logging
from contextlib import contextmanager
from io import StringIO

import pytest

from mirror_server.extensions.logs.handler import ACCESS_LOG, configure


@contextmanager
def logged(log_format, *, access_log=True):
    """Yield the server's log as it is written during the block."""
    stream = StringIO()
    with pytest.MonkeyPatch.context() as patched:
        # This must not close pytest's own handlers.
        patched.setattr(logging.root, "handlers", [])
        configure(log_format, stream=stream, access_log=access_log)
        yield stream
    logging.getLogger(ACCESS_LOG).setLevel(logging.NOTSET)


@pytest.fixture
def log_lines():
    """Return the JSON log lines that were written since the last call."""
    with logged("json") as stream:

        def read():
            lines = [json.loads(line) for line in stream.getvalue().splitlines()]
            stream.truncate(0)
            stream.seek(0)
            return lines

        yield read


def test_each_request_is_one_line_of_json(server, key, device, log_lines):
    request_id = "0123456789abcdef" * 2
    url, body = f"/v2/device-requests/{device}", {"method": "GET", "uri": "/3303/0/5700"}
    log_lines()
    server.call(key, "POST", f"{url}?async-id=mine", headers={"X-Request-ID": request_id}, json=body)
    (line,) = log_lines()
    assert line["duration_ms"] > 0
    expected = {"event": "request", "level": "info", "method": "POST", "path": url, "status": 202}
    expected |= {"request_id": request_id, "async_id": "mine", "application": key.split("_")[1]}
    assert expected.items() <= line.items()
    assert key.split("_", 2)[2] not in str(line)
    answer = server.call(key, "POST", url, json=body)
    assert [line["async_id"] for line in log_lines()] == [answer.json["async-response-id"]]


def test_path_with_a_line_break_is_logged_in_one_line_without_its_query(server, key, log_lines):
    server.call(key, "GET", "/v3/devices/a%0Ab?after=secret")
    (line,) = log_lines()
    assert line["path"] == "/v3/devices/a\nb"
    assert "secret" not in str(line)
    with logged("console") as stream:
        server.call(key, "GET", "/v3/devices/a%0Ab")
    (line,) = stream.getvalue().splitlines()
    assert r"path='/v3/devices/a\nb'" in line
    assert "status=404" in line


def test_failure_is_logged_with_its_request_id_even_without_access_log(server, key, monkeypatch):
    def fail(device_id):
        planted = "-".join(["planted", device_id])  # noqa: F841 - a traceback that shows variables would show it
        raise RuntimeError("inside")

    monkeypatch.setattr(server.services.devices, "described", fail)
    with logged("json", access_log=False) as stream:
        server.call(key, "GET", "/v3/devices")
        assert stream.getvalue() == ""
        answer = server.call(key, "GET", "/v3/devices/x")
    (failure,) = map(json.loads, stream.getvalue().splitlines())
    assert (failure["event"], failure["level"]) == ("request failed", "error")
    assert failure["request_id"] == answer.json["request_id"]
    assert "RuntimeError: inside" in failure["exception"]
    assert "planted-x" not in failure["exception"]
