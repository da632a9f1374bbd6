"""Websockets of another library, and websockets without a library, for tests of the server's websockets."""

from __future__ import annotations

import base64
import json
import os
import socket as sockets_of_system
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest
from process_server import PATIENCE_SECONDS, Application, ServerProcess, encoded
from resource_paths import SWITCH
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.sync.client import ClientConnection, connect

CHANNEL = "/v2/notification/websocket"
CONNECT = "/v2/notification/websocket-connect"


class Sockets:
    """A factory of websockets, which are closed at the end."""

    def __init__(self, opened: ExitStack) -> None:
        self._opened = opened

    def open(self, server: ServerProcess, key: str, **options: Any) -> ClientConnection:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        url = f"ws://127.0.0.1:{server.port}{options.pop('path', CONNECT)}"
        options = {"additional_headers": headers, "proxy": None, "compression": None, **options}
        return self._opened.enter_context(connect(url, open_timeout=PATIENCE_SECONDS, **options))


def register(application: Application, **body: Any) -> int:
    answer = application.http.put(CHANNEL, **({"json": body} if body else {}))
    assert answer.is_success, answer.text
    return answer.status_code


def message(socket: ClientConnection) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(socket.recv(timeout=PATIENCE_SECONDS))
    return found


def responses(socket: ClientConnection, *async_ids: str) -> list[str]:
    """Return the ids of async responses in the order of their arrival, up to the last of these."""
    found: list[str] = []
    while not set(async_ids) <= set(found):
        found += [entry["id"] for entry in message(socket).get("async-responses", [])]
    return found


def observed(socket: ClientConnection, value: str) -> dict[str, Any]:
    """Wait for the notification of a value and return it."""
    while True:
        for entry in message(socket).get("notifications", []):
            if entry["payload"] == encoded(value):
                return dict(entry)


def rest(socket: ClientConnection) -> list[str]:
    """Return the ids of async responses up to the end of the connection."""
    found: list[str] = []
    try:
        while True:
            found += [entry["id"] for entry in message(socket).get("async-responses", [])]
    except ConnectionClosed:
        return found


def closed(socket: ClientConnection) -> tuple[int, str]:
    """Wait until the server closes the connection, and return code and reason."""
    with pytest.raises(ConnectionClosed) as caught:
        list(iter(partial(socket.recv, timeout=PATIENCE_SECONDS), None))
    assert caught.value.rcvd is not None
    return caught.value.rcvd.code, caught.value.rcvd.reason


def state(application: Application) -> Any:
    return application.json("GET", CHANNEL)


def device(application: Application, name: str) -> str:
    return application.add_device(name, {"path": SWITCH, "value": "0", "writable": True, "observable": True})


class Silent:
    """A websocket without a library, which sends no pongs and reads only on request."""

    def __init__(
        self, server: ServerProcess, key: str, *lines: str, early_data: bytes = b"", receive_bytes: int = 0
    ) -> None:
        self.socket = sockets_of_system.socket()
        self.socket.settimeout(PATIENCE_SECONDS)
        if receive_bytes:
            self.socket.setsockopt(sockets_of_system.SOL_SOCKET, sockets_of_system.SO_RCVBUF, receive_bytes)
        self.socket.connect(("127.0.0.1", server.port))
        lines = lines or (
            f"GET {CONNECT} HTTP/1.1",
            "Upgrade: websocket",
            "Connection: keep-alive, Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        )
        head = [*lines, "Host: x", f"Authorization: Bearer {key}", "", ""]
        self.socket.sendall("\r\n".join(head).encode() + early_data)
        self.received = b""

    def head(self) -> bytes:
        """Return the response to the handshake."""
        return self._up_to(b"\r\n\r\n")

    def frame(self) -> tuple[int, bytes]:
        """Return opcode and content of the next frame."""
        first, second = self._take(2)
        size = second & 127
        if size > 125:
            size = int.from_bytes(self._take(2 if size == 126 else 8))
        return first & 15, self._take(size)

    def send(self, opcode: Opcode, content: bytes) -> None:
        self.socket.sendall(Frame(opcode, content).serialize(mask=True))

    def rest(self) -> bytes:
        """Wait until the server ends the connection, and return the remaining bytes."""
        while chunk := self.socket.recv(1 << 16):
            self.received += chunk
        return self.received

    def is_ended(self) -> bool:
        """Wait for the server to end the connection, and return whether it does."""
        try:
            while self.socket.recv(1 << 20):
                pass
        except ConnectionError:
            pass
        return True

    def _up_to(self, end: bytes) -> bytes:
        while end not in self.received:
            self._more()
        found, _, self.received = self.received.partition(end)
        return found

    def _take(self, size: int) -> bytes:
        while len(self.received) < size:
            self._more()
        found, self.received = self.received[:size], self.received[size:]
        return found

    def _more(self) -> None:
        chunk = self.socket.recv(1 << 16)
        assert chunk, "the connection ended"
        self.received += chunk

    def close(self) -> None:
        self.socket.close()
