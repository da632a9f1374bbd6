"""Slow, broken, oversized and non-HTTP clients get an error, and others are not affected."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import chain

import pytest
from process_server import PATIENCE_SECONDS, Application, ServerProcess, wait_until_quick

pytestmark = pytest.mark.process

LIMIT_BYTES = 1024 * 1024
CHUNK = b" " * 65536
LESS_THAN_A_REQUEST_MAY_TAKE_SECONDS = 20


def connect(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)


def exchange(server: ServerProcess, sent: bytes) -> bytes:
    """Send bytes on a new connection, and return the response up to the end of the connection."""
    with closing(connect(server)) as connection:
        connection.sendall(sent)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    return received


def request(start: bytes, key: str, *headers: bytes, body: bytes = b"") -> bytes:
    """Return a request that closes the connection."""
    lines = [start + b" HTTP/1.1", b"Host: x", b"Connection: close", b"Authorization: Bearer " + key.encode(), *headers]
    return b"\r\n".join([*lines, b"", body])


def chunks(size_bytes: int) -> Iterator[bytes]:
    for _ in range(size_bytes // len(CHUNK)):
        yield CHUNK


def assert_serves_others(application: Application) -> None:
    """Check that others are served without delay."""
    wait_until_quick(lambda: [application.json("GET", "/v3/devices") for _ in range(10)], 2)


def test_too_large_body_is_413_with_and_without_content_length(application):
    json_type = {"Content-Type": "application/json"}
    for content in (b" " * (LIMIT_BYTES + 1), chunks(2 * LIMIT_BYTES), chunks(50 * LIMIT_BYTES)):
        answer = application.http.put("/v2/subscriptions", content=content, headers=json_type)
        body = answer.json()
        assert (answer.status_code, body["object"], body["type"]) == (413, "error", "too_large")
        assert body["request_id"] == answer.headers["X-Request-ID"]
    assert application.json("GET", "/v2/subscriptions") == []
    # A body of exactly the limit is accepted.
    rules = b'[{"endpoint-type":"Light"}]'
    for content in (rules.ljust(LIMIT_BYTES), chain([rules.ljust(len(CHUNK))], chunks(LIMIT_BYTES - len(CHUNK)))):
        application.json("PUT", "/v2/subscriptions", content=content, headers=json_type)
        assert application.json("GET", "/v2/subscriptions") == [{"endpoint-type": "Light"}]
        application.json("DELETE", "/v2/subscriptions")


def test_a_key_that_is_not_ascii_is_unknown(shared_server, application):
    odd = f"Bearer {application.key[:20]}{chr(0xB2) * 43}".encode("latin-1")
    sent = request(b"GET /v3/devices", "").replace(b"Bearer ", odd)
    assert exchange(shared_server, sent).split()[1] == b"401"


def test_half_sent_requests_do_not_hold_up_the_stop(start_server):
    server = start_server()
    application = server.application()
    with closing(connect(server)) as half, closing(connect(server)) as silent:
        half.sendall(request(b"PUT /v2/subscriptions", application.key, b"Content-Length: 100", body=b"["))
        silent.sendall(b"GET /v3/devices HTTP/1.1\r\nHost")
        application.json("GET", "/v3/devices")
        started_at = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - started_at < LESS_THAN_A_REQUEST_MAY_TAKE_SECONDS


def test_a_path_cannot_forge_a_line_of_the_log(shared_server, application):
    assert application.http.get("/v3/devices/a%0AINFO forged%0Dby-a-client").status_code == 404
    lines = shared_server.stderr.splitlines()
    assert not [line for line in lines if line.startswith(("INFO forged", "by-a-client"))]


def test_rejections_and_connections_are_measured(shared_server, application):
    sent = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70_000 + b"\r\n\r\n"
    assert exchange(shared_server, sent).startswith(b"HTTP/1.1 431 ")
    metrics = application.http.get("/metrics").text
    assert 'mirror_requests_total{method="",route="",status="431"} 1.0' in metrics
    connections = next(line for line in metrics.splitlines() if line.startswith("mirror_open_connections "))
    assert float(connections.split()[1]) >= 1
    assert "mirror_unread_bytes 0.0" in metrics
    assert "status=431" in shared_server.stderr


def test_no_client_of_these_made_the_server_fail(shared_server, application):
    assert shared_server.child.running
    assert_serves_others(application)
    assert "Traceback" not in shared_server.stderr
    assert " 500 " not in shared_server.stderr
