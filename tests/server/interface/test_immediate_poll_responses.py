"""An open poll gets its response in the loop callback for the entry. Its task wakes only if it has to wait."""

import asyncio
import json
import logging
from unittest.mock import create_autospec

import pytest
from asgi_requests import append, scope_of, until
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from mirror_server.views.responses import SharedResponse
from mirror_server.web.wsgi_adapter import ResponseReader, WSGIResponse

pytestmark = pytest.mark.anyio

CURSOR_POLL = b"after=latest&hold=55"
PLAIN_POLL = b"hold=55"
ENTRY = {"ep": "a"}


class Poll:
    """A poll on a connection of uvicorn, with the other end in the test."""

    def __init__(self, bridge, key, query, *, keep_alive=True, path="/v2/notification/pull"):
        self.transport, self.responses = create_autospec(asyncio.Transport, instance=True), 0
        self.transport.is_closing.return_value = False
        self.transport.write.side_effect = self._note
        self.written, self.tasks = b"", []
        self.flow = FlowControl(self.transport)
        self.cycle = RequestResponseCycle(
            scope=scope_of(key, path, query),
            transport=self.transport,
            flow=self.flow,
            logger=logging.getLogger("uvicorn"),
            access_logger=logging.getLogger("uvicorn"),
            access_log=False,
            default_headers=[(b"date", b"today")],
            message_event=asyncio.Event(),
            expect_100_continue=False,
            keep_alive=keep_alive,
            on_response=self._note_response,
        )
        self.cycle.more_body = False
        self.cycle.message_event.set()
        self.task = asyncio.ensure_future(self.cycle.run_asgi(bridge))

    def _note(self, data):
        """Record what is written, and by which task."""
        self.written += data
        self.tasks.append(asyncio.current_task())

    def _note_response(self):
        self.responses += 1

    @property
    def head(self):
        return self.written.partition(b"\r\n\r\n")[0].decode().lower()

    @property
    def body(self):
        return self.written.partition(b"\r\n\r\n")[2]

    async def begin(self):
        for _ in range(5):
            await asyncio.sleep(0)
        assert not self.written
        return self

    async def end(self):
        async with asyncio.timeout(60):
            await self.task


@pytest.fixture
def response_routes(server):
    """Collect the route of each request that got a response."""
    routes = []
    server.app._response_ready += (lambda _environ, _response, route, _seconds: routes.append(route),)
    return routes


async def test_poll_response_is_sent_without_waking_its_task(server, key, bridge, response_routes):
    polls = [await Poll(bridge, key, CURSOR_POLL).begin() for _ in range(3)]
    await asyncio.to_thread(append, server, key, ENTRY)
    for poll in polls:
        await poll.end()
        assert poll.tasks == [None]
        assert poll.responses == 1
        assert poll.head.startswith("http/1.1 200 ok\r\ndate: today\r\n")
        assert json.loads(poll.body)["registrations"][0]["ep"] == "a"
    assert len({poll.head for poll in polls}) == 3, "each has an id of its own"
    assert response_routes == [("GET", "/v2/notification/pull")] * 3
    assert server.services.log.open_polls == 0


@pytest.mark.parametrize("why", ["paused", "stopping", "last", "plain"])
async def test_poll_task_responds_if_it_has_to_wait_or_close(server, key, bridge, response_routes, why):
    query = PLAIN_POLL if why == "plain" else CURSOR_POLL
    poll = await Poll(bridge, key, query, keep_alive=why != "last").begin()
    is_paused = why in {"paused", "stopping"}
    if is_paused:
        poll.flow.pause_writing()
    await asyncio.to_thread(append, server, key, ENTRY)
    if is_paused:
        await until(lambda: server.services.log.open_polls == 0)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not poll.written
        # uvicorn itself sends the header for a closed connection, and closes it.
        poll.cycle.keep_alive = why == "paused"
        poll.flow.resume_writing()
    await poll.end()
    assert set(poll.tasks) == {poll.task}
    assert json.loads(poll.body)["registrations"][0]["ep"] == "a"
    assert poll.responses == 1
    assert poll.transport.close.called == ("connection: close" in poll.head) == (why in {"stopping", "last"})
    assert response_routes == [("GET", "/v2/notification/pull")]


async def check_unread(server, key, bridge, poll, has_room):
    """An entry added after the client of a poll disconnected stays for the next channel."""
    application = key.split("_")[1]

    await until(lambda: server.services.log.open_polls == 1)
    written = poll.written
    # Its connection is closed, and its task was not woken for that.
    poll.cycle.disconnected = has_room
    with ResponseReader(bridge.backpressure, application, None).counting(0 if has_room else 1 << 40):
        await asyncio.to_thread(append, server, key, ENTRY)
        await until(lambda: has_room or server.services.log.open_polls == 0)
        for _ in range(20):
            await asyncio.sleep(0)
        poll.cycle.disconnected = True
    poll.cycle.message_event.set()
    await poll.end()
    assert poll.written == written
    # A channel of the server starts after the entries that were read.
    unread = server.call(key, "GET", "/v2/notification/pull?hold=0").json["registrations"]
    assert [entry["ep"] for entry in unread] == ["a"]


@pytest.mark.parametrize(("query", "has_room"), [(b"after=latest", True), (PLAIN_POLL, False)])
async def test_entry_not_sent_to_a_disconnected_client_stays_unread(server, key, bridge, query, has_room):
    await check_unread(server, key, bridge, Poll(bridge, key, query), has_room)


async def test_failing_response_is_500_and_other_responses_are_sent(server, key, bridge, monkeypatch):
    polls = [await Poll(bridge, key, CURSOR_POLL).begin() for _ in range(3)]
    response, requests = server.app.current_response, []

    def fail_once(deferred, environ):
        requests.append(environ)
        if environ is requests[0]:
            raise RuntimeError("unexpected")
        return response(deferred, environ)

    monkeypatch.setattr(server.app, "current_response", fail_once)
    await asyncio.to_thread(append, server, key, ENTRY)
    for poll in polls:
        await poll.end()
    assert sorted(poll.head[9:12] for poll in polls) == ["200", "200", "500"]


async def test_head_and_other_servers_get_no_coalesced_send(bridge, key):
    poll, response = Poll(bridge, key, CURSOR_POLL), WSGIResponse.of(SharedResponse(b"{}"), {})
    poll.cycle.scope["method"] = "HEAD"
    assert not any(response.send_at_once(send) for send in (poll.cycle.send, poll.transport.write))
    assert not poll.written
    poll.cycle.disconnected = True
    poll.cycle.message_event.set()
    await poll.end()
