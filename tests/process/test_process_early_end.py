"""Requests that are not finished: the server answers what it can, and does not wait for them when it stops."""

import http.client
import socket
import time
from collections.abc import Callable
from contextlib import closing

import pytest
from process_server import PATIENCE_SECONDS, Application, ServerProcess

pytestmark = pytest.mark.process

LIMIT_BYTES = 1024 * 1024


def send(server: ServerProcess, key: str, start: str, *headers: str, body: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)
    lines = [f"{start} HTTP/1.1", "Host: mirror", f"Authorization: Bearer {key}", *headers, "", ""]
    connection.sendall("\r\n".join(lines).encode("latin-1") + body)
    return connection


def status_of(connection: socket.socket) -> int:
    with http.client.HTTPResponse(connection) as answer:
        answer.begin()
        return answer.status


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (f"Content-Length: {100 * LIMIT_BYTES}", b" " * (LIMIT_BYTES + 1)),
        ("Transfer-Encoding: chunked", b"%x\r\n" % (2 * LIMIT_BYTES) + b" " * (LIMIT_BYTES + 1)),
    ],
    ids=["length told", "chunked"],
)
def test_a_body_past_the_limit_is_refused_before_its_end(
    shared_server: ServerProcess, application: Application, header: str, body: bytes
) -> None:
    start = "PUT /v2/subscriptions"
    with closing(send(shared_server, application.key, start, "Content-Type: application/json", header, body=body)) as c:
        assert status_of(c) == 413


def test_a_poll_with_a_body_past_the_limit_is_answered(shared_server: ServerProcess, application: Application) -> None:
    header = f"Content-Length: {LIMIT_BYTES + 100_000}"
    body = b" " * (LIMIT_BYTES + 100_000)
    start = "GET /v2/notification/pull?after=0&hold=1"
    with closing(send(shared_server, application.key, start, header, body=body)) as connection:
        assert status_of(connection) == 204


def test_half_sent_requests_do_not_hold_up_the_stop(start_server: Callable[..., ServerProcess]) -> None:
    server = start_server()
    application = server.application()
    half = send(server, application.key, "PUT /v2/subscriptions", "Content-Length: 100", body=b"[")
    with closing(half), closing(socket.create_connection(("127.0.0.1", server.port))) as silent:
        silent.sendall(b"GET /v3/devices HTTP/1.1\r\nHost")
        application.json("GET", "/v3/devices")
        begun_at = time.monotonic()
        assert server.stop() == 0
        # Less than a request may take.
        assert time.monotonic() - begun_at < 20


@pytest.mark.parametrize("secret", ["\u00e9" * 43, "\u00b2" * 43, "A" * 42 + "\u00ff"], ids=["é", "²", "one ÿ"])
def test_a_key_that_is_not_ascii_is_unknown(
    shared_server: ServerProcess, application: Application, secret: str
) -> None:
    key = f"{application.key[:20]}{secret}"
    assert application.key[:20].endswith("_")
    with closing(send(shared_server, key, "GET /v3/devices")) as connection:
        assert status_of(connection) == 401


def test_a_path_cannot_forge_a_line_of_the_log(shared_server: ServerProcess, application: Application) -> None:
    assert application.http.get("/v3/devices/a%0AINFO forged%0Dby-a-client").status_code == 404
    lines = shared_server.stderr.splitlines()
    assert not [line for line in lines if line.startswith(("INFO forged", "by-a-client"))]
