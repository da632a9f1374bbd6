"""A client that is closed while another of its threads is making a connection leaves none behind."""

import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import httpcore
import pytest

from mirror_sdk import MirrorClient
from mirror_sdk._service import network
from mirror_sdk.errors import ClientClosed

PATIENCE_SECONDS = 60


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

    # A name with several addresses: none of the others is tried then.
    monkeypatch.setattr(network, "_addresses", lambda host, *_: [host] * 3)
    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", connect)
    client = MirrorClient(f"http://127.0.0.1:{listener.getsockname()[1]}", "key", timeout=PATIENCE_SECONDS)
    with ThreadPoolExecutor(1) as others:
        call = others.submit(client.list_devices)
        assert is_making.wait(PATIENCE_SECONDS)
        client.close()
        is_closed.set()
        with pytest.raises(ClientClosed):
            call.result(PATIENCE_SECONDS)
    near, _ = listener.accept()
    with near:
        near.settimeout(PATIENCE_SECONDS)
        assert near.recv(1) == b""
