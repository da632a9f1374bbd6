"""Server-sent events under a server that cannot park them, and what a gap looks like. Source: wire.md 4."""

import re

from resource_paths import TEMPERATURE

from mirror_server.extensions.streams import event_stream

EVENTS = "/v2/notification/events"


def test_a_gap_is_an_event_of_its_own(server, key):
    device = server.add_device(key, "sensor-1")
    server.place(key, device, "old", "GET", TEMPERATURE)
    server.advance(key, 25 * 3600)
    server.place(key, device, "new", "GET", TEMPERATURE)
    app_id = key.split("_")[1]
    stream = event_stream.EventStream(server.services.log, app_id, 0)
    text = (stream.begin() + stream.take()).decode()
    first, *_ = text.split("\n\n")[1:]
    assert first == 'id: 2\nevent: gap\ndata: {"first":1,"last":2}'
    assert '"id":"new"' in text
    assert '"id":"old"' not in text


def test_a_plain_wsgi_server_gets_a_stream_that_ends(server, key, monkeypatch):
    monkeypatch.setattr(event_stream, "_LONGEST_SECONDS", 0.05)
    monkeypatch.setattr(event_stream, "HEARTBEAT_SECONDS", 0.01)
    server.add_device(key, "sensor-1")
    answer = server.call(key, "GET", f"{EVENTS}?after=0")
    assert answer.mimetype == "text/event-stream"
    assert answer.headers["X-Accel-Buffering"] == "no", "nginx would gather it"
    text = answer.get_data(as_text=True)
    assert text.startswith("retry: 2000\n\nid: 1\nevent: registrations\ndata: {")
    assert text.endswith(": still here\n\n")


def test_a_stream_begins_behind_the_last_event_of_its_client_or_at_the_end(server, key, refused, monkeypatch):
    monkeypatch.setattr(event_stream, "_LONGEST_SECONDS", 0)
    for number in range(3):
        server.add_device(key, f"sensor-{number}")

    def ids(query="", **headers):
        answer = server.call(key, "GET", f"{EVENTS}{query}", headers=headers)
        return re.findall(r"id: (\d+)", answer.get_data(as_text=True))

    assert ids() == []
    assert ids("?after=1") == ["2", "3"]
    # A client that comes back repeats its URL.
    assert ids("?after=0", **{"Last-Event-ID": "2"}) == ["3"]
    refused(server.call(key, "GET", EVENTS, headers={"Last-Event-ID": "x"}), 400, "Last-Event-ID")


def test_many_events_are_sent_in_parts(server, key, monkeypatch):
    monkeypatch.setattr(event_stream, "_MOST_AT_ONCE", 2)
    for number in range(5):
        server.add_device(key, f"sensor-{number}")
    stream = event_stream.EventStream(server.services.log, key.split("_")[1], 0)
    assert [stream.take().count(b"event: ") for _ in range(4)] == [2, 2, 1, 0]
