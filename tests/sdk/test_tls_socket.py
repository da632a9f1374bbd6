"""A TLS socket from which one thread receives while another one sends."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import trustme
from waits import PATIENCE_SECONDS, wait_until

from mirror_sdk._protocol.tls_socket import TwoThreadTLSSocket

LARGE = bytes(range(256)) * 16384
"""More than the buffers of a socket can hold."""


@pytest.fixture(scope="module")
def contexts() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The contexts of a client and a server."""
    authority = trustme.CA()
    client, server = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.configure_trust(client)
    authority.issue_cert("localhost").configure_cert(server)
    client.sslsocket_class = TwoThreadTLSSocket
    return client, server


@pytest.fixture
def pair(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> Iterator[tuple[ssl.SSLSocket, ssl.SSLSocket]]:
    """A client and its server, which are connected."""
    client, server = contexts
    near, far = socket.socketpair()
    near.settimeout(PATIENCE_SECONDS)
    far.settimeout(PATIENCE_SECONDS)
    with ThreadPoolExecutor(1) as pool:
        accepted = pool.submit(server.wrap_socket, far, server_side=True)
        connected = client.wrap_socket(near, server_hostname="localhost")
        with connected, accepted.result(PATIENCE_SECONDS) as peer:
            yield connected, peer


@pytest.fixture
def other() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def test_a_thread_can_send_while_another_one_waits_for_data(pair, other):
    near, far = pair
    received = other.submit(near.recv)
    near.sendall(b"question")
    assert far.recv() == b"question"
    far.sendall(b"answer")
    assert received.result(PATIENCE_SECONDS) == b"answer"


def test_a_read_and_a_write_are_never_at_the_same_time(pair, other, monkeypatch):
    near, far = pair
    reads, writes, overlaps = threading.Event(), threading.Event(), []
    receive, send = ssl.SSLSocket.recv, ssl.SSLSocket.send

    def slow_receive(self: ssl.SSLSocket, *arguments: int) -> bytes:
        if self is near and not overlaps:
            reads.set()
            # The other thread writes now, unless it waits for the end of the read.
            overlaps.append(writes.wait(0.2))
        return receive(self, *arguments)

    def noted_send(self: ssl.SSLSocket, *arguments: bytes) -> int:
        writes.set()
        return send(self, *arguments)

    monkeypatch.setattr(ssl.SSLSocket, "recv", slow_receive)
    monkeypatch.setattr(ssl.SSLSocket, "send", noted_send)
    received = other.submit(near.recv)
    assert reads.wait(PATIENCE_SECONDS)
    near.sendall(b"question")
    assert far.recv() == b"question"
    assert overlaps == [False]
    far.sendall(b"answer")
    assert received.result(PATIENCE_SECONDS) == b"answer"


def test_much_data_arrives_in_both_directions_at_the_same_time(pair, other):
    near, far = pair

    def read_all() -> bytes:
        data = b""
        while len(data) < len(LARGE):
            data += near.recv(65536)
        return data

    received, sent = other.submit(read_all), other.submit(near.sendall, LARGE)
    # The peer reads only after it has sent everything, so the client must wait before it can continue.
    far.sendall(LARGE)
    data = b""
    while len(data) < len(LARGE):
        data += far.recv(65536)
    assert data == LARGE
    sent.result(PATIENCE_SECONDS)
    assert received.result(PATIENCE_SECONDS) == LARGE


def test_an_operation_ends_at_its_time_limit(pair):
    near, _ = pair
    near.settimeout(0.01)
    with pytest.raises(TimeoutError):
        near.recv()
    with pytest.raises(TimeoutError):
        near.sendall(LARGE)


def test_a_shutdown_ends_the_wait_of_another_thread(pair, other):
    near, _ = pair
    received = other.submit(near.recv)
    wait_until(received.running, "the other thread to receive")
    near.shutdown(socket.SHUT_RDWR)
    assert received.result(PATIENCE_SECONDS) == b""
