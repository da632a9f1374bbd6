"""What every answer carries: nobody on the way keeps it, and no browser takes it for something else."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from mirror_server.service.keys import Scope
from mirror_server.web.asgi_bridge import Bridge

PATHS = [
    ("GET", "/v3/devices/{device}/echo", 200),
    ("HEAD", "/v3/devices/{device}/echo", 200),
    ("GET", "/v3/devices", 200),
    ("GET", "/v3/device-echo", 200),
    ("GET", "/v2/notification/pull?hold=0&after=0", 200),
    ("GET", "/v2/notification/pull?hold=0&after=latest", 204),
    ("GET", "/v2/subscriptions/nobody", 404),
    ("GET", "/v2/device-requests", 200),
    ("PUT", "/v2/subscriptions", 400),
    ("DELETE", "/v2/subscriptions", 204),
    ("POST", "/v3/devices", 405),
    ("GET", "/nothing", 404),
    ("GET", "/page/nothing.js", 404),
    ("GET", "/metrics", 200),
    ("GET", "/healthz", 200),
    ("GET", "/readyz", 200),
    ("GET", "/openapi.json", 200),
    ("POST", "/sim/v1/clock", 400),
]


@pytest.fixture(scope="module")
def server(shared_server):
    shared_server.all_scopes = shared_server.key(*Scope)
    shared_server.device = shared_server.add_device(shared_server.all_scopes, "sensor-1")
    return shared_server


def check(headers):
    assert headers.getlist("Cache-Control") == ["no-store"]
    assert headers.getlist("X-Content-Type-Options") == ["nosniff"]


def test_no_response_is_cached_or_sniffed(server):
    for method, path, status in PATHS:
        # The second time there may be something that the first one made.
        for _ in range(2):
            answer = server.call(server.all_scopes, method, path.format(device=server.device))
            assert answer.status_code == status, path
            check(answer.headers)
            assert len(answer.headers.getlist("X-Request-ID")) == 1
    answer = server.call("wrong", "GET", "/v3/devices")
    assert answer.status_code == 401
    check(answer.headers)


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
