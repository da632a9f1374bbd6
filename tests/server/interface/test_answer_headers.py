"""What every answer carries: nobody on the way keeps it, and no browser takes it for something else."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from mirror_server.service.keys import Scope
from mirror_server.web.asgi_bridge import Bridge


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


def test_responses_of_the_event_loop_have_the_headers_too(server):
    """At once, parked, and parked until something is stored."""
    transport = httpx.ASGITransport(app=Bridge(server.app, max_body_bytes=1000, max_parked_polls=10))
    headers = {"Authorization": f"Bearer {server.all_scopes}"}

    async def ask():
        async with httpx.AsyncClient(transport=transport, base_url="http://mirror.test", headers=headers) as client:
            poll = asyncio.ensure_future(client.get("/v2/notification/pull?after=latest&hold=20"))
            answers = [
                await client.get(f"/v3/devices/{server.device}/echo"),
                await client.get("/v3/device-echo"),
                await client.delete("/v2/subscriptions"),
            ]
            await asyncio.to_thread(server.add_device, server.all_scopes, "sensor-2")
            return [*answers, await poll]

    for answer in asyncio.run(ask()):
        assert answer.is_success
        assert answer.headers.get_list("Cache-Control") == ["no-store"]
        assert answer.headers.get_list("X-Content-Type-Options") == ["nosniff"]
