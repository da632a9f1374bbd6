"""Clients that are slow, broken, too large or not even HTTP: they get an error, and nobody else notices."""

from __future__ import annotations

import json
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
    """What the server says to these bytes on a connection of their own, up to its end of the connection."""
    with closing(connect(server)) as connection:
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


def assert_well(application: Application) -> None:
    """Others are served without delay."""
    wait_until_quick(lambda: [application.json("GET", "/v3/devices") for _ in range(10)], 2)


def test_body_past_the_limit_is_413_whether_its_length_is_told_or_not(application):
    json_type = {"Content-Type": "application/json"}
    for content in (b" " * (LIMIT_BYTES + 1), chunks(2 * LIMIT_BYTES), chunks(50 * LIMIT_BYTES)):
        answer = application.http.put("/v2/subscriptions", content=content, headers=json_type)
        body = answer.json()
        assert (answer.status_code, body["object"], body["type"]) == (413, "error", "too_large")
        assert body["request_id"] == answer.headers["X-Request-ID"]
    assert application.json("GET", "/v2/subscriptions") == []
    # Of just the limit it is taken.
    rules = b'[{"endpoint-type":"Light"}]'
    for content in (rules.ljust(LIMIT_BYTES), chain([rules.ljust(len(CHUNK))], chunks(LIMIT_BYTES - len(CHUNK)))):
        application.json("PUT", "/v2/subscriptions", content=content, headers=json_type)
        assert application.json("GET", "/v2/subscriptions") == [{"endpoint-type": "Light"}]
        application.json("DELETE", "/v2/subscriptions")


@pytest.mark.parametrize(
    ("header", "body"),
    [
        (f"Content-Length: {100 * LIMIT_BYTES}", b" " * (LIMIT_BYTES + 1)),
        ("Transfer-Encoding: chunked", b"%x\r\n" % (2 * LIMIT_BYTES) + b" " * (LIMIT_BYTES + 1)),
    ],
    ids=["length told", "chunked"],
)
def test_body_past_the_limit_is_refused_before_its_end(shared_server, application, header, body):
    sent = request(b"PUT /v2/subscriptions", application.key, header.encode(), body=body)
    with closing(connect(shared_server)) as connection:
        connection.sendall(sent)
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")


def test_a_poll_with_a_body_past_the_limit_is_answered(shared_server, application):
    body = b" " * (LIMIT_BYTES + 100_000)
    poll = b"GET /v2/notification/pull?after=0&hold=1"
    sent = request(poll, application.key, b"Content-Length: %d" % len(body), body=body)
    with closing(connect(shared_server)) as connection:
        connection.sendall(sent)
        assert connection.recv(65536).startswith(b"HTTP/1.1 204 ")


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
        begun_at = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begun_at < LESS_THAN_A_REQUEST_MAY_TAKE_SECONDS


def test_a_path_cannot_forge_a_line_of_the_log(shared_server, application):
    assert application.http.get("/v3/devices/a%0AINFO forged%0Dby-a-client").status_code == 404
    lines = shared_server.stderr.splitlines()
    assert not [line for line in lines if line.startswith(("INFO forged", "by-a-client"))]


def test_clients_that_stop_in_the_middle_do_not_hold_up_others(shared_server, application):
    head = request(b"PUT /v2/subscriptions", application.key, b"Content-Length: 1000")
    stuck = []
    try:
        for sent in [b"", b"G", b"GET /healthz HTTP/1.1\r\nHos", head, head + b"[{"] * 10:
            connection = connect(shared_server)
            stuck.append(connection)
            connection.sendall(sent)
        assert_well(application)
    finally:
        for connection in stuck:
            connection.close()
    assert_well(application)
    assert application.json("GET", "/v2/subscriptions") == []


def test_client_that_never_reads_its_answers_does_not_hold_up_others(shared_server, application):
    ask = request(b"GET /v3/devices", application.key).replace(b"Connection: close\r\n", b"")
    with closing(connect(shared_server)) as deaf:
        deaf.setblocking(False)
        sent = 0
        try:
            while sent < 50_000_000:
                sent += deaf.send(ask * 100)
        except BlockingIOError:
            pass
        assert_well(application)
    assert_well(application)


def test_upload_that_takes_its_time_arrives(shared_server, application):
    body = b'[{"endpoint-type":"Slow"}]'
    head = request(b"PUT /v2/subscriptions", application.key, b"Content-Length: %d" % len(body))
    with closing(connect(shared_server)) as connection:
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
def test_what_is_not_http_is_refused_and_ends_its_own_connection_only(shared_server, application, sent):
    head, _, body = exchange(shared_server, sent).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["type"] == "bad_request"

    assert_well(application)


@pytest.mark.parametrize(
    ("start", "header", "status"),
    [
        (b"GET /v3/devices/a%00b/echo", b"", 404),
        (b"GET /v3/devices/%0d%0aX-Evil:%201/echo", b"", 404),
        (b"GET /v3/devices/../../etc/passwd", b"", 404),
        (b"GET /v3/devices?after=%ff%00&endpoint_name__eq=%fe", b"", 200),
        (b"GET /v2/notification/pull?after=%ff", b"", 400),
        (b"POST /v2/device-requests/a%00b?async-id=%ff", b"", 400),
        (b"OPTIONS *", b"", 404),
        (b"GET /v3/devices", b"X-Odd: \xff\xfe\x80", 200),
        (b"GET /v3/devices", b"X-Request-ID: \xff", 200),
        (b"GET /v3/devices", b"Accept: \xff/\xfe;q=\x80", 200),
        (b"GET /v3/devices", b"Upgrade: h2c", 200),
        (b"GET /v3/devices", b"Authorization: Bearer \xff\xfe", 401),
    ],
)
def test_odd_paths_queries_and_headers_have_ordinary_answers(shared_server, application, start, header, status):
    sent = request(start, application.key, *([header] if header else []))
    head, _, body = exchange(shared_server, sent).partition(b"\r\n\r\n")
    assert head.split()[1] == b"%d" % status
    assert b"x-evil" not in head.lower()
    assert body.startswith(b'{"object":"list"' if status == 200 else b'{"object":"error"')


def test_what_was_refused_and_who_is_connected_is_measured(shared_server, application):
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
    assert_well(application)
    assert "Traceback" not in shared_server.stderr
    assert " 500 " not in shared_server.stderr
