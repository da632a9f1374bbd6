"""Websocket channels, with a client of another library: messages as by poll, in order, none lost, and who may."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from process_server import PATIENCE_SECONDS, Application, ServerProcess, wait_until
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

pytestmark = pytest.mark.process

SWITCH = "/3311/0/5850"
CHANNEL = "/v2/notification/websocket"


class Sockets:
    """Opens websockets, which are closed at the end."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened

    def open(self, server: ServerProcess, key: str, **options: Any) -> ClientConnection:
        headers = {"Authorization": f"Bearer {key}"}
        url = f"ws://127.0.0.1:{server.port}/v2/notification/websocket-connect"
        options = {"additional_headers": headers, "proxy": None, "compression": None, **options}
        return self._opened.enter_context(connect(url, open_timeout=PATIENCE_SECONDS, **options))


@pytest.fixture
def sockets() -> Iterator[Sockets]:
    with ExitStack() as opened:
        yield Sockets(opened)


def register(application: Application, **body: Any) -> int:
    answer = application.http.put(CHANNEL, **({"json": body} if body else {}))
    assert answer.is_success, answer.text
    return answer.status_code


def message(socket: ClientConnection) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(socket.recv(timeout=PATIENCE_SECONDS))
    return found


def responses(socket: ClientConnection, *async_ids: str) -> list[str]:
    """The ids of async responses in the order they came, up to the last of these."""
    found: list[str] = []
    while not set(async_ids) <= set(found):
        found += [entry["id"] for entry in message(socket).get("async-responses", [])]
    return found


def closed(socket: ClientConnection) -> tuple[int, str]:
    """Code and reason with which the server closed it."""
    with pytest.raises(ConnectionClosed) as caught:
        list(iter(partial(socket.recv, timeout=PATIENCE_SECONDS), None))
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code, caught.value.rcvd.reason


def state(application: Application) -> Any:
    return application.json("GET", CHANNEL)


def device(application: Application, name: str) -> str:
    return application.add_device(name, {"path": SWITCH, "value": "0", "writable": True})


def test_event_arrives_by_a_websocket(shared_server: ServerProcess, application: Application, sockets: Sockets) -> None:
    assert register(application) == 201
    device_id = device(application, "one-event")
    assert state(application)["status"] == "disconnected"
    socket = sockets.open(shared_server, application.key)

    application.write(device_id, SWITCH, "1", "by-websocket")

    assert responses(socket, "by-websocket") == ["by-websocket"]
    wait_until(lambda: state(application) == {"status": "connected", "queue_size": 0}, "the answer of its ping")
    socket.close()
    wait_until(lambda: state(application)["status"] == "disconnected", "its end")
    assert "Traceback" not in shared_server.stderr
