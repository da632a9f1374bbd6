"""What every answer carries: nobody on the way keeps it, and no browser takes it for something else."""

from __future__ import annotations

import asyncio

import pytest
from bridge_requests import Request

from mirror_server.config import Settings
from mirror_server.service.keys import Scope
from mirror_server.web.bridge import Bridge

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def server(shared_server):
    shared_server.all_scopes = shared_server.key(*Scope)
    shared_server.device = shared_server.add_device(shared_server.all_scopes, "sensor-1")
    return shared_server


def test_date_is_left_to_the_server_that_sends_the_response(server):
    for path in ("/", "/page/page.js", "/healthz", "/v3/devices", "/page/objects.json"):
        answer = server.call(server.all_scopes, "GET", path)
        again = server.call(server.all_scopes, "GET", path, {"If-None-Match": answer.headers.get("ETag", "")})
        assert "Date" not in answer.headers
        assert "Date" not in again.headers


async def test_responses_of_the_event_loop_are_neither_cached_nor_sniffed(server):
    """At once, parked, and parked until something is stored."""
    bridge, key = Bridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=10)), server.all_scopes
    poll = await Request(bridge, key, "/v2/notification/pull", b"after=latest&hold=20").begin()
    asked = [("GET", f"/v3/devices/{server.device}/echo"), ("DELETE", "/v2/subscriptions")]
    answers = [await Request(bridge, key, path, method=method).end() for method, path in asked]
    await asyncio.to_thread(server.add_device, key, "sensor-2")
    for answer in (*answers, await poll.end()):
        assert answer.status in {200, 204}
        headers = [(name.lower(), value) for name, value in answer.sent[0]["headers"]]
        assert [value for name, value in headers if name == b"cache-control"] == [b"no-store"]
        assert [value for name, value in headers if name == b"x-content-type-options"] == [b"nosniff"]
