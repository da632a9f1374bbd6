"""What the bridge bounds: the polls that are parked, and the time a body may take."""

import asyncio
import json

import pytest

from mirror_server.bridge import Bridge
from mirror_server.store import maintenance
from mirror_server.views.event_stream import HEARTBEAT

MOST = 2
POLL = ("/v2/notification/pull", b"after=latest&hold=20")
STREAM = ("/v2/notification/events", b"")


@pytest.fixture
def bridge(server):
    return Bridge(server.app, max_body_bytes=1000, max_parked_polls=MOST, body_timeout_seconds=0.05)


class Request:
    """A request on its way through the bridge; its client stays until it is told to leave."""

    def __init__(self, bridge, key, path, query=b"", method="GET", body=b""):
        headers = [(b"authorization", f"Bearer {key}".encode()), (b"content-type", b"application/json")]
        self.sent = []
        self.gone = asyncio.Event()
        self._bodies = [] if body is None else [{"type": "http.request", "body": body, "more_body": False}]
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query,
            "http_version": "1.1",
            "scheme": "http",
            "headers": headers,
        }
        self.task = asyncio.ensure_future(bridge(scope, self._receive, self._send))

    async def _receive(self):
        if self._bodies:
            return self._bodies.pop()
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message):
        self.sent.append(message)

    @property
    def status(self):
        return self.sent[0]["status"] if self.sent else None

    async def begin(self):
        """Let it come as far as it can."""
        for _ in range(5):
            await asyncio.sleep(0)
        return self

    async def leave(self):
        self.gone.set()
        await self.task


@pytest.mark.parametrize("kind", [POLL, STREAM])
def test_one_poll_too_many_is_refused_until_another_has_left(server, bridge, kind):
    async def check():
        held = [
            await Request(bridge, server.key(), *POLL).begin(),
            await Request(bridge, server.key(), *STREAM).begin(),
        ]
        assert [each.status for each in held] == [None, 200]
        refused = await Request(bridge, server.key(), *kind).begin()
        assert refused.status == 429
        assert json.loads(refused.sent[1]["body"])["reason"] == "TOO_MANY_POLLS"
        short = await Request(bridge, server.key(), "/v3/devices").begin()
        assert short.status == 200
        await held[0].leave()
        again = await Request(bridge, server.key(), *kind).begin()
        assert again.status in {None, 200}
        for each in (held[1], again):
            await each.leave()

    asyncio.run(check())


def test_a_poll_is_answered_at_once_when_the_server_stops(server, bridge, monkeypatch):
    monkeypatch.setattr("mirror_server.bridge._LAST_SECONDS", 60)

    async def check():
        held = await Request(bridge, server.key(), *POLL).begin()
        bridge.stop_waiting()
        await asyncio.wait_for(held.task, 10)
        assert held.status == 204

    asyncio.run(check())


def test_a_quiet_stream_shows_that_it_lives(server, bridge, monkeypatch):
    monkeypatch.setattr("mirror_server.bridge.HEARTBEAT_SECONDS", 0.01)

    async def check():
        stream = await Request(bridge, server.key(), *STREAM).begin()
        async with asyncio.timeout(10):
            while [message.get("body") for message in stream.sent].count(HEARTBEAT) < 2:
                await asyncio.sleep(0)
        await stream.leave()

    asyncio.run(check())


def test_a_stream_whose_log_is_gone_ends(server, bridge, monkeypatch):
    monkeypatch.setattr("mirror_server.bridge.HEARTBEAT_SECONDS", 0.01)
    key = server.key()
    app_id = key.split("_")[1]
    server.add_device(key, "d")

    async def check():
        stream = await Request(bridge, key, *STREAM).begin()
        server.services.database.write(lambda session: maintenance.end_application(session, app_id))
        await asyncio.wait_for(stream.task, 10)
        assert stream.sent[-1] == {"type": "http.response.body", "body": b""}

    asyncio.run(check())


def test_a_body_that_does_not_arrive_is_408_and_the_connection_ends(server, bridge):
    async def check():
        slow = Request(bridge, server.key(), "/v2/subscriptions", method="PUT", body=None)
        await slow.task
        assert slow.status == 408
        assert dict(slow.sent[0]["headers"])[b"connection"] == b"close"
        body = json.loads(slow.sent[1]["body"])
        assert (body["code"], body["type"]) == (408, "request_timeout")

    asyncio.run(check())


@pytest.mark.parametrize("leaves_first", [True, False])
def test_what_comes_at_the_moment_a_client_leaves_is_for_its_next_plain_poll(server, bridge, leaves_first):
    services, key = server.services, server.key()
    app_id, body = key.split("_")[1], {"ep": "device"}
    poll = ("/v2/notification/pull", b"hold=20")

    async def check():
        held = await Request(bridge, key, *poll).begin()
        if leaves_first:
            held.gone.set()
        services.database.write(lambda session: services.log.append(session, app_id, "registrations", "device", body))
        held.gone.set()
        await asyncio.wait_for(held.task, 10)
        assert held.sent == []
        after = Request(bridge, key, *poll)
        await asyncio.wait_for(after.task, 10)
        assert json.loads(after.sent[1]["body"]) == {"registrations": [body]}

    asyncio.run(check())


def test_what_is_stored_together_wakes_a_poll_with_one_message(server, bridge):
    services, key = server.services, server.key()
    app_id, bodies = key.split("_")[1], [{"ep": "first"}, {"ep": "second"}]

    def append(session):
        for body in bodies:
            services.log.append(session, app_id, "reg-updates", body["ep"], body)

    async def check():
        held = await Request(bridge, key, *POLL).begin()
        services.database.write(append)
        assert services.database.settle()
        await asyncio.wait_for(held.task, 10)
        assert [entry["ep"] for entry in json.loads(held.sent[1]["body"])["reg-updates"]] == ["first", "second"]

    asyncio.run(check())
