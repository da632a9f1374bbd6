"""A websocket channel without a websocket is removed after 24 hours. Source: wire.md 4."""

import pytest

from mirror_server.extensions.streams.reader_websockets import Closing
from mirror_server.extensions.streams.websocket_channels import WebsocketChannels

CHANNEL = "/v2/notification/websocket"
PULL = "/v2/notification/pull"
HOUR = 3600
DAY = 24 * HOUR
# Expired channels are removed once an hour.
AT_LATEST = HOUR


def register(server, key):
    return server.call(key, "PUT", CHANNEL).status_code


def state(server, key):
    """Return the state of the channel; ``None`` if there is none."""
    answer = server.call(key, "GET", CHANNEL)
    assert answer.status_code in (200, 404)
    return answer.json["status"] if answer.status_code == 200 else None


@pytest.fixture
def connect(server):
    """Connect and return a channel, like a websocket does."""

    def begin(key):
        socket = server.services.part(WebsocketChannels).connect(key.split("_")[1], lambda: True)
        socket.connect(lambda: None).result(60)
        return socket

    return begin


def close(server, socket):
    socket.close()
    assert server.services.database.settle(60)


def test_unused_channel_is_stored_for_a_day_after_its_last_registration(server, key, connect):
    assert register(server, key) == 201
    for _ in range(2):
        server.advance(key, DAY)
        assert state(server, key) == "disconnected"
        assert register(server, key) == 200
    server.advance(key, DAY)
    assert state(server, key) == "disconnected"
    server.advance(key, AT_LATEST)
    assert state(server, key) is None
    with pytest.raises(Closing, match="no websocket channel"):
        connect(key)
    # The key may have a channel of any type again.
    assert server.call(key, "GET", f"{PULL}?hold=0").status_code == 204
    assert server.call(key, "DELETE", PULL).status_code == 204
    device = server.add_device(key, "late")
    assert register(server, key) == 201
    assert device.encode() in connect(key).next_frame(None).text


def test_websocket_channel_is_removed_a_day_after_its_last_websocket_closes(server, key, connect):
    register(server, key)
    replaced, socket = connect(key), connect(key)
    close(server, replaced)
    server.advance(key, 3 * DAY)
    assert state(server, key) == "connected"
    close(server, socket)
    assert state(server, key) == "disconnected"
    server.advance(key, DAY)
    assert state(server, key) == "disconnected"
    server.advance(key, AT_LATEST)
    assert state(server, key) is None


def test_websocket_closed_by_a_restart_counts_until_the_restart(server, key, connect):
    register(server, key)
    connect(key)
    server.advance(key, 2 * DAY)
    server.restart()
    assert state(server, key) == "disconnected"
    server.advance(key, DAY)
    assert state(server, key) == "disconnected"
    server.advance(key, 2 * AT_LATEST)
    assert state(server, key) is None


def test_channels_that_expired_while_the_server_was_down_are_removed_at_its_start(server, key, restart_later):
    register(server, key)
    restart_later(DAY + 1)
    assert state(server, key) is None


def test_channels_of_other_keys_remain(server, key, other):
    register(server, key)
    server.advance(key, HOUR)
    register(server, other)
    server.advance(key, DAY)
    assert (state(server, key), state(server, other)) == (None, "disconnected")
