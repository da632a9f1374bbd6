"""Server-sent events: their content, and the start and end of a stream. Source: wire.md 4."""

import re

import orjson
import pytest
from resource_paths import TEMPERATURE

from mirror_server.extensions.streams import event_stream
from tests.server.interface.test_immediate_poll_responses import Poll, check_unread

EVENTS = "/v2/notification/events"


def test_gap_is_sent_as_a_separate_event(server, key):
    device = server.add_device(key, "sensor-1")
    server.submit(key, device, "old", "GET", TEMPERATURE)
    server.advance(key, 25 * 3600)
    server.submit(key, device, "new", "GET", TEMPERATURE)
    app_id = key.split("_")[1]
    stream = event_stream.EventStream(server.services.log, app_id, 0)
    text = (stream.first_events() + stream.next_events()).decode()
    first, *_ = text.split("\n\n")[1:]
    assert first == 'id: 2\nevent: gap\ndata: {"first":1,"last":2}'
    assert '"id":"new"' in text
    assert '"id":"old"' not in text


def test_stream_under_a_plain_wsgi_server_ends_after_its_time_limit(server, key, monkeypatch):
    monkeypatch.setattr(event_stream, "_LONGEST_SECONDS", 0.05)
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.01)
    server.add_device(key, "sensor-1")
    answer = server.call(key, "GET", f"{EVENTS}?after=0")
    assert answer.mimetype == "text/event-stream"
    assert answer.headers["X-Accel-Buffering"] == "no", "nginx would gather it"
    text = answer.get_data(as_text=True)
    assert text.startswith("retry: 2000\n\nid: 1\nevent: registrations\ndata: {")
    assert text.endswith(": still here\n\n")


def test_stream_starts_after_the_last_event_of_its_client_or_at_the_end(server, key, check_error, monkeypatch):
    monkeypatch.setattr(event_stream, "_LONGEST_SECONDS", 0)
    for number in range(3):
        server.add_device(key, f"sensor-{number}")

    def ids(query="", **headers):
        answer = server.call(key, "GET", f"{EVENTS}{query}", headers=headers)
        return re.findall(r"id: (\d+)", answer.get_data(as_text=True))

    assert ids() == []
    assert ids("?after=1") == ["2", "3"]
    # A client that reconnects repeats its URL.
    assert ids("?after=0", **{"Last-Event-ID": "2"}) == ["3"]
    check_error(server.call(key, "GET", EVENTS, headers={"Last-Event-ID": "x"}), 400, "Last-Event-ID")


def test_many_events_are_sent_in_several_chunks(server, key, monkeypatch):
    monkeypatch.setattr(event_stream, "_MAX_EVENTS", 2)
    for number in range(5):
        server.add_device(key, f"sensor-{number}")
    stream = event_stream.EventStream(server.services.log, key.split("_")[1], 0)
    assert [stream.next_events().count(b"event: ") for _ in range(4)] == [2, 2, 1, 0]


def test_entries_of_a_stream_equal_those_of_a_poll(server, key, device):
    server.registration(key, device, "DELETE")
    stream = server.call(key, "GET", f"{EVENTS}?after=0", buffered=False).response
    events = next(stream).decode().split("\n\n")
    data = [orjson.loads(event.split("data: ")[1]) for event in events if "data: " in event]
    message = server.call(key, "GET", "/v2/notification/pull?after=0&hold=0").json
    assert data == [*message["registrations"], *message["de-registrations"]]


def test_only_the_issuer_gets_the_reason_of_a_failure(server, key, other, device):
    server.patch(key, device, answer="reject")
    server.submit(key, device, "w", "PUT", TEMPERATURE, value="30")
    (category,) = (category for _, category in server.responses(key).values())
    for reader, has_reason in ((key, True), (other, False)):
        stream = event_stream.EventStream(server.services.log, reader.split("_")[1], 0)
        assert (category.encode() in stream.first_events()) == has_reason


def test_position_beyond_the_log_is_named_in_the_error(server, key, device, check_error):
    for beyond in ("2", "999999", str(10**17)):
        error = check_error(server.call(key, "GET", f"{EVENTS}?after={beyond}"), 400, "after")
        assert error.reason == "CURSOR_BEYOND_LOG"
        assert "latest" in error.message
        error = check_error(server.call(key, "GET", EVENTS, headers={"Last-Event-ID": beyond}), 400, "Last-Event-ID")
        assert error.reason == "CURSOR_BEYOND_LOG"


@pytest.mark.anyio
@pytest.mark.parametrize("has_room", [True, False])
async def test_entry_that_a_disconnected_client_was_not_sent_is_unread(server, key, bridge, has_room):
    await check_unread(server, key, bridge, Poll(bridge, key, b"after=latest", path=EVENTS), has_room)
