"""Of the connections of one websocket channel the newest stays, and it alone, in whichever order they are told so."""

import threading
from concurrent.futures import Future

import databases
import pytest

from mirror_sdk.wire.channel import WebsocketRegistration
from mirror_server.config import Settings
from mirror_server.notifications.sockets import Closing
from mirror_server.services import Services

APPLICATION = "app"
PATIENCE_SECONDS = 60


class Pause:
    """Keeps the writer of a database between a commit and the moment at which anybody is told of it."""

    def __init__(self, database):
        self._database = database
        self._is_at_work, self._may_begin = threading.Event(), threading.Event()
        self._is_paused, self._may_end = threading.Event(), threading.Event()
        database.submit(self._keep_at_work)
        assert self._is_at_work.wait(PATIENCE_SECONDS)
        # What is submitted now becomes one transaction, whose first work is told first.
        database.submit(lambda _: None).add_done_callback(self._keep_from_telling)

    def _keep_at_work(self, _):
        self._is_at_work.set()
        self._may_begin.wait(PATIENCE_SECONDS)

    def _keep_from_telling(self, _: Future):
        self._is_paused.set()
        self._may_end.wait(PATIENCE_SECONDS)

    def begin(self):
        self._may_begin.set()
        assert self._is_paused.wait(PATIENCE_SECONDS)

    def end(self):
        self._may_begin.set()
        self._may_end.set()


def closing(socket):
    try:
        socket.look()
    except Closing as found:
        return found.code, found.reason
    return None


REPLACED = (1001, "another connection of this channel was opened")


def connect(services):
    socket = services.websockets.connect(APPLICATION, lambda: True)
    return socket, socket.begin(lambda: None)


def register(services):
    services.websockets.register(APPLICATION, WebsocketRegistration()).result(PATIENCE_SECONDS)


def test_of_two_that_begin_in_one_transaction_the_second_stays(server):
    services = server.services
    register(services)
    pause = Pause(services.database)
    opened = [connect(services) for _ in range(3)]
    pause.end()
    for _, begun in opened:
        begun.result(PATIENCE_SECONDS)
    assert services.database.settle(PATIENCE_SECONDS)
    assert [closing(socket) for socket, _ in opened] == [REPLACED, REPLACED, None]


@pytest.fixture
def pair():
    url = databases.new_postgresql_url()
    opened = [Services(Settings(database_url=url, simulate=0)) for _ in range(2)]
    for services in opened:
        services.start()
    yield opened
    for services in opened:
        services.close()


def test_one_that_is_replaced_from_another_process_while_it_begins_ends(pair):
    first, second = pair
    register(first)
    pause = Pause(first.database)
    old, begun = connect(first)
    try:
        pause.begin()
        # It is on disk that this is the connection of the channel; nobody knows that yet.
        new, replaced = connect(second)
        replaced.result(PATIENCE_SECONDS)
        first.websockets.look_again(APPLICATION)
    finally:
        pause.end()
    begun.result(PATIENCE_SECONDS)
    for services in pair:
        assert services.database.settle(PATIENCE_SECONDS)
    assert [closing(socket) for socket in (old, new)] == [REPLACED, None]
