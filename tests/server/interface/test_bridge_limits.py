"""What the bridge bounds: the polls that are parked, and the time a body may take."""

import asyncio
import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from mirror_server.store import history, maintenance
from mirror_server.store.history import HistoryRow
from mirror_server.views import notifications
from mirror_server.views.event_stream import HEARTBEAT
from mirror_server.web import asgi_bridge
from mirror_server.web.asgi_bridge import Bridge

MOST = 2
POLL = ("/v2/notification/pull", b"after=latest&hold=55")
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


@pytest.mark.parametrize("kind", [POLL, STREAM])
def test_one_application_holds_a_share_of_the_places_and_leaves_the_others(server, kind):
    async def check():
        bridge = Bridge(server.app, max_body_bytes=1000, max_parked_polls=4, poll_share=0.5)
        greedy, other = server.key(), server.key()
        held = [await Request(bridge, greedy, *each).begin() for each in (POLL, STREAM)]
        refused = await Request(bridge, greedy, *kind).begin()
        assert refused.status == 429
        assert json.loads(refused.sent[1]["body"])["reason"] == "TOO_MANY_POLLS"
        assert (await Request(bridge, greedy, "/v3/devices").begin()).status == 200
        held.append(await Request(bridge, other, *kind).begin())
        assert held[-1].status in {None, 200}
        await held[0].leave()
        held[0] = await Request(bridge, greedy, *kind).begin()
        assert held[0].status in {None, 200}
        for each in held:
            await each.leave()

    asyncio.run(check())


class Reader(Request):
    """A client that takes nothing of an answer until it is told to."""

    def __init__(self, *args):
        self.takes = asyncio.Event()
        super().__init__(*args)

    async def _send(self, message):
        if message["type"] == "http.response.body":
            await self.takes.wait()
        self.sent.append(message)

    @property
    def body(self):
        return b"".join(message.get("body", b"") for message in self.sent)


async def until(condition):
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.001)


def small_room(server):
    """A bridge with room for little that is unread, and a key whose log is larger."""
    bridge = Bridge(server.app, max_body_bytes=1000, max_parked_polls=100, max_unread_bytes=100_000)
    key = server.key()
    app_id = key.split("_")[1]
    server.add_device(key, "d")
    for number in range(30):
        body = {"ep": f"{number}-" + "x" * 10_000}
        server.services.database.write(
            lambda session, body=body: server.services.log.append(session, app_id, "registrations", "d", body)
        )
    return bridge, key


@pytest.mark.parametrize("query", [b"after=0&hold=0", b"hold=0"])
def test_who_leaves_answers_unread_gets_no_more_of_them_until_they_are_taken(server, query):
    bridge, key = small_room(server)

    async def check():
        deaf = Reader(bridge, key, "/v2/notification/pull", query)
        await until(lambda: bridge.unread_bytes > 100_000)
        for path in (("/v2/notification/pull", b"after=0&hold=0"), ("/v3/device-echo", b""), STREAM, POLL):
            refused = await Request(bridge, key, *path).begin()
            assert refused.status == 429
            assert json.loads(refused.sent[1]["body"])["reason"] == "TOO_MUCH_UNREAD"
            assert dict(refused.sent[0]["headers"])[b"retry-after"] == b"1"
        assert (await Request(bridge, server.key(), "/v3/devices").begin()).status == 200
        deaf.takes.set()
        await asyncio.wait_for(deaf.task, 60)
        assert max(len(message.get("body", b"")) for message in deaf.sent) <= 64 * 1024
        assert len(json.loads(deaf.body)["registrations"]) >= 30
        assert bridge.unread_bytes == 0
        assert (await Request(bridge, key, "/v3/devices").begin()).status == 200

    asyncio.run(check())


def test_others_are_served_between_the_large_answers_of_one_key(server):
    bridge, key = small_room(server)
    bridge = Bridge(server.app, max_body_bytes=1000, max_parked_polls=100)
    other = server.key()

    async def check():
        order = []
        large = [Request(bridge, key, "/v2/notification/pull", b"after=0&hold=0") for _ in range(5)]
        between = Request(bridge, other, "/v3/devices")
        for each in (*large, between):
            each.task.add_done_callback(lambda _, each=each: order.append(each))
        await asyncio.gather(*(each.task for each in (*large, between)))
        assert {each.status for each in large} == {200}
        assert order.index(between) <= 1

    asyncio.run(check())


def test_held_polls_that_wake_together_are_answered_as_far_as_there_is_room_and_the_others_when_there_is(server):
    bridge, key = small_room(server)
    app_id, body = key.split("_")[1], {"ep": "y" * 60_000}

    async def check():
        held = [await Reader(bridge, key, *POLL).begin() for _ in range(5)]
        server.services.database.write(
            lambda session: server.services.log.append(session, app_id, "registrations", "d", body)
        )
        await until(lambda: bridge.unread_bytes > 100_000)
        for _ in range(20):
            await asyncio.sleep(0)
        assert sum(each.status == 200 for each in held) == 2
        for each in held:
            each.takes.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*(each.task for each in held))
        assert all(json.loads(each.body)["registrations"][0]["ep"] == body["ep"] for each in held)

    asyncio.run(check())


def test_long_pages_that_nobody_takes_are_not_read(server, monkeypatch):
    monkeypatch.setattr(notifications, "_QUICK_ENTRIES", 5)
    bridge, key = small_room(server)
    read, pages = server.services.log.read, []

    def note(app_id, after, *most):
        page = read(app_id, after, *most)
        pages.append(page)
        return page

    monkeypatch.setattr(server.services.log, "read", note)

    async def check():
        deaf = [Reader(bridge, key, "/v2/notification/pull", b"after=0&hold=0") for _ in range(5)]
        await until(lambda: bridge.unread_bytes > 100_000)
        await until(lambda: not server.services.long_reads._running)
        # One that waits to be taken, and one for when there is room.
        assert sum(len(page.entries) >= 30 for page in pages) <= 2
        for each in deaf:
            each.takes.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*(each.task for each in deaf))
        assert all(len(json.loads(each.body)["registrations"]) >= 30 for each in deaf)

    asyncio.run(check())


@pytest.mark.parametrize(
    "path", [("/v2/notification/events", b"after=0"), ("/v3/device-echo", b""), ("/v3/device-echo/history", b"")]
)
def test_a_stream_snapshot_or_history_that_nobody_takes_is_made_no_further(new_server, monkeypatch, path):
    server = new_server(keep_history_seconds=86_400)
    bridge, key = small_room(server)
    device = server.add_device(key, "many", *({"path": f"/3303/{number}/5700", "value": "1"} for number in range(4000)))
    values = [
        HistoryRow(10_000 + number, device, None, "/3303/0/5700", 0, 0, "reported", "read", b"x" * 1000, "text/plain")
        for number in range(1000)
    ]
    server.services.database.write(lambda session: history.add(session, values))

    made = []

    class Threads(ThreadPoolExecutor):
        def submit(self, *work):
            made.append(super().submit(*work))
            return made[-1]

    async def all_is_made():
        # What is being made counts as much as it may become. When it is there, there may be room for the next.
        count = None
        while count != len(made):
            count = len(made)
            await until(lambda: all(each.done() for each in made))
            for _ in range(20):
                await asyncio.sleep(0)

    async def check():
        deaf = [Reader(bridge, key, *path) for _ in range(3)]
        await until(lambda: [bool(each.sent) for each in deaf] == [True] * 3)
        await until(lambda: bridge.unread_bytes > 100_000)
        await all_is_made()
        size = bridge.unread_bytes
        assert size > 100_000
        assert len(made) <= len(deaf)
        # It began when there was room, and what it makes next waits for the client.
        assert size < 1_000_000
        for _ in range(20):
            await asyncio.sleep(0)
        assert bridge.unread_bytes <= size
        for each in deaf:
            each.takes.set()
            each.gone.set()
        await asyncio.wait_for(asyncio.gather(*(each.task for each in deaf)), 60)
        assert bridge.unread_bytes == 0

    with Threads(8) as threads:
        monkeypatch.setattr("mirror_server.web.asgi_bridge._DOWNLOADS", threads)
        asyncio.run(check())


def test_a_filtered_snapshot_that_nobody_takes_leaves_the_turn_to_other_long_reads(server):
    bridge, key = small_room(server)
    bridge = Bridge(server.app, max_body_bytes=1000, max_parked_polls=MOST)

    async def check():
        deaf = Reader(bridge, key, "/v3/device-echo", b"name__neq=x")
        await until(lambda: bool(deaf.sent))
        other = Request(bridge, key, "/v3/devices", b"name__neq=x")
        await until(other.task.done)
        assert other.status == 200
        assert not deaf.task.done()
        deaf.takes.set()
        await asyncio.wait_for(deaf.task, 60)

    asyncio.run(check())


def test_a_poll_is_answered_at_once_when_the_server_stops(server, bridge, monkeypatch):
    monkeypatch.setattr("mirror_server.web.asgi_bridge._LAST_SECONDS", 60)

    async def check():
        held = await Request(bridge, server.key(), *POLL).begin()
        bridge.stop_waiting()
        # Before its own end.
        await asyncio.wait_for(held.task, 30)
        assert held.status == 204

    asyncio.run(check())


def test_a_quiet_stream_shows_that_it_lives(server, bridge, monkeypatch):
    monkeypatch.setattr("mirror_server.web.asgi_bridge.HEARTBEAT_SECONDS", 0.01)

    async def check():
        stream = await Request(bridge, server.key(), *STREAM).begin()
        async with asyncio.timeout(60):
            while [message.get("body") for message in stream.sent].count(HEARTBEAT) < 2:
                await asyncio.sleep(0)
        await stream.leave()

    asyncio.run(check())


def test_a_stream_whose_log_is_gone_ends(server, bridge, monkeypatch):
    monkeypatch.setattr("mirror_server.web.asgi_bridge.HEARTBEAT_SECONDS", 0.01)
    key = server.key()
    app_id = key.split("_")[1]
    server.add_device(key, "d")

    async def check():
        stream = await Request(bridge, key, *STREAM).begin()
        server.services.database.write(lambda session: maintenance.end_application(session, app_id))
        await asyncio.wait_for(stream.task, 60)
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
        await asyncio.wait_for(held.task, 60)
        assert held.sent == []
        after = Request(bridge, key, *poll)
        await asyncio.wait_for(after.task, 60)
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
        await asyncio.wait_for(held.task, 60)
        assert [entry["ep"] for entry in json.loads(held.sent[1]["body"])["reg-updates"]] == ["first", "second"]

    asyncio.run(check())


def test_large_bodies_of_one_key_let_others_have_their_turn_in_between(server, key):
    bridge = Bridge(server.app, max_body_bytes=1_000_000, max_parked_polls=MOST)
    body, answered = b" " * 100_000, []

    def send(name, by, body):
        request = Request(bridge, by, "/v3/device-queries", method="POST", body=body)
        request.task.add_done_callback(lambda _: answered.append(name))
        return request.task

    async def check():
        other = server.key()
        await asyncio.gather(
            send("first", key, body), send("second", key, body), send("third", key, body), send("other", other, b"")
        )

    asyncio.run(check())
    assert answered == ["first", "other", "second", "third"]


def test_next_large_body_of_a_key_waits_as_long_as_the_one_before_took(server, key, monkeypatch):
    seconds = iter((0, 1000))
    monkeypatch.setattr(asgi_bridge, "time", SimpleNamespace(monotonic=lambda: next(seconds, 1000)))
    bridge, body = Bridge(server.app, max_body_bytes=1_000_000, max_parked_polls=MOST), b" " * 100_000

    async def check():
        large = [Request(bridge, key, "/v3/device-queries", method="POST", body=body) for _ in range(2)]
        other = Request(bridge, server.key(), "/v3/devices", b"name__neq=x")
        await until(other.task.done)
        assert (large[0].status, large[1].status, other.status) == (400, None, 200)
        large[1].task.cancel()
        await asyncio.wait([large[1].task])

    asyncio.run(check())


def test_requests_of_one_key_that_take_milliseconds_let_others_have_their_turn_in_between(server, key, monkeypatch):
    monkeypatch.setattr(asgi_bridge, "time", SimpleNamespace(monotonic=itertools.count(0, 0.01).__next__))
    bridge, answered = Bridge(server.app, max_body_bytes=1000, max_parked_polls=MOST), []

    def send(name, by):
        request = Request(bridge, by, "/v3/devices")
        request.task.add_done_callback(lambda _: answered.append(name))
        return request.task

    async def check():
        other = server.key()
        await asyncio.gather(send("first", key), send("second", key), send("third", key), send("other", other))

    asyncio.run(check())
    assert answered == ["first", "other", "second", "third"]
