"""Server-sent events over a real socket: the log as a stream, from any position, over a restart."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from process_server import Application, ServerProcess

pytestmark = pytest.mark.process

EVENTS = "/v2/notification/events"
TEMPERATURE = {"path": "/3303/0/5700", "value": "21.5", "observable": True}


def events(lines: Iterator[str]) -> Iterator[tuple[int, str, Any]]:
    """Number, name and data of each event; comments and the retry line are left out."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line and name:
            fields[name] = value
        elif not line and "data" in fields:
            yield int(fields["id"]), fields["event"], json.loads(fields["data"])
            fields = {}


def read(application: Application, count: int, **headers: str) -> list[tuple[int, str, Any]]:
    """So many events from a stream that is then left."""
    with application.http.stream("GET", EVENTS, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        stream = events(answer.iter_lines())
        return [next(stream) for _ in range(count)]


def test_entries_come_as_events_when_they_happen(application: Application) -> None:
    device_id = application.add_device("streamed-1", TEMPERATURE)
    with application.http.stream("GET", EVENTS) as answer:
        stream = events(answer.iter_lines())
        application.read(device_id, "/3303/0/5700", "first")
        seq, name, data = next(stream)
        assert (name, data["id"], data["status"]) == ("async-responses", "first", 200)
        assert data["uid"]
        application.read(device_id, "/3303/0/5700", "second")
        assert [(seq + 1, "second")] == [(number, data["id"]) for number, _, data in [next(stream)]]


def test_a_client_that_comes_back_goes_on_behind_its_last_event(application: Application) -> None:
    device_id = application.add_device("streamed-2", TEMPERATURE)
    for number in range(5):
        application.read(device_id, "/3303/0/5700", f"r{number}")
    application.response("r4")
    every = read(application, 6, **{"Last-Event-ID": "0"})
    assert [seq for seq, _, _ in every] == [1, 2, 3, 4, 5, 6]
    assert [data["id"] for _, _, data in read(application, 2, **{"Last-Event-ID": "4"})] == ["r3", "r4"]


@pytest.mark.parametrize("last_event_id", ["x", "-1", "999999"])
def test_a_position_that_is_none_is_refused(application: Application, last_event_id: str) -> None:
    answer = application.http.get(EVENTS, headers={"Last-Event-ID": last_event_id})
    assert answer.status_code == 400
    assert answer.json()["fields"]


def test_a_stream_ends_when_the_server_stops(start_server: Any) -> None:
    server: ServerProcess = start_server("--simulate", "0", "--clock", "manual")
    application = server.application()
    with application.http.stream("GET", EVENTS) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("retry:")
        server.child.send(15)
        assert not [line for line in lines if line]
    assert server.child.wait() == 0
