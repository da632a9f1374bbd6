"""``Prefer: wait``: the 202 of a device request is delayed until the request has ended (RFC 7240)."""

import asyncio
import json
import threading
from contextlib import contextmanager
from functools import partial

import pytest
from asgi_requests import Request
from device_resources import action, sensor, setting
from resource_paths import LEVEL, REBOOT, TEMPERATURE

from mirror_sdk.wire.device_requests import DeviceRequestAccepted
from mirror_server.clock import wall_time
from mirror_server.config import Settings
from mirror_server.extensions.requests.prefer_wait import PendingResponses
from mirror_server.service import keys
from mirror_server.views.deferred_responses import DEFER, DeferredResponse
from mirror_server.web.asgi_bridge import ASGIBridge
from mirror_server.web.wsgi_adapter import ResponseReader

pytestmark = pytest.mark.anyio

READ = {"method": "GET", "uri": TEMPERATURE}
WRITE = {"method": "PUT", "uri": LEVEL, "payload-b64": "Nw=="}
EXECUTE = {"method": "POST", "uri": REBOOT}


@pytest.fixture
def device(server, key):
    return server.add_device(key, "sensor-1", sensor(TEMPERATURE), setting(LEVEL, "1"), action(REBOOT))


@pytest.fixture
def silent(server, key, device):
    server.patch(key, device, answer="silent")
    return device


def without_end(future, timeout_seconds, **options):
    """Return a wait that ends with a response only."""
    assert 0 < timeout_seconds <= 10
    return DeferredResponse(future, 600, **options)


@pytest.fixture(autouse=True)
def no_wait_ends_by_itself(monkeypatch):
    monkeypatch.setattr("mirror_server.extensions.requests.prefer_wait.DeferredResponse", without_end)
    monkeypatch.setattr("mirror_server.web.asgi_bridge._LAST_SECONDS", 600)


class WaitingRequest(Request):
    """A device request; ``fetch`` is called when its response starts."""

    def __init__(self, bridge, key, device, body, *, prefer="wait=10", async_id="mine", fetch=lambda: None, **headers):
        self._fetch = fetch
        if prefer is not None:
            headers["prefer"] = prefer
        query = b"" if async_id is None else f"async-id={async_id}".encode()
        path = f"/v2/device-requests/{device}"
        super().__init__(bridge, key, path, query, "POST", json.dumps(body).encode(), **headers)

    async def _send(self, message):
        if message["type"] == "http.response.start":
            self.seen = self._fetch()
        await super()._send(message)

    async def pending(self):
        await self.begin()
        assert not self.task.done()
        return self


@pytest.fixture
def submit(server, bridge, key, device):
    """Return a function that sends a request and waits for its response."""

    def submit(body=READ, device=device, **options):
        async def complete():
            return await WaitingRequest(bridge, key, device, body, **options).end()

        request = asyncio.run(complete())
        assert server.services.database.settle(60)
        assert not server.services.part(PendingResponses)._waiting
        return request

    return submit


def accepted(request, async_id="mine"):
    """Return the device's response from a 202, or ``None``."""
    assert request.status == 202, request.json
    DeviceRequestAccepted.model_validate(request.json, extra="forbid", by_alias=True, by_name=False)
    assert request.json["async-response-id"] == async_id
    assert ("preference-applied" in request.headers) == ("async-response" in request.json)
    return request.json.get("async-response")


def logged(server, key):
    """Return the async responses of the log by id."""
    return {entry["id"]: entry for entry in server.entries(key, "async-responses")}


@contextmanager
def blocked_writer(server):
    """Block the writer until the event is set."""
    is_let_on, started = threading.Event(), threading.Event()

    def hold_up(_session):
        started.set()
        assert is_let_on.wait(60)

    server.services.database.submit(hold_up)
    assert started.wait(60)
    yield is_let_on
    is_let_on.set()


def test_202_contains_the_same_response_as_the_log(server, key, device, submit):
    cases = [
        ("read", READ, "normal", (200, None)),
        ("write", WRITE, "normal", (200, None)),
        ("execute", EXECUTE, "normal", (200, None)),
        ("rejected", READ, "reject", (400, "REJECTED")),
        ("read-only", {**WRITE, "uri": TEMPERATURE}, "normal", (400, "METHOD_NOT_ALLOWED")),
    ]
    for name, body, answer, ends in cases:
        server.patch(key, device, answer=answer)
        request = submit(body, async_id=name)
        response = accepted(request, name)
        assert (response["status"], response.get("error")) == ends
        assert response == logged(server, key)[name]
        assert request.headers["preference-applied"] == "wait=10"
        assert {"mirror-requested-at", "mirror-expires-at"} <= set(request.headers)


def test_mirror_and_log_have_the_end_before_the_202_is_sent(server, key, device, submit):
    request = submit(
        WRITE, fetch=lambda: (server.resource(key, device, LEVEL)["desired"]["status"], logged(server, key))
    )
    assert request.seen == (1, {"mine": accepted(request)})
    request = submit(async_id="other", fetch=lambda: server.resource(key, device)["reported"]["value"])
    assert request.seen == "MjEuNQ=="


def test_prefer_wait_is_read_in_every_spelling(server, key, submit):
    waits = ["wait=10", "wait=99", "WAIT=10", 'wait="10"', "respond-async, wait=10", "wait = 10", "wait=10; of=me"]
    waits += ["a=b,wait=10", "wait=10, wait=0"]
    others = [None, "", "wait=0", "wait", "wait=", "wait=soon", "wait=-1", "wait=1.5", "respond-async", '"', "wait=²"]
    for number, prefer in enumerate([*waits, *others]):
        response = accepted(submit(prefer=prefer, async_id=str(number)), str(number))
        assert (response is not None) == (prefer in waits), prefer
        assert logged(server, key)[str(number)]["status"] == 200


def test_request_that_cannot_or_need_not_wait_gets_its_202_at_once(server, key, device, submit, monkeypatch):
    first = accepted(submit())
    assert accepted(submit()) is None, "it has ended already"
    assert logged(server, key) == {"mine": first}
    # The device gets a request without an id after the 202.
    assert list(submit(async_id=None).json) == ["async-response-id"]
    monkeypatch.setattr(server.services, "is_leader", lambda: False)
    assert accepted(submit(async_id="no-leader"), "no-leader") is None
    # A plain WSGI server would need a thread for the wait.
    server.patch(key, device, answer="silent")
    answer = server.call(key, "POST", f"/v2/device-requests/{device}?async-id=x", {"Prefer": "wait=10"}, json=READ)
    assert (answer.status_code, answer.json) == (202, {"async-response-id": "x"})
    assert not server.services.part(PendingResponses)._waiting


def test_error_comes_at_once_and_is_the_same_as_without_the_preference(server, key, device, submit):
    server.submit(key, device, "used", "GET", LEVEL)
    before = logged(server, key)
    cases = [
        ({"device": "0" * 32}, READ, 404),
        ({}, {**READ, "uri": "/1/2/3"}, 400),
        ({"async_id": "used"}, READ, 409),
        ({"if-match": "7"}, WRITE, 412),
    ]
    for options, body, status in cases:
        rejected, plain = submit(body, **options), submit(body, prefer=None, **options)
        assert rejected.status == plain.status == status
        assert rejected.json | {"request_id": ""} == plain.json | {"request_id": ""}
    assert logged(server, key) == before


async def test_stopping_server_sends_its_202_at_once_but_not_before_it_is_on_disk(server, bridge, key, silent):
    request = await WaitingRequest(bridge, key, silent, READ).pending()
    await asyncio.to_thread(server.services.database.settle, 60)
    bridge.stop_waiting()
    assert accepted(await request.end()) is None
    again = ASGIBridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=2))
    with blocked_writer(server) as is_let_on:
        request = await WaitingRequest(again, key, silent, READ, async_id="slow").pending()
        again.stop_waiting()
        await request.pending()
        is_let_on.set()
        assert accepted(await request.end(), "slow") is None
    assert server.responses(key) == {}
    assert not server.services.part(PendingResponses)._waiting


async def test_repeat_ends_both_waits_and_a_disconnected_client_leaves_no_state(server, bridge, key, silent):
    first = await WaitingRequest(bridge, key, silent, READ).pending()
    again = WaitingRequest(bridge, key, silent, READ)
    assert accepted(await first.end()) is accepted(await again.end()) is None
    disconnected = await WaitingRequest(bridge, key, silent, READ, async_id="gone").pending()
    await disconnected.leave()
    assert disconnected.status is None
    assert not server.services.part(PendingResponses)._waiting
    server.advance(key, 240)
    assert server.responses(key) == dict.fromkeys(("mine", "gone"), (504, "TIMEOUT"))


async def test_202_is_sent_without_a_response_after_the_preferred_wait(bridge, key, silent, monkeypatch):
    monkeypatch.setattr("mirror_server.extensions.requests.prefer_wait.DeferredResponse", with_short_time)
    assert accepted(await WaitingRequest(bridge, key, silent, READ).end()) is None


async def test_timeout_of_the_device_is_a_response_unless_the_key_ended_meanwhile(server, bridge, key, silent):
    ended, other = server.key(), server.key()

    request = await WaitingRequest(bridge, key, silent, READ).pending()
    without_key = await WaitingRequest(bridge, ended, silent, READ).pending()
    await asyncio.to_thread(keys.renew, server.services.database, ended.split("_")[1], 0, wall_time())
    await asyncio.to_thread(server.advance, other, 240)
    await request.end()
    assert (accepted(request)["status"], accepted(request)["error"]) == (504, "TIMEOUT")
    assert accepted(await without_key.end()) is None


async def test_two_applications_may_wait_under_the_same_id(server, bridge, key, other, silent):
    lively = server.add_device(key, "lively")

    waits = await WaitingRequest(bridge, key, silent, READ).pending()
    completed = await WaitingRequest(bridge, other, lively, READ).end()
    assert accepted(completed)["ep"] == lively
    assert not waits.task.done()
    bridge.stop_waiting()
    await waits.end()


async def test_slow_disk_is_waited_for_longer_than_the_preference(server, bridge, key, device, monkeypatch):
    with blocked_writer(server) as is_let_on:
        short = partial(with_short_time, is_over=is_let_on.set)
        monkeypatch.setattr("mirror_server.extensions.requests.prefer_wait.DeferredResponse", short)
        assert accepted(await WaitingRequest(bridge, key, device, READ).end()) is None
    assert server.responses(key) == {"mine": (200, None)}


def with_short_time(future, timeout_seconds, *, expired, is_over=None, **options):
    """Return a wait that ends soon, and record whether it has to continue."""
    assert timeout_seconds == 10

    def over():
        answer = expired()
        if is_over is not None:
            assert isinstance(answer, DeferredResponse)
            is_over()
        return answer

    return DeferredResponse(future, 0.01, expired=over, **options)


def test_repeat_that_is_not_stored_yet_waits_for_the_disk_when_its_time_is_over(server, key, device):
    deferred = []
    options = {"headers": {"Prefer": "wait=5"}, "json": READ, "environ_overrides": {DEFER: deferred.append}}
    path = f"/v2/device-requests/{device}?async-id=mine"
    server.patch(key, device, online=False)
    server.call(key, "POST", path, **options)
    with blocked_writer(server) as is_let_on:
        server.call(key, "POST", path, **options, settled=False)
        (_, repeat) = deferred
        answer = repeat.current_response()
        assert isinstance(answer, DeferredResponse)
        assert not answer.future.done()
        is_let_on.set()
        answer.future.result(60)
    assert answer.current_response().json == {"async-response-id": "mine"}


async def test_client_with_much_unread_gets_a_202_without_the_response(server, bridge, key, silent):
    application = key.split("_")[1]
    request = await WaitingRequest(bridge, key, silent, READ).pending()
    # The device has the request, so the time for its response is over after the advance.
    await asyncio.to_thread(server.services.database.settle, 60)
    with ResponseReader(bridge.backpressure, application, None).counting(1 << 40):
        await asyncio.to_thread(server.advance, key, 120)
        await request.pending()
        assert not server.services.part(PendingResponses)._waiting
    assert accepted(await request.end()) is None
    assert server.responses(key) == {"mine": (504, "TIMEOUT")}


def test_request_that_is_not_stored_is_500_and_not_waited_for(server, submit, monkeypatch):
    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr(server.services.commands, "_accept", fail)
    assert submit().status == 500
