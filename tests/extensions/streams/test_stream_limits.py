"""An event stream counts as an open poll, and is produced no faster than its client reads it."""

from functools import partial

import pytest
from asgi_requests import Request, append, assert_429, limited_bridge, until
from unread_responses import check_production_stops

from mirror_server.config import Settings
from mirror_server.extensions.streams.event_stream import HEARTBEAT
from mirror_server.store import maintenance
from mirror_server.web.asgi_bridge import ASGIBridge
from mirror_server.web.wsgi_adapter import ResponseReader

EVENTS = "/v2/notification/events"
STREAM = (EVENTS, b"")
POLL = ("/v2/notification/pull", b"after=latest&hold=55")
MOST = 2


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "status"), [(POLL, None), (STREAM, 200)])
async def test_streams_and_polls_share_the_slots(server, kind, status):
    bridge = ASGIBridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=MOST))
    open_requests = [await Request(bridge, server.key(), *each).begin() for each in (POLL, STREAM)]
    assert [each.status for each in open_requests] == [None, 200]
    assert_429(await Request(bridge, server.key(), *kind).begin(), "TOO_MANY_POLLS")
    await open_requests[0].leave()
    again = await Request(bridge, server.key(), *kind).begin()
    assert again.status == status
    for each in (open_requests[1], again):
        await each.leave()


@pytest.mark.parametrize(
    ("share", "expected_message"), [(1.0, ""), (0.5, "this key has 2 open polls, streams and websockets")]
)
def test_excess_stream_that_blocks_a_thread_is_429(new_server, open_poll, check_error, share, expected_message):
    small = new_server(max_blocking_polls=round(MOST / share), poll_share=share)
    key = small.key()
    polls = [open_poll(key, "after=latest&hold=50", small) for _ in range(MOST)]
    error = check_error(small.call(key, "GET", EVENTS), 429)
    assert error.reason == "TOO_MANY_POLLS"
    assert expected_message in error.message
    small.services.log.wake(key.split("_")[1])
    assert [poll.result(30).status_code for poll in polls] == [204] * MOST


def test_closed_stream_makes_room_for_another(new_server):
    small = new_server(max_blocking_polls=MOST)
    key = small.key()
    for _ in range(3 * MOST):
        stream = small.call(key, "GET", EVENTS)
        assert stream.status_code == 200
        stream.close()


@pytest.mark.anyio
async def test_client_that_leaves_a_stream_unread_gets_no_other(server, monkeypatch):
    bridge, key = limited_bridge(server)
    with ResponseReader(bridge.backpressure, key.split("_")[1], None).counting(200_000):
        assert_429(await Request(bridge, key, *STREAM).begin(), "TOO_MUCH_UNREAD")
    await check_production_stops(bridge, key, (EVENTS, b"after=0"), monkeypatch)


@pytest.mark.anyio
async def test_stream_sends_heartbeats_until_its_log_is_deleted(server, bridge, monkeypatch):
    monkeypatch.setattr("mirror_server.extensions.streams.event_stream.HEARTBEAT_SECONDS", 0.01)
    key = server.key()
    end_application = partial(
        maintenance.end_application, app_id=key.split("_")[1], storages=server.services.database.storages
    )
    server.add_device(key, "d")

    stream = await Request(bridge, key, *STREAM).begin()
    await until(lambda: [message.get("body") for message in stream.sent].count(HEARTBEAT) >= 2)
    server.services.database.write(end_application)
    await stream.end()
    assert stream.sent[-1] == {"type": "http.response.body", "body": b""}
    # Later entries of the application are dropped.
    append(server, key, {"ep": "late"})
