"""Limits of number and duration of incomplete TLS handshakes."""

import asyncio
import socket
import ssl
import sys
from contextlib import asynccontextmanager

import pytest
import trustme
from waits import PATIENCE_SECONDS

from mirror_server.extensions.connections import handshakes
from mirror_server.extensions.connections.handshakes import TlsListener

pytestmark = pytest.mark.anyio

NEVER_SECONDS = 3600
SHORT = 0.05
NO_UVLOOP = pytest.mark.skipif(sys.platform == "win32", reason="there is no such loop")


class Greeting(asyncio.Protocol):
    """A protocol that sends a message immediately after the handshake."""

    def __init__(self, opened):
        self.opened = opened

    def connection_made(self, transport):
        self.opened.add(self)
        transport.write(b"welcome")

    def connection_lost(self, exc):
        self.opened.discard(self)


class Listening:
    def __init__(self, *, max_connections=3, handshake_seconds=NEVER_SECONDS):
        authority = trustme.CA()
        made = authority.issue_cert("localhost")
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        made.configure_cert(context)
        self.trust = ssl.create_default_context()
        authority.configure_trust(self.trust)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.opened = set()
        self.clients, self.awaited = [], []
        self.listener = TlsListener(
            self.socket,
            context,
            lambda: Greeting(self.opened),
            self.opened,
            max_connections=max_connections,
            handshake_seconds=handshake_seconds,
        )

    async def greeted(self):
        """Open a connection and complete its handshake."""
        reader, writer = await self.connect(ssl=self.trust, server_hostname="localhost")
        assert await reader.readexactly(7) == b"welcome"
        return reader, writer

    async def connect(self, **options):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, **options)
        self.clients.append(writer)
        return reader, writer


@asynccontextmanager
async def listening(**options):
    made = Listening(**options)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield made
    finally:
        made.listener.close()
        await made.listener.wait_closed()
        for reader in made.awaited:
            assert await ended(reader)
        for writer in made.clients:
            writer.transport.abort()
        await asyncio.sleep(0)
    assert made.socket.fileno() == -1


@pytest.fixture(params=["asyncio", pytest.param("uvloop", marks=NO_UVLOOP)])
def anyio_backend(request):
    """Run the test on both event loops that the server may use."""
    return "asyncio", {"use_uvloop": request.param == "uvloop"}


async def ended(reader):
    """Wait until the server closes a connection."""
    try:
        return await reader.read() == b""
    except ConnectionResetError:
        return True


async def test_excess_handshake_ends_the_oldest_and_a_complete_one_succeeds():
    async with listening() as made:
        silent = [await made.connect() for _ in range(10)]
        # Half of the first TLS message makes no difference.
        silent[7][1].write(b"\x16\x03\x01\x02\x00\x01")
        for reader, _ in silent[:7]:
            assert await ended(reader)
        assert not any(reader.at_eof() for reader, _ in silent[7:])
        reader, writer = await made.connect()
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await ended(reader)
        await made.greeted()


async def test_tls_handshake_has_a_time_limit():
    async with listening(handshake_seconds=SHORT) as made:
        reader, _ = await made.connect()
        assert await ended(reader)
        # On a busy machine a complete handshake can take longer than the short limit.
        made.listener._handshake_seconds = NEVER_SECONDS
        assert await made.greeted()


async def test_open_connections_continue_and_excess_connections_are_closed(monkeypatch):
    monkeypatch.setattr(handshakes, "_MAX_REJECTED_WITH_RESPONSE", 1)

    async with listening(max_connections=2) as made:
        opened = [await made.greeted() for _ in range(3)]
        reader, _ = await made.connect()
        assert await ended(reader)
        assert len(made.opened) == len(opened)


async def test_accept_is_retried_if_the_system_has_no_files(monkeypatch):
    monkeypatch.setattr(handshakes, "_PAUSE_SECONDS", 0)

    loop = asyncio.get_running_loop()
    accept, failures = loop.sock_accept, [OSError(24, "Too many open files")] * 2

    async def sock_accept(sock):
        if failures:
            raise failures.pop()
        return await accept(sock)

    loop.sock_accept = sock_accept
    async with listening() as made:
        assert await made.greeted()
    assert not failures


async def test_closing_the_server_ends_handshakes():
    async with listening() as made:
        made.awaited = [(await made.connect())[0] for _ in range(2)]
