"""Of the connections of one websocket channel the newest stays, and it alone, in whichever order they are told so."""

import threading
from concurrent.futures import Future

from mirror_sdk.wire.channel import WebsocketRegistration
from mirror_server.notifications.sockets import Closing

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


def test_connection_that_begins_while_the_channel_is_queried_stays(server, monkeypatch):
    services = server.services
    register(services)
    old, begun = connect(services)
    begun.result(PATIENCE_SECONDS)
    assert services.database.settle(PATIENCE_SECONDS)
    query, opened = services.database.look, [old]

    def query_before_another_begins(statement):
        monkeypatch.undo()
        found = query(statement)
        new, begun = connect(services)
        begun.result(PATIENCE_SECONDS)
        opened.append(new)
        return found

    monkeypatch.setattr(services.database, "look", query_before_another_begins)
    services.websockets.look_again(APPLICATION)
    assert services.database.settle(PATIENCE_SECONDS)
    assert [closing(socket) for socket in opened] == [REPLACED, None]
