"""A stream or a websocket ends with the key that opened it."""

import threading

import pytest
from operator_commands import done

from mirror_server.extensions.streams import event_stream
from mirror_server.extensions.streams.reader_websockets import Closing, ReaderSocket
from mirror_server.extensions.streams.websocket_channels import WebsocketChannels


@pytest.fixture
def app_id(key):
    return key.split("_")[1]


def test_stream_ends_when_its_key_is_revoked(server, key, app_id, monkeypatch):
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0)
    headers = {"Authorization": f"Bearer {key}"}
    stream = iter(server.app.test_client().get("/v2/notification/events", headers=headers, buffered=False).response)
    assert b"retry" in next(stream)
    done(server.settings.database_url, "keys", "renew", app_id, "--overlap", "0")
    assert b"".join(stream).replace(b": still here\n\n", b"") == b""


def test_revoked_key_receives_nothing_over_websocket_or_stream(server, key, app_id):
    services, is_ended = server.services, threading.Event()
    assert server.call(key, "PUT", "/v2/notification/websocket").status_code == 201

    def is_admitted() -> bool:
        return not is_ended.is_set()

    reader = ReaderSocket(services.log, app_id, 0, is_admitted=is_admitted, frame_of=lambda page: page)
    stream = event_stream.EventStream(services.log, app_id, 0, is_admitted)
    sockets = [services.part(WebsocketChannels).connect(app_id, is_admitted), reader]
    for socket in sockets:
        socket.connect(lambda: None).result(60)
    server.add_device(key, "sensor-1")
    is_ended.set()
    for socket in sockets:
        with pytest.raises(Closing, match="revoked"):
            socket.next_frame(None)
    assert (stream.next_events(), stream.is_over) == (b"", True)


def test_stream_ends_if_the_log_of_a_revoked_key_was_deleted(server, key, app_id):
    server.add_device(key, "sensor-1")
    stream = event_stream.EventStream(server.services.log, app_id, server.services.log.last_seq(app_id))
    done(server.settings.database_url, "keys", "revoke", app_id)
    server.add_device(key, "sensor-2")
    assert (stream.next_events(), stream.is_over) == (b"", True)
