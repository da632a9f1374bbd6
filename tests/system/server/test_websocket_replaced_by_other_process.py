"""A websocket that is replaced from another process."""

import threading

from test_websocket_replacement import APPLICATION, REPLACED, closing, connect, register
from waits import PATIENCE_SECONDS

from mirror_server.extensions.streams.websocket_channels import WebsocketChannels


def test_websocket_replaced_from_another_process_while_opening_is_closed(open_services, hold_writer):
    first, second = open_services(), open_services()
    register(first)
    is_stored, may_open = threading.Event(), threading.Event()

    def pause():
        is_stored.set()
        may_open.wait(PATIENCE_SECONDS)

    with hold_writer(first.database):
        first.database.submit(lambda session: session.after_commit(pause))
        old, opened = connect(first)
    try:
        # The connection of the channel is stored, but not yet known to the process.
        assert is_stored.wait(PATIENCE_SECONDS)
        new, replaced = connect(second)
        replaced.result(PATIENCE_SECONDS)
        first.part(WebsocketChannels).refresh(APPLICATION)
    finally:
        may_open.set()
    opened.result(PATIENCE_SECONDS)
    for services in (first, second):
        assert services.database.settle(PATIENCE_SECONDS)
    assert [closing(socket) for socket in (old, new)] == [REPLACED, None]
