"""What an idle websocket costs: it looks now and then, and waits in between."""

import asyncio
from concurrent.futures import Future

import pytest

from mirror_server.notifications.sockets import Closing
from mirror_server.web.unread import Unread
from mirror_server.web.websocket_serving import CONNECTION, serve

LOOK_SECONDS = 0.01
MOST_TAKEN = 100


class Idle:
    """A socket for which nothing comes; it is closed when it has been looked at so often."""

    def __init__(self, looks):
        self.looks = looks
        self.looked = self.taken = 0
        self.waiting = []

    def begin(self, wake):
        begun = Future()
        begun.set_result(None)
        return begun

    def more(self):
        self.waiting.append(Future())
        return self.waiting[-1]

    def take(self, more):
        self.taken += 1
        if self.taken == MOST_TAKEN:
            raise Closing(1011, "it reads without end")

    def look(self):
        self.looked += 1
        if self.looked == self.looks:
            raise Closing(1001, "looked at")

    def confirmed(self, seq):
        raise AssertionError("nothing was sent")

    def close(self):
        self.closed = True


class Connection:
    is_over = False

    def on_end(self):
        """Replaced."""


@pytest.mark.parametrize("looks", [1, 5])
def test_idle_websocket_reads_once_for_each_look(looks):
    socket, sent = Idle(looks), []

    async def send(message):
        sent.append(message)

    async def check():
        reader = Unread(1000).reader("app", send)
        scope = {CONNECTION: Connection()}
        await serve(scope, socket, reader, send, look_seconds=LOOK_SECONDS, is_stopping=asyncio.Event())

    asyncio.run(check())
    assert sent == [{"type": "websocket.close", "code": 1001, "reason": "looked at"}]
    assert socket.taken == looks
    assert all(more.cancelled() for more in socket.waiting)
    assert socket.closed
