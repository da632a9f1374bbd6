"""An idle websocket reads the log only at its checks, and not after the last message."""

import asyncio
from concurrent.futures import Future

import pytest

from mirror_server.extensions.streams.reader_websockets import Closing, Frame
from mirror_server.extensions.streams.websocket_serving import CONNECTION, serve
from mirror_server.web.asgi_bridge import LoopCallQueue
from mirror_server.web.wsgi_adapter import Backpressure, ResponseReader

MAX_READS = 100


class Log:
    """A socket of a log that grows, one message per entry, until its channel is deleted."""

    def __init__(self, *added, there=1, checks=0):
        self.there, self.read = there, 0
        self.added = list(added)
        self.checks = checks
        self.waiting, self.positions = [], []
        self.is_deleted = False

    def connect(self, wake):
        self.wake = wake
        connected = Future()
        connected.set_result(None)
        return connected

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

    def next_frame(self, more):
        if self.is_deleted and self.read == self.there:
            raise Closing(1001, "deleted")
        self.positions.append(self.read)
        assert len(self.positions) < MAX_READS, "it reads without end"
        if self.read == self.there:
            return None
        self.read += 1
        return Frame(b"%d" % self.read, self.read, is_last=self.read == self.there)

    def check(self):
        self.checks -= 1
        if not self.checks:
            raise Closing(1001, "checked")

    def confirm(self, seq):
        """Ignore the confirmation."""

    def close(self):
        self.is_closed = True


class Client:
    """A connection whose log grows during a send, or as soon as the server waits afterwards."""

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


def serve_until_closed(log, client, check_seconds):
    """Serve a websocket until it is closed; return the reasons."""
    ended = []

    async def send(message):
        ended.append(message["reason"])

    async def check():
        reader = ResponseReader(Backpressure(1000), "app", send)
        calls, is_stopping = LoopCallQueue(asyncio.get_running_loop()), asyncio.Event()
        scope = {CONNECTION: client}
        async with asyncio.timeout(60):
            await serve(
                scope, log, reader, send, check_seconds=check_seconds, is_stopping=is_stopping, loop_calls=calls
            )

    asyncio.run(check())
    assert log.is_closed
    assert all(more.done() for more in log.waiting)
    return ended


@pytest.mark.parametrize("checks", [1, 5])
def test_idle_websocket_reads_once_per_check(checks):
    log = Log(there=0, checks=checks)
    assert serve_until_closed(log, Client(log), check_seconds=0.01) == ["checked"]
    assert len(log.positions) == checks


@pytest.mark.parametrize("added", [(), (1,), (1, 1, 1), (3,), (2, 1, 2)])
@pytest.mark.parametrize("is_later", [False, True])
def test_entries_added_during_or_after_a_send_are_sent_without_extra_reads(added, is_later):
    log = Log(*added)
    client = Client(log, is_later=is_later)
    # A websocket whose channel is deleted does not wait for the next check either.
    assert serve_until_closed(log, client, check_seconds=600) == ["deleted"]
    assert client.sent == list(range(1, 2 + sum(added)))
    assert log.positions == list(range(log.there))
