"""Clients that are slow, broken, too large or not even HTTP: they get an error, and nobody else notices."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest
from process_server import PATIENCE_SECONDS, Application, ServerProcess, wait_until_quick

pytestmark = pytest.mark.process

LIMIT_BYTES = 1024 * 1024
CHUNK = b" " * 65536


def exchange(server: ServerProcess, sent: bytes) -> bytes:
    """What the server says to these bytes on a connection of their own, up to its end of the connection."""
    with closing(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)) as connection:
        connection.sendall(sent)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    return received


def request(start: bytes, key: str, *headers: bytes, body: bytes = b"") -> bytes:
    """A request after which the connection ends."""
    lines = [start + b" HTTP/1.1", b"Host: x", b"Connection: close", b"Authorization: Bearer " + key.encode(), *headers]
    return b"\r\n".join([*lines, b"", body])


def chunks(size_bytes: int) -> Iterator[bytes]:
    for _ in range(size_bytes // len(CHUNK)):
        yield CHUNK


def assert_error(answer: httpx.Response, status: int, kind: str) -> None:
    body = answer.json()
    assert (answer.status_code, body["object"], body["code"], body["type"]) == (status, "error", status, kind)
    assert body["request_id"] == answer.headers["X-Request-ID"]


def assert_well(application: Application) -> None:
    """Others are served without delay."""
    wait_until_quick(lambda: [application.json("GET", "/v3/devices") for _ in range(10)], 2)


def test_body_past_the_limit_is_413_whether_its_length_is_told_or_not(application: Application) -> None:
    for content in (b" " * (LIMIT_BYTES + 1), chunks(2 * LIMIT_BYTES), chunks(50 * LIMIT_BYTES)):
        answer = application.http.put(
            "/v2/subscriptions", content=content, headers={"Content-Type": "application/json"}
        )
        assert_error(answer, 413, "too_large")
    assert application.json("GET", "/v2/subscriptions") == []


def test_body_of_just_the_limit_is_taken_whether_its_length_is_told_or_not(application: Application) -> None:
    def in_chunks() -> Iterator[bytes]:
        yield b'[{"endpoint-type":"Light"}]'.ljust(len(CHUNK))
        yield from chunks(LIMIT_BYTES - len(CHUNK))

    for content in (b'[{"endpoint-type":"Light"}]'.ljust(LIMIT_BYTES), in_chunks()):
        application.json("PUT", "/v2/subscriptions", content=content, headers={"Content-Type": "application/json"})
        assert application.json("GET", "/v2/subscriptions") == [{"endpoint-type": "Light"}]
        application.json("DELETE", "/v2/subscriptions")


def test_clients_that_stop_in_the_middle_do_not_hold_up_others(
    shared_server: ServerProcess, application: Application
) -> None:
    head = request(b"PUT /v2/subscriptions", application.key, b"Content-Length: 1000")
    stuck = []
    try:
        for sent in [b"", b"G", b"GET /healthz HTTP/1.1\r\nHos", head, head + b"[{"] * 10:
            connection = socket.create_connection(("127.0.0.1", shared_server.port), timeout=PATIENCE_SECONDS)
            stuck.append(connection)
            connection.sendall(sent)
        assert_well(application)
    finally:
        for connection in stuck:
            connection.close()
    assert_well(application)
    assert application.json("GET", "/v2/subscriptions") == []


def test_client_that_never_reads_its_answers_does_not_hold_up_others(
    shared_server: ServerProcess, application: Application
) -> None:
    ask = request(b"GET /v3/devices", application.key).replace(b"Connection: close\r\n", b"")
    with closing(socket.create_connection(("127.0.0.1", shared_server.port), timeout=PATIENCE_SECONDS)) as deaf:
        deaf.setblocking(False)
        sent = 0
        try:
            while sent < 50_000_000:
                sent += deaf.send(ask * 100)
        except BlockingIOError:
            pass
        assert_well(application)
    assert_well(application)


def test_upload_that_takes_its_time_arrives(shared_server: ServerProcess, application: Application) -> None:
    body = b'[{"endpoint-type":"Slow"}]'
    head = request(b"PUT /v2/subscriptions", application.key, b"Content-Length: %d" % len(body))
    with closing(socket.create_connection(("127.0.0.1", shared_server.port), timeout=PATIENCE_SECONDS)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in head + body:
            connection.sendall(bytes([byte]))
        assert connection.recv(65536).startswith(b"HTTP/1.1 202")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\xff\xfe garbage\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
        b"GET /v3/devices/\xff\xfe/echo HTTP/1.1\r\nHost: x\r\n\r\n",
        b"FROBNICATE /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"CONNECT host:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"PUT /v2/subscriptions HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PUT /v2/subscriptions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["bytes", "TLS", "raw path", "method", "CONNECT", "HTTP/2", "length", "smuggling", "chunk"],
)
def test_what_is_not_http_is_refused_and_ends_its_own_connection_only(
    shared_server: ServerProcess, application: Application, sent: bytes
) -> None:
    head, _, body = exchange(shared_server, sent).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["type"] == "bad_request"

    assert_well(application)


@pytest.mark.parametrize(
    ("start", "status"),
    [
        (b"GET /v3/devices/a%00b/echo", 404),
        (b"GET /v3/devices/a%2Fb/echo", 404),
        (b"GET /v3/devices/%ff%fe/echo", 404),
        (b"GET /v3/devices/%0d%0aX-Evil:%201/echo", 404),
        (b"GET /v3/devices/../../etc/passwd", 404),
        (b"GET /%ff%00", 404),
        (b"GET /v3/devices?after=%ff%00&endpoint_name__eq=%fe", 200),
        (b"GET /v2/notification/pull?after=%ff", 400),
        (b"GET /v2/notification/pull?after=-1", 400),
        (b"GET /v2/notification/pull?after=999999999999999999", 400),
        (b"POST /v2/device-requests/a%00b?async-id=%ff", 400),
        (b"OPTIONS *", 404),
    ],
)
def test_odd_paths_and_queries_have_ordinary_answers(
    shared_server: ServerProcess, application: Application, start: bytes, status: int
) -> None:
    answer = exchange(shared_server, request(start, application.key))

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split()[1] == b"%d" % status
    assert b"x-evil" not in head.lower()
    assert body.startswith(b'{"object":"list"' if status == 200 else b'{"object":"error"')


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"X-Odd: \xff\xfe\x80", 200),
        (b"X-Request-ID: \xff", 200),
        (b"Accept: \xff/\xfe;q=\x80", 200),
        (b"If-None-Match: \xff", 200),
        (b"Upgrade: h2c", 200),
        (b"Content-Length: 2\r\nContent-Type: \xff", 200),
        (b"Authorization: Bearer \xff\xfe", 401),
    ],
)
def test_odd_header_bytes_have_ordinary_answers(
    shared_server: ServerProcess, application: Application, header: bytes, status: int
) -> None:
    body = b"{}" if header.startswith(b"Content-Length") else b""

    answer = exchange(shared_server, request(b"GET /v3/devices", application.key, header, body=body))

    assert answer.split()[1] == b"%d" % status


def test_websocket_handshake_is_an_ordinary_request(shared_server: ServerProcess, application: Application) -> None:
    upgrade = (b"Upgrade: websocket", b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b"Sec-WebSocket-Version: 13")
    ask = request(b"GET /v3/devices", application.key, *upgrade).replace(b"Connection: close", b"Connection: Upgrade")
    with closing(socket.create_connection(("127.0.0.1", shared_server.port), timeout=PATIENCE_SECONDS)) as connection:
        connection.sendall(ask)
        assert connection.recv(65536).startswith(b"HTTP/1.1 4")


def test_what_was_refused_and_who_is_connected_is_measured(
    shared_server: ServerProcess, application: Application
) -> None:
    sent = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70_000 + b"\r\n\r\n"
    assert exchange(shared_server, sent).startswith(b"HTTP/1.1 431 ")
    metrics = application.http.get("/metrics").text
    assert 'mirror_requests_total{method="",route="",status="431"} 1.0' in metrics
    connections = next(line for line in metrics.splitlines() if line.startswith("mirror_open_connections "))
    assert float(connections.split()[1]) >= 1
    assert "mirror_unread_bytes 0.0" in metrics
    assert "status=431" in shared_server.stderr


def test_no_client_of_these_made_the_server_fail(shared_server: ServerProcess, application: Application) -> None:
    assert shared_server.child.running
    assert_well(application)
    assert "Traceback" not in shared_server.stderr
    assert " 500 " not in shared_server.stderr
