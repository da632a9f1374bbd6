"""What a websocket costs: it looks now and then, and waits in between; behind the last message it does not look."""

import asyncio
from concurrent.futures import Future

import pytest

from mirror_server.notifications.sockets import Closing, Frame
from mirror_server.web.calls import Calls
from mirror_server.web.unread import Unread
from mirror_server.web.websocket_serving import CONNECTION, serve

LOOK_SECONDS = 0.01
MOST_TAKEN = 100


class Loop(asyncio.SelectorEventLoop):
    """Its time passes where nothing else is left to do: however slow the machine is, no look comes too soon."""

    def __init__(self):
        super().__init__()
        self.seconds = 0.0
        select = self._selector.select

        def pass_time(timeout=None):
            if not timeout:
                return select(timeout)
            # A little more, for what is lost when it is rounded.
            self.seconds += timeout + 1e-6
            return select(0)

        self._selector.select = pass_time

    def time(self):
        return self.seconds


def run(main):
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(main)


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
        calls = Calls(asyncio.get_running_loop())
        await serve(scope, socket, reader, send, look_seconds=LOOK_SECONDS, is_stopping=asyncio.Event(), calls=calls)

    run(check())
    assert sent == [{"type": "websocket.close", "code": 1001, "reason": "looked at"}]
    assert socket.taken == looks
    assert all(more.cancelled() for more in socket.waiting)
    assert socket.closed


class Log:
    """A socket of a log to which entries are added, each one a message; it is closed when all were read."""

    def __init__(self, *added):
        self.there, self.read = 1, 0
        self.added = list(added)
        self.waiting = []
        self.taken = []

    def begin(self, wake):
        begun = Future()
        begun.set_result(None)
        return begun

    def more(self):
        self.waiting.append(Future())
        return self.waiting[-1]

    def grow(self):
        number = self.added.pop(0) if self.added else 0
        self.there += number
        if number:
            self.waiting[-1].set_result(None)

    def take(self, more):
        self.taken.append(self.read)
        if self.read == self.there:
            return None
        self.read += 1
        return Frame(b"%d" % self.read, self.read, is_last=self.read == self.there)

    def look(self):
        raise Closing(1001, "nothing came")

    def confirmed(self, seq):
        """Nothing is kept of it."""

    def close(self):
        """Nothing is left."""


class Client:
    """A connection whose log grows while it is sent to, or waits afterwards."""

    is_over = False

    def __init__(self, log, *, is_later=False):
        self.log = log
        self.is_later = is_later
        self.sent = []

    def deliver(self, frame):
        self.sent.append(frame.cursor)

    async def drain(self):
        if self.is_later:
            asyncio.get_running_loop().call_soon(self.log.grow)
        else:
            self.log.grow()


def serve_until_nothing_comes(log, client):
    async def send(message):
        """Of the end."""

    async def check():
        reader = Unread(1000).reader("app", send)
        calls = Calls(asyncio.get_running_loop())
        stopping = asyncio.Event()
        await serve(
            {CONNECTION: client}, log, reader, send, look_seconds=LOOK_SECONDS, is_stopping=stopping, calls=calls
        )

    run(check())
    assert client.sent == list(range(1, log.there + 1))
    assert all(more.done() for more in log.waiting)


@pytest.mark.parametrize("added", [(), (1,), (1, 1, 1), (3,), (2, 0, 2)])
def test_behind_the_last_message_nothing_is_read_until_something_comes(added):
    log = Log(*added)
    serve_until_nothing_comes(log, Client(log, is_later=True))
    assert log.taken == list(range(log.there))


@pytest.mark.parametrize("added", [(1,), (1, 1, 1), (3,), (2, 0, 2)])
def test_what_comes_while_a_message_is_sent_is_sent_too(added):
    log = Log(*added)
    serve_until_nothing_comes(log, Client(log))
    assert log.added == []


def test_one_that_is_to_end_while_a_message_is_sent_ends_before_the_next_look():
    log = Log()
    ended = []

    def begin(wake):
        log.wake = wake
        begun = Future()
        begun.set_result(None)
        return begun

    class Taking(Client):
        async def drain(self):
            # Its channel is deleted at this moment.
            log.take = lambda _: (_ for _ in ()).throw(Closing(1001, "deleted"))
            log.wake()

    async def send(message):
        ended.append(message["reason"])

    async def check():
        log.begin = begin
        reader = Unread(1000).reader("app", send)
        calls = Calls(asyncio.get_running_loop())
        async with asyncio.timeout(60):
            await serve(
                {CONNECTION: Taking(log)}, log, reader, send, look_seconds=60, is_stopping=asyncio.Event(), calls=calls
            )

    asyncio.run(check())
    assert ended == ["deleted"]
