"""The newest connection of a websocket channel stays, and starts after the position of the channel.

The order of the effects of a transaction does not matter.
"""

import threading

from waits import PATIENCE_SECONDS

from mirror_sdk.wire.channel import WebsocketRegistration
from mirror_server.extensions.streams.reader_websockets import Closing
from mirror_server.extensions.streams.websocket_channels import WebsocketChannels

APPLICATION = "app"


def closing(socket):
    try:
        socket.check()
    except Closing as found:
        return found.code, found.reason
    return None


REPLACED = (1001, "another connection of this channel was opened")


def connect(services):
    socket = services.part(WebsocketChannels).connect(APPLICATION, lambda: True)
    return socket, socket.connect(lambda: None)


def connected(services):
    socket, started = connect(services)
    started.result(PATIENCE_SECONDS)
    assert services.database.settle(PATIENCE_SECONDS)
    return socket


def register(services):
    services.part(WebsocketChannels).register(APPLICATION, WebsocketRegistration()).result(PATIENCE_SECONDS)


def test_last_of_several_websockets_opened_in_one_transaction_remains(server, hold_writer):
    services = server.services
    register(services)
    with hold_writer(services.database):
        opened = [connect(services) for _ in range(3)]
    for _, started in opened:
        started.result(PATIENCE_SECONDS)
    assert services.database.settle(PATIENCE_SECONDS)
    assert [closing(socket) for socket, _ in opened] == [REPLACED, REPLACED, None]


def test_connection_that_begins_while_the_channel_is_queried_stays(server, monkeypatch):
    services = server.services
    register(services)
    opened = [connected(services)]
    query = services.database.query

    def query_before_another_begins(statement):
        monkeypatch.undo()
        found = query(statement)
        opened.append(connected(services))
        return found

    monkeypatch.setattr(services.database, "query", query_before_another_begins)
    services.part(WebsocketChannels).refresh(APPLICATION)
    assert services.database.settle(PATIENCE_SECONDS)
    assert [closing(socket) for socket in opened] == [REPLACED, None]


def test_websocket_starts_after_its_position_before_other_effects_of_the_transaction(server, hold_writer):
    services, database = server.services, server.services.database
    services.log.ensure_log(APPLICATION)
    register(services)

    def add():
        body = {"ep": "d"}
        database.write(lambda session: services.log.append(session, "registrations", [(APPLICATION, "d", body)]))

    add()
    first = connected(services)
    first.confirm(first.next_frame(None).cursor)
    assert database.settle(PATIENCE_SECONDS)
    add()
    may_end = threading.Event()
    with hold_writer(database):
        database.submit(lambda session: session.after_commit(lambda: may_end.wait(PATIENCE_SECONDS)))
        second, started = connect(services)
    try:
        started.result(PATIENCE_SECONDS)
        frame = second.next_frame(None)
        assert (frame.cursor, frame.text.count(b'"ep"')) == (2, 1)
    finally:
        may_end.set()
