"""A websocket is a channel type of a key, and a stream is another reader of its log."""

from mirror_server.extensions.streams.event_stream import EventStream
from tests.server.webhook.conftest import *  # noqa: F403 - fixtures
from tests.server.webhook.test_webhook import CALLBACK, PULL, check_no_webhook_next_to, check_one_type_of_channel
from tests.server.webhook.test_webhook_start import arrived, register

WEBSOCKET = "/v2/notification/websocket"


def test_websocket_and_other_channel_types_exclude_each_other(server, key, endpoint):
    channels = {PULL: "LONG_POLLING", CALLBACK: "CALLBACK", WEBSOCKET: "WEBSOCKET"}
    check_one_type_of_channel(server, key, endpoint, channels)


def test_webhook_is_rejected_if_a_websocket_was_registered_during_its_test_call(server, key, endpoint):
    assert server.call(key, "PUT", WEBSOCKET).status_code == 201
    check_no_webhook_next_to(server, key, endpoint, WEBSOCKET)


def test_key_without_a_channel_gets_the_steps_to_open_a_websocket(server, key):
    message = server.call(key, "GET", "/v2/notification/channel").json["message"]
    assert message.endswith(
        " a PUT to /v2/notification/callback registers a webhook, one to /v2/notification/websocket a websocket"
    )


def test_webhook_starts_after_the_entries_that_a_stream_sent(server, key, endpoint):
    server.add_device(key, "by a stream")
    assert b"by a stream" in EventStream(server.services.log, key.split("_")[1], 0).first_events()
    register(server, key, endpoint)
    server.add_device(key, "new")
    assert arrived(endpoint, "new") == ["new"]
