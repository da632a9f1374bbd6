"""A client is closed while other threads connect, or wait for a response."""

import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpcore
import pytest
import trustme
from waits import PATIENCE_SECONDS

from mirror_sdk import MirrorClient
from mirror_sdk._protocol import network_streams
from mirror_sdk.errors import ClientClosed

LONGER_SECONDS = 10 * PATIENCE_SECONDS
INCOMPLETE_RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(PATIENCE_SECONDS)
        yield made


@pytest.mark.parametrize("when", ["before it is connected", "after"])
def test_a_connection_that_comes_too_late_is_closed_and_nothing_is_sent(monkeypatch, listener, when):
    is_making, is_closed = threading.Event(), threading.Event()
    real = httpcore.SyncBackend.connect_tcp

    def connect(*arguments):
        made = real(*arguments) if when == "after" else None
        assert not is_making.is_set()
        is_making.set()
        assert is_closed.wait(PATIENCE_SECONDS)
        return made or real(*arguments)

    # A host name with several addresses: none of the others is tried after the close.
    monkeypatch.setattr(network_streams, "_addresses", lambda host, *_: [host] * 3)
    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connect)
    client = MirrorClient(f"http://127.0.0.1:{listener.getsockname()[1]}", "key", timeout=PATIENCE_SECONDS)
    with ThreadPoolExecutor(1) as others:
        call = others.submit(client.devices.list)
        assert is_making.wait(PATIENCE_SECONDS)
        client.close()
        is_closed.set()
        with pytest.raises(ClientClosed):
            call.result(PATIENCE_SECONDS)
    near, _ = listener.accept()
    with near:
        near.settimeout(PATIENCE_SECONDS)
        assert near.recv(1) == b""


STAGES = [
    ("http", None, b""),
    ("http", None, INCOMPLETE_RESPONSE),
    ("https", None, INCOMPLETE_RESPONSE),
    # The handshake has started and waits for a message that never arrives.
    ("https", None, None),
    ("https", "http", None),
    ("https", "https", None),
]


@pytest.mark.parametrize(("scheme", "proxy", "sent"), STAGES)
def test_waiters_for_a_handshake_or_response_are_notified_at_once(monkeypatch, listener, tmp_path, scheme, proxy, sent):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    if proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"{proxy}://{address}")
    client = MirrorClient(f"{scheme}://{'mirror.example' if proxy else address}", "key", timeout=LONGER_SECONDS)
    with ThreadPoolExecutor(1) as others, ExitStack() as stack:
        # If the test fails, the other thread would otherwise block its end.
        stack.callback(client.close)
        call = others.submit(client.devices.list)
        near = listener.accept()[0]
        near.settimeout(PATIENCE_SECONDS)
        if proxy == "https" or (scheme == "https" and sent is not None):
            near = context.wrap_socket(near, server_side=True)
        stack.enter_context(near)
        if proxy:
            assert near.recv(65536).startswith(b"CONNECT ")
            near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        assert near.recv(65536).startswith(b"\x16" if sent is None else b"GET ")
        near.sendall(sent or b"")
        client.close()
        with pytest.raises(ClientClosed):
            call.result(PATIENCE_SECONDS)
