"""What a websocket costs: it looks now and then, and waits in between; behind the last message it does not look."""

import asyncio
from concurrent.futures import Future

import pytest

from mirror_server.extensions.streams.sockets import Closing, Frame
from mirror_server.extensions.streams.websocket_serving import CONNECTION, serve
from mirror_server.web.asgi import Backpressure, ResponseReader
from mirror_server.web.bridge import LoopCallQueue

MOST_TAKEN = 100


class Log:
    """A socket of a log to which entries are added, each one a message, until its channel is deleted."""

    def __init__(self, *added, there=1, looks=0):
        self.there, self.read = there, 0
        self.added = list(added)
        self.looks = looks
        self.waiting, self.taken = [], []
        self.is_deleted = False

    def begin(self, wake):
        self.wake = wake
        begun = Future()
        begun.set_result(None)
        return begun

    def more(self):
        self.waiting.append(Future())
        return self.waiting[-1]

    def grow(self):
        if not self.added:
            self.is_deleted = True
            self.wake()
        elif number := self.added.pop(0):
            self.there += number
            self.waiting[-1].set_result(None)

    def take(self, more):
        if self.is_deleted and self.read == self.there:
            raise Closing(1001, "deleted")
        self.taken.append(self.read)
        assert len(self.taken) < MOST_TAKEN, "it reads without end"
        if self.read == self.there:
            return None
        self.read += 1
        return Frame(b"%d" % self.read, self.read, is_last=self.read == self.there)

    def look(self):
        self.looks -= 1
        if not self.looks:
            raise Closing(1001, "looked at")

    def confirmed(self, seq):
        """Nothing is kept of it."""

    def close(self):
        self.is_closed = True


class Client:
    """A connection whose log grows while it is sent to, or as soon as the server waits afterwards."""

    is_over = False

    def __init__(self, log, *, is_later=False):
        self.log, self.is_later = log, is_later
        self.sent = []

    def deliver(self, frame):
        self.sent.append(frame.cursor)

    async def drain(self):
        if self.is_later:
            asyncio.get_running_loop().call_soon(self.log.grow)
        else:
            self.log.grow()


def serve_to_the_end(log, client, look_seconds):
    """Serve a websocket until it is closed; return why."""
    ended = []

    async def send(message):
        ended.append(message["reason"])

    async def check():
        reader = ResponseReader(Backpressure(1000), "app", send)
        calls, is_stopping = LoopCallQueue(asyncio.get_running_loop()), asyncio.Event()
        scope = {CONNECTION: client}
        async with asyncio.timeout(60):
            await serve(scope, log, reader, send, look_seconds=look_seconds, is_stopping=is_stopping, calls=calls)

    asyncio.run(check())
    assert log.is_closed
    assert all(more.done() for more in log.waiting)
    return ended


@pytest.mark.parametrize("looks", [1, 5])
def test_idle_websocket_reads_once_for_each_look(looks):
    log = Log(there=0, looks=looks)
    assert serve_to_the_end(log, Client(log), look_seconds=0.01) == ["looked at"]
    assert len(log.taken) == looks


@pytest.mark.parametrize("added", [(), (1,), (1, 1, 1), (3,), (2, 1, 2)])
@pytest.mark.parametrize("is_later", [False, True])
def test_entries_that_come_while_a_message_is_sent_or_later_are_sent_and_nothing_more_is_read(added, is_later):
    log = Log(*added)
    client = Client(log, is_later=is_later)
    # A websocket whose channel is deleted does not wait for the next look either.
    assert serve_to_the_end(log, client, look_seconds=600) == ["deleted"]
    assert client.sent == list(range(1, 2 + sum(added)))
    assert log.taken == list(range(log.there))
