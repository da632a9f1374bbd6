"""A client that holds polls or websockets open, or one poll after another. Reads and writes lines of JSON.

Times are from the system's monotonic clock, which all processes of the machine share, so they can be subtracted.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from typing import Any, cast

import uvloop
from machine import allow_many_connections
from run_settings import get
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_websocket

_TIMEOUT_SECONDS = 40
_HOLD_SECONDS = 55


def poll(key: str, after: str, hold: int = _HOLD_SECONDS) -> bytes:
    return get(f"/v2/notification/pull?after={after}&hold={hold}", key).encode()


class OpenPoll(asyncio.Protocol):
    """A poll, which is sent again if it ends without an entry.

    It does as little as it can, so that the figure is the server's: a reader of asyncio's and a task for each poll take
    longer than the server does. Its connection stays open, as that of a client which polls again.
    """

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._received = b""
        self.responded_at_ns: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.WriteTransport", transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        at_ns = time.monotonic_ns()
        self._received += data
        head, end, _ = self._received.partition(b"\r\n\r\n")
        if not end or self.responded_at_ns.done():
            return
        if b" 204 " in head[:20]:
            self._received = b""
            self.transport.write(self._request)
            return
        assert b" 200 " in head[:20], head
        self.responded_at_ns.set_result(at_ns)


async def hold(port: int, key: str, count: int) -> None:
    loop = asyncio.get_running_loop()
    request = poll(key, "latest")
    polls = [(await loop.create_connection(lambda: OpenPoll(request), "127.0.0.1", port))[1] for _ in range(count)]
    await report(asyncio.gather(*(one.responded_at_ns for one in polls)), count)
    for one in polls:
        one.transport.close()


async def report(responses: asyncio.Future[list[int]], count: int) -> None:
    """Report that all are open, and the time of the last response."""
    say(held=count)
    responded_at = await responses
    say(last_at_ns=max(responded_at), responded=len(responded_at))


async def hold_websockets(port: int, key: str, count: int) -> None:
    """Hold websockets open. The library responds to the pings of the server."""
    url = f"ws://127.0.0.1:{port}/v2/notification/websocket-connect?after=latest"
    headers = {"Authorization": f"Bearer {key}"}
    opened = [
        await connect_websocket(url, additional_headers=headers, compression=None, ping_interval=None)
        for _ in range(count)
    ]
    await report(asyncio.gather(*(notified_at_ns(one) for one in opened)), count)


async def notified_at_ns(websocket: ClientConnection) -> int:
    """Wait for a notification and return its time. An idle websocket receives its position now and then."""
    while "notifications" not in json.loads(await websocket.recv()):
        pass
    return time.monotonic_ns()


def watch(port: int, key: str, count: int) -> None:
    """Hold one poll after another; report the time of each response."""
    with connect(port) as connection:
        connection.sendall(poll(key, "latest", hold=0))
        head, _ = receive(connection)
        # From here on no event is missed, even if the next poll is late.
        say(watching=True)
        for _ in range(count):
            connection.sendall(poll(key, header(head, b"mirror-cursor")))
            head, at_ns = receive(connection)
            say(at_ns=at_ns)


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive(connection: socket.socket) -> tuple[bytes, int]:
    """Return the head of a response, and the time when it was complete."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += chunk(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(header(head, b"content-length") or 0)
    while len(body) < length:
        body += chunk(connection)
    return head, time.monotonic_ns()


def chunk(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    assert data, "the server closed the connection"
    return data


def header(head: bytes, name: bytes) -> str:
    for line in head.split(b"\r\n"):
        if line.lower().startswith(name + b":"):
            return line.partition(b":")[2].strip().decode()
    return ""


def say(**response: Any) -> None:
    print(json.dumps(response), flush=True)


def main() -> None:
    allow_many_connections()
    for line in sys.stdin:
        command = json.loads(line)
        do = command.pop("do")
        if do == "watch":
            watch(**command)
        else:
            uvloop.run({"hold": hold, "hold_websockets": hold_websockets}[do](**command))


if __name__ == "__main__":
    main()
