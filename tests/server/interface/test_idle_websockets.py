"""What a websocket costs: it looks now and then, and waits in between; behind the last message it does not look."""

import asyncio
from concurrent.futures import Future

import pytest

from mirror_server.notifications.sockets import Closing, Frame
from mirror_server.web.calls import Calls
from mirror_server.web.unread import Unread
from mirror_server.web.websocket_serving import CONNECTION, serve

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


class Log:
    """A socket of a log to which entries are added, each one a message; it is closed when it was looked at so often."""

    def __init__(self, *added, there=1, looks=1):
        self.there, self.read = there, 0
        self.added = list(added)
        self.looks = looks
        self.waiting = []
        self.taken = []

    def begin(self, wake):
        self.wake = wake
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
    """A connection that does something while it is sent to, or as soon as the server waits afterwards."""

    is_over = False

    def __init__(self, act=None, *, is_later=False):
        self.act = act
        self.is_later = is_later
        self.sent = []

    def deliver(self, frame):
        self.sent.append(frame.cursor)

    async def drain(self):
        if self.is_later:
            asyncio.get_running_loop().call_soon(self.act)
        else:
            self.act()


def serve_to_the_end(log, client, look_seconds=0.01):
    """Serve a websocket until it is closed; return why."""
    ended = []

    async def send(message):
        ended.append((message["code"], message["reason"]))

    async def check():
        reader = Unread(1000).reader("app", send)
        calls, is_stopping = Calls(asyncio.get_running_loop()), asyncio.Event()
        scope = {CONNECTION: client}
        async with asyncio.timeout(look_seconds * MOST_TAKEN):
            await serve(scope, log, reader, send, look_seconds=look_seconds, is_stopping=is_stopping, calls=calls)

    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(check())
    assert log.is_closed
    assert all(more.done() for more in log.waiting)
    ((code, reason),) = ended
    assert code == 1001
    return reason


@pytest.mark.parametrize("looks", [1, 5])
def test_idle_websocket_reads_once_for_each_look(looks):
    log = Log(there=0, looks=looks)
    assert serve_to_the_end(log, Client()) == "looked at"
    assert len(log.taken) == looks


@pytest.mark.parametrize("added", [(), (1,), (1, 1, 1), (3,), (2, 0, 2)])
@pytest.mark.parametrize("is_later", [False, True])
def test_entries_that_come_while_a_message_is_sent_or_later_are_sent_and_nothing_more_is_read(added, is_later):
    log = Log(*added)
    client = Client(log.grow, is_later=is_later)
    serve_to_the_end(log, client)
    assert client.sent == list(range(1, log.there + 1))
    assert log.added == []
    if is_later:
        assert log.taken == list(range(log.there))


def test_one_that_is_to_end_while_a_message_is_sent_ends_before_the_next_look():
    log = Log()

    def take_from_a_deleted_channel(_):
        raise Closing(1001, "deleted")

    def delete_the_channel():
        log.take = take_from_a_deleted_channel
        log.wake()

    assert serve_to_the_end(log, Client(delete_the_channel), look_seconds=60) == "deleted"
