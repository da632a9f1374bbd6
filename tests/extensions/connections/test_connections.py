"""Limits of size and time of a connection before authentication, over real sockets."""

import asyncio
import json
import re
import resource
import sys
from contextlib import asynccontextmanager

import pytest
import uvicorn
from uvicorn.server import ServerState

from mirror_sdk.wire.errors import ErrorBody
from mirror_server.extensions.connections.connection import BoundedConnection
from mirror_server.extensions.connections.open_files import allow_connections
from mirror_server.extensions.connections.settings import ConnectionSettings
from mirror_server.hooks import read_settings
from mirror_server.service.keys import Scope
from mirror_server.web.asgi_bridge import ASGIBridge

pytestmark = pytest.mark.anyio

SHORT = 0.05
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
BODY = b"PUT /v2/subscriptions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


class Listening:
    """A server for these connections on its own port, inside the test's event loop."""

    def __init__(self, server, **limits):
        settings = read_settings(**limits)
        self.state = ServerState()
        self.made = []
        bridge = ASGIBridge(server.app, settings)
        config = uvicorn.Config(bridge, lifespan="off", ws="none", log_config=None, access_log=False)
        config.load()

        def make():
            self.made.append(
                BoundedConnection(
                    config,
                    self.state,
                    {},
                    settings=settings,
                    limits=settings.of(ConnectionSettings),
                    error_response=bridge.error_response,
                )
            )
            return self.made[-1]

        self.make = make

    async def exchange(self, *sent, until=b""):
        """Return everything that the server sends until it closes the connection, or until a text."""
        reader, writer = await self.connect()
        for piece in sent:
            writer.write(piece)
        async with asyncio.timeout(60):
            answer = await (reader.readuntil(until) if until else reader.read())
        writer.close()
        return answer

    async def response(self, *sent):
        """Return the response. The exchange is repeated if the connection was closed because this machine was slow."""
        while not (response := await self.exchange(*sent)):
            pass
        return response

    async def connect(self):
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def assert_serves_others(self):
        assert (await self.exchange(HEALTH + b"Connection: close\r\n\r\n")).startswith(b"HTTP/1.1 200")


@pytest.fixture
def server(shared_server):
    return shared_server


@asynccontextmanager
async def listening(server, **limits):
    served = Listening(server, **limits)
    listener = await asyncio.get_running_loop().create_server(served.make, "127.0.0.1", 0)
    served.port = listener.sockets[0].getsockname()[1]
    try:
        yield served
    finally:
        listener.close()
        for connection in list(served.state.connections):
            connection.transport.abort()
        while served.state.connections or served.state.tasks:
            await asyncio.sleep(0)


def assert_rejected(answer, status, case=""):
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), (case, answer[:200])
    assert b"connection: close" in head.lower()
    error = ErrorBody.model_validate(json.loads(body), extra="forbid")
    assert error.code == status
    assert error.request_id.encode() in head


async def test_too_large_head_is_rejected_and_the_connection_ends(server):
    cases = {
        "line": ([b"GET /healthz?" + b"a" * 70_000], 414),
        "whole line": ([b"GET /healthz?" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n"], 414),
        "header": ([HEALTH + b"X: " + b"a" * 70_000 + b"\r\n\r\n"], 431),
        "endless value": ([HEALTH + b"X: ", *[b"a" * 50_000] * 4], 431),
        "endless space": ([HEALTH + b"X: ", *[b" " * 50_000] * 4], 431),
        "endless name": ([HEALTH + b"a" * 70_000], 431),
        "headers": ([HEALTH + b"X: 1\r\n" * 100 + b"\r\n"], 431),
        "begun headers": ([HEALTH + b"X: 1\r\n" * 101], 431),
        "line ends": ([b"\r\n" * 100_000], 400),
        "extension": ([BODY + b"Transfer-Encoding: chunked\r\n\r\n1;", *[b"a" * 50_000] * 4], 400),
        "trailers": ([BODY + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", *[b"X: 1\r\n" * 9_000] * 4], 400),
    }

    async with listening(server) as served:
        for name, (sent, status) in cases.items():
            assert_rejected(await served.exchange(*sent), status, name)
        await served.assert_serves_others()


async def test_limits_of_a_head_are_settings_and_hold_for_each_request(server):
    fits = HEALTH + b"X: " + b"a" * 1820 + b"\r\n" + b"Y: 1\r\n" * 10
    end = b"Connection: close\r\n\r\n"
    upgrade = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"

    async with listening(server, max_head_bytes=2000, max_headers=13) as served:
        assert statuses(await served.exchange((fits + b"\r\n") * 3 + fits + end)) == [b"200"] * 4
        assert_rejected(await served.exchange(fits + b"Y: 1\r\n" + end), 431)
        assert_rejected(await served.exchange(HEALTH + b"X: " + b"a" * 2000 + b"\r\n" + end), 431)
        assert_rejected(await served.exchange(fits + upgrade + b"\r\n"), 431)


async def test_idle_connection_ends_before_and_after_a_request(server):
    async with listening(server, idle_timeout_seconds=SHORT) as served:
        assert await served.exchange() == b""
        assert (await served.response(HEALTH + b"\r\n")).startswith(b"HTTP/1.1 200")


async def test_request_that_stops_in_the_middle_is_408(server):
    unfinished = BODY + b"Content-Length: 9\r\n"
    key = server.key().encode()
    cases = [b"G", HEALTH, b"\r\n", unfinished + b"\r\n", unfinished + b"Authorization: Bearer %b\r\n\r\n[{" % key]

    async with listening(server, request_timeout_seconds=SHORT) as served:
        for sent in cases:
            assert_rejected(await served.exchange(sent), 408, sent)


async def test_request_that_trickles_is_408_and_no_byte_lengthens_its_time(server):
    async with listening(server, request_timeout_seconds=SHORT) as served:
        reader, writer = await served.connect()

        async def trickle():
            for byte in HEALTH * 1000:
                writer.write(bytes([byte]))
                await asyncio.sleep(SHORT / 10)

        trickling = asyncio.ensure_future(trickle())
        async with asyncio.timeout(60):
            assert_rejected(await reader.readuntil(b"}"), 408)
        trickling.cancel()
        writer.close()


async def test_open_poll_is_not_idle(server):
    key = server.key()
    poll = b"GET /v2/notification/pull?after=latest&hold=1 HTTP/1.1\r\nAuthorization: Bearer %b\r\n\r\n" % key.encode()

    async with listening(server, idle_timeout_seconds=SHORT, request_timeout_seconds=SHORT) as served:
        assert (await served.response(poll + b"GET /he")).startswith(b"HTTP/1.1 204")


async def test_rest_of_a_rejected_body_is_not_awaited(server):
    head = BODY + b"Authorization: Bearer %b\r\nContent-Length: 9000000\r\n\r\n" % server.key().encode()

    async with listening(server) as served:
        answer = await served.exchange(head, b" " * 1_100_000)
        # The client must send its next request on another connection.
        assert_rejected(answer, 413)


async def test_body_is_read_from_clients_with_a_key_and_its_scope_alone(server):
    reader = b"Authorization: Bearer %b\r\n" % server.key(Scope.READ).encode()
    rejected = {b"": b"401", b"Authorization: Bearer wrong\r\n": b"401", reader: b"403"}

    async with listening(server) as served:
        for framing in (b"Content-Length: 1000000", b"Transfer-Encoding: chunked"):
            for authorization, status in rejected.items():
                answer = await served.exchange(BODY + authorization + framing + b"\r\n\r\n5\r\n[    ")
                assert answer.startswith(b"HTTP/1.1 " + status), answer


async def test_too_many_connections_are_503_and_very_many_get_no_response(server, monkeypatch):
    monkeypatch.setattr("mirror_server.extensions.connections.connection._MAX_REJECTED_WITH_RESPONSE", 1)

    async with listening(server, max_connections=1) as served:
        _, writer = await served.connect()
        while not served.state.connections:
            await asyncio.sleep(0)
        others = [await served.connect() for _ in range(4)]
        async with asyncio.timeout(60):
            responses = await asyncio.gather(*(reader.read() for reader, _ in others), return_exceptions=True)
        (rejected,) = (response for response in responses if isinstance(response, bytes) and response)
        assert_rejected(rejected, 503)
        assert b"retry-after" in rejected
        for each in (writer, *(writer for _, writer in others)):
            each.close()
        while served.state.connections:
            await asyncio.sleep(0)
        await served.assert_serves_others()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_limit_of_open_files_is_raised_for_as_many_connections():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1000, hard))
    try:
        assert allow_connections(1500) == 1500
        raised, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert 1500 < raised < 2000
        assert allow_connections(100) == 100
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (raised, hard)
        assert hard - 1000 < allow_connections(hard) < hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_pipelined_requests_start_a_few_at_a_time_and_all_get_responses(server):
    async with listening(server) as served:
        responses = await served.exchange((HEALTH + b"\r\n") * 1000)
        assert 10 < responses.count(b"HTTP/1.1 200") < 30
        assert len(served.made[0].pipeline) == 0


async def test_open_poll_ends_with_its_client_even_if_another_request_follows(server):
    key = server.key()
    poll = b"GET /v2/notification/pull?after=latest&hold=55 HTTP/1.1\r\nAuthorization: Bearer %b\r\n\r\n" % key.encode()

    async with listening(server) as served:
        before = server.services.log.open_polls
        _, writer = await served.connect()
        writer.write(poll + HEALTH + b"\r\n")
        async with asyncio.timeout(60):
            while server.services.log.open_polls == before:
                await asyncio.sleep(0)
            writer.transport.abort()
            while server.services.log.open_polls > before:
                await asyncio.sleep(0)


async def test_client_that_reads_nothing_is_disconnected(server):
    key = server.key()
    resources = [{"path": f"/3303/{number}/5700", "value": "1" * 90} for number in range(500)]
    device_id = server.add_device(key, "d", *resources)
    request = f"GET /v3/devices/{device_id}/echo HTTP/1.1\r\nAuthorization: Bearer {key}\r\n\r\n".encode()

    async with listening(server, write_timeout_seconds=SHORT) as served:
        reader, writer = await served.connect()
        # The system must buffer as little as possible.
        reader._transport.pause_reading()
        while not served.made:
            await asyncio.sleep(0)
        async with asyncio.timeout(60):
            while not writer.is_closing() and served.state.connections:
                writer.write(request)
                await asyncio.sleep(0.01)
        assert not served.state.connections
        writer.close()
        await served.assert_serves_others()


LISTED = b"GET /v3/devices HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\n"
"""A request for the devices. A request without a valid key is rejected, so the responses show how many were read."""
RULES = b'[{"endpoint-name": "upgraded"}]'


def statuses(responses):
    return re.findall(rb"HTTP/1\.1 (\d+) ", responses)


async def byte_by_byte(served, sent):
    """Return the responses when the parser gets each byte separately."""
    reader, writer = await served.connect()
    while not (served.made and served.made[-1].transport):
        await asyncio.sleep(0)
    for position in range(len(sent)):
        served.made[-1].data_received(sent[position : position + 1])
    async with asyncio.timeout(60):
        responses = await reader.read()
    writer.close()
    return responses


async def test_upgrade_request_keeps_http_1_and_its_body(server):
    key = server.key().encode()
    last = LISTED % key + b"Connection: close\r\n\r\n"
    upgrade = BODY + b"Authorization: Bearer %b\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" % key
    framings = [
        lambda body: (b"Content-Length: %d\r\n" % len(body), body),
        lambda body: (b"Transfer-Encoding: chunked\r\n", b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)),
    ]

    async with listening(server) as served:
        for frame in framings:
            # The second body is itself a request, which must not be parsed as one.
            for body, status in ((RULES, b"202"), (last, b"400")):
                header, content = frame(body)
                sent = upgrade + header + b"\r\n" + content + last
                assert statuses(await served.exchange(sent)) == [status, b"200"]
                assert statuses(await byte_by_byte(served, sent)) == [status, b"200"]


async def check_requests_after_an_upgrade(server, upgrade, status):
    """Check that requests around an upgrade get responses, and the upgrade this status. Return the responses."""
    key = server.key().encode()
    last = LISTED % key + b"Connection: close\r\n\r\n"

    async with listening(server) as served:
        request = LISTED % key + b"Connection: Upgrade\r\nUpgrade: " + upgrade + b"\r\n\r\n"
        sent = request + LISTED % key + b"\r\n" + request + last
        responses = await served.exchange(sent)
        assert statuses(responses) == [status, b"200", status, b"200"]
        assert statuses(await byte_by_byte(served, sent)) == [status, b"200", status, b"200"]
        assert statuses(await served.exchange(request.replace(b"Upgrade\r\n", b"Upgrade, close\r\n"))) == [status]
        return responses


async def test_requests_after_an_upgrade_get_responses(server):
    await check_requests_after_an_upgrade(server, b"h2c, HTTP/3", b"200")


@pytest.mark.with_extension("streams")
async def test_handshake_at_another_route_names_the_route_for_websockets(server):
    responses = await check_requests_after_an_upgrade(server, b"websocket", b"400")
    assert b"/v2/notification/websocket-connect" in responses


async def test_nothing_is_read_after_an_invalid_request(server):
    rejected = [b"GET http://x:99999/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"]
    targets = [b"host:443", b"http://host/healthz", b"host/healthz"]
    rejected += [b"CONNECT " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n" for target in targets]
    rejected += [b"\x00\xff garbage\r\n\r\n", b"\x16\x03\x01\x02" + b"\x00" * 500, b"GET /\xff HTTP/1.1\r\n\r\n"]
    async with listening(server) as served:
        for sent in rejected:
            assert_rejected(await served.exchange(sent + HEALTH + b"\r\n"), 400, sent)
        await served.assert_serves_others()


CHUNKED = b"Host: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"


async def test_trailers_are_not_read_as_headers(server):
    key = server.key().encode()
    trailers = b"0\r\nAuthorization: Bearer %b\r\nX-Request-ID: %b\r\n\r\n" % (key, b"a" * 32)

    async with listening(server) as served:
        for end in (trailers, b"1\r\n \r\n" + trailers):
            sent = b"GET /v3/devices HTTP/1.1\r\n" + CHUNKED + b"\r\n" + end
            assert statuses(await served.exchange(sent)) == [b"401"]
            assert statuses(await byte_by_byte(served, sent)) == [b"401"]
            answer = await served.exchange(LISTED % key + CHUNKED + b"\r\n" + end)
            assert statuses(answer) == [b"200"]
            assert b"a" * 32 not in answer


async def test_trailers_change_nothing_for_the_next_request_unless_they_close_the_connection(server):
    cases = {
        b"Upgrade: h2c\r\nConnection: Upgrade\r\n": [b"200", b"200"],
        b"Expect: 100-continue\r\n": [b"200", b"200"],
        b"Connection: close\r\n": [b"200"],
    }

    async with listening(server) as served:
        for trailer, expected in cases.items():
            sent = HEALTH + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + trailer + b"\r\n"
            responses = await served.exchange(sent + HEALTH + b"Connection: close\r\n\r\n")
            assert statuses(responses) == expected
            assert responses.count(b"connection: close") == 1


async def test_too_large_trailers_are_rejected_even_if_they_arrive_at_once(server):
    head = LISTED % server.key().encode() + b"Transfer-Encoding: chunked\r\n\r\n"
    last = HEALTH + b"Connection: close\r\n\r\n"

    async with listening(server, max_head_bytes=2000, max_headers=13) as served:
        for trailers, status in ((b"a:\r\n" * 14, 431), (b"a: " + b"b" * 2000 + b"\r\n", 400)):
            for chunk in (b"0\r\n", b"1\r\n \r\n0\r\n"):
                assert_rejected(await served.exchange(head + chunk + trailers + b"\r\n" + last), status)
        assert statuses(await served.exchange(head + b"0\r\n" + b"a:\r\n" * 13 + b"\r\n" + last)) == [b"200", b"200"]


async def test_100_continue_depends_on_the_key(server):
    key = server.key().encode()
    head = BODY + b"Expect: 100-Continue\r\nContent-Length: %d\r\n" % len(RULES)

    async with listening(server) as served:
        for authorization in (b"", b"Authorization: Bearer wrong\r\n"):
            for body in (b"", RULES):
                answer = await served.exchange(head + authorization + b"\r\n", body, until=b"}")
                assert answer.startswith(b"HTTP/1.1 401")
        reader, writer = await served.connect()
        writer.write(head + b"Authorization: Bearer %b\r\n\r\n" % key)
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(RULES)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 202")
        writer.close()


async def test_header_with_an_underscore_in_its_name_is_ignored(server):
    async with listening(server) as served:
        other = LISTED.replace(b"Host: x", b"Host: x\r\nX_Request_ID: %b" % (b"a" * 32)) % server.key().encode()
        answer = await served.exchange(other + b"Content_Length: 5\r\nConnection: close\r\n\r\n")
        assert statuses(answer) == [b"200"]
        assert b"a" * 32 not in answer
