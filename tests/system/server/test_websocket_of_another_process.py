"""A websocket that is replaced from another process."""

import threading

from test_websocket_takes_a_place import APPLICATION, REPLACED, closing, connect, register
from waits import PATIENCE_SECONDS

from mirror_server.extensions.streams.websockets import Websockets


def test_one_that_is_replaced_from_another_process_while_it_begins_ends(open_services, hold_writer):
    first, second = open_services(), open_services()
    register(first)
    is_stored, may_begin = threading.Event(), threading.Event()

    def pause():
        is_stored.set()
        may_begin.wait(PATIENCE_SECONDS)

    with hold_writer(first.database):
        first.database.submit(lambda session: session.after_commit(pause))
        old, begun = connect(first)
    try:
        # It is on disk that this is the connection of the channel; nobody knows that yet.
        assert is_stored.wait(PATIENCE_SECONDS)
        new, replaced = connect(second)
        replaced.result(PATIENCE_SECONDS)
        first.part(Websockets).refresh(APPLICATION)
    finally:
        may_begin.set()
    begun.result(PATIENCE_SECONDS)
    for services in (first, second):
        assert services.database.settle(PATIENCE_SECONDS)
    assert [closing(socket) for socket in (old, new)] == [REPLACED, None]
