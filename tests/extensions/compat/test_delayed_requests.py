"""A request with a generated async-id reaches its device only after the 202 was sent."""

import asyncio
from contextlib import suppress
from functools import partial

import pytest
from asgi_requests import Request
from device_resources import action, setting
from resource_paths import REBOOT, SWITCH, TEMPERATURE

from mirror_server.config import Settings
from mirror_server.store import commands
from mirror_server.views.deferred_responses import DEFER
from mirror_server.web.asgi_bridge import ASGIBridge
from mirror_server.web.serve import _server_of

READ = b'{"method":"GET","uri":"/3303/0/5700"}'
BODIES = [
    READ,
    b'{"method":"PUT","uri":"/3311/0/5850","payload-b64":"MQ=="}',
    b'{"method":"POST","uri":"/3/0/4"}',
]


@pytest.fixture
def light(server, key):
    return server.add_device(key, "light-1", setting(SWITCH), {"path": TEMPERATURE, "value": "21.5"}, action(REBOOT))


@pytest.fixture
def bridge(server):
    return ASGIBridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=2), reading_seconds=0)


def waits(server, key):
    """Return the number of the key's requests that wait for their devices."""
    assert server.services.database.settle(60)
    return len(server.waiting(key))


def submit(server, bridge, key, device, body=READ, query=b"", *, ends="sent"):
    """Submit a request through the bridge, and return how many waited for devices when the 202 was sent.

    Args:
        ends: The response is ``sent``, its client is ``disconnected`` before that, or sending is ``interrupted``.
    """
    waited = []

    class SentRequest(Request):
        async def _send(self, message):
            # Everything that the request caused can complete, including a response in the log.
            waited.append(waits(server, key))
            if ends == "interrupted":
                raise OSError("the connection broke")

    async def serve():
        request = SentRequest(bridge, key, f"/v2/device-requests/{device}", query, "POST", body)
        if ends == "disconnected":
            request.disconnected.set()
        with suppress(OSError):
            await request.task
        for _ in range(3):
            await asyncio.sleep(0)

    asyncio.run(serve())
    return waited


@pytest.mark.parametrize("ends", ["sent", "disconnected", "interrupted"])
def test_device_gets_a_request_after_its_202_was_sent_or_lost(server, bridge, key, light, ends):
    for number, body in enumerate(BODIES, 1):
        waited = submit(server, bridge, key, light, body, ends=ends)
        assert ends != "sent" or set(waited) == {1}
        assert waits(server, key) == 0
        assert list(server.responses(key).values()) == [(200, None)] * number


def test_request_with_its_own_async_id_is_not_delayed(server, bridge, key, light):
    assert set(submit(server, bridge, key, light, READ, b"async-id=mine")) == {0}


def test_request_with_its_own_id_is_delivered_after_its_202(server, key, light):
    found = []

    def wait(_seconds):
        with server.services.database.read() as session:
            found.append([command.async_id for command in commands.waiting(session, light)])

    server.services.database.wait_for_responses = wait
    for name in ("first", "second"):
        server.submit(key, light, name, "GET", TEMPERATURE)
        assert waits(server, key) == 0
    # Again after each response, before the next request is read.
    assert found == [["first"], [], ["second"], []]
    assert server.responses(key) == {"first": (200, None), "second": (200, None)}


def test_running_server_releases_requests_after_its_loop_sent_the_202(server, key, light, monkeypatch):
    waited = []
    monkeypatch.setattr(ASGIBridge, "wait_for_responses", lambda _self, seconds: waited.append(seconds))
    _server_of(server.services)
    server.submit(key, light, "mine", "GET", TEMPERATURE)
    assert waits(server, key) == 0
    # At most the delay that a request would notice, however busy the loop is.
    assert set(waited) == {0.001}


def test_delay_lets_the_client_read_its_202_and_does_not_fill_the_queue(server, key, light):
    bridge = ASGIBridge(server.app, Settings(max_body_bytes=1000, max_parked_polls=2), reading_seconds=600)
    submit_read = partial(submit, server, bridge, key, light)
    submit_read()
    assert (waits(server, key), server.responses(key)) == (1, {})
    server.advance(key, 1)
    assert list(server.responses(key).values()) == [(200, None)]
    for _ in range(30):
        submit_read()
    assert len(server.responses(key)) + waits(server, key) == 31
    assert len(server.responses(key)) >= 15


def test_rejected_request_delays_no_others(server, bridge, key, light):
    submit(server, bridge, key, light, READ.replace(b"3303", b"3304"))
    submit(server, bridge, key, "0" * 32)
    assert not server.services.dispatcher.delayed
    assert server.submit(key, light, "next", "GET", TEMPERATURE).status_code == 202
    assert server.responses(key) == {"next": (200, None)}


@pytest.fixture
def left(server, key, light):
    """Submit a read whose 202 is never sent, on a server that does not report it."""
    environ = {DEFER: lambda deferred: None}
    body = {"method": "GET", "uri": TEMPERATURE}
    return partial(server.call, key, "POST", f"/v2/device-requests/{light}", json=body, environ_overrides=environ)


def test_waking_a_device_does_not_deliver_delayed_requests(server, key, light, left):
    left()
    server.registration(key, light, "PUT")
    assert waits(server, key) == 1
    other = server.key()
    # Requests of other applications come after it, because a device gets all requests in order.
    server.submit(other, light, "behind", "PUT", SWITCH, value="1")
    assert (waits(server, key), waits(server, other)) == (1, 1)
    assert server.responses(key) == server.responses(other) == {}
    free = server.add_device(key, "free")
    assert server.submit(key, free, "elsewhere", "GET", TEMPERATURE).status_code == 202
    assert server.responses(key) == {"elsewhere": (200, None)}


@pytest.mark.parametrize("is_restarted", [False, True])
def test_request_whose_202_is_never_sent_is_delayed_for_a_second_or_until_a_restart(server, key, left, is_restarted):
    left()
    left()
    server.advance(key, 0.999)
    assert waits(server, key) == 2
    if is_restarted:
        server.restart()
    else:
        server.advance(key, 0.001)
    assert waits(server, key) == 0
    assert list(server.responses(key).values()) == [(200, None)] * 2


def test_server_with_threads_releases_requests_after_the_response(server, key, light):
    headers = {"Authorization": f"Bearer {key}"}
    body = {"method": "GET", "uri": TEMPERATURE}
    answer = server.app.test_client().post(f"/v2/device-requests/{light}", json=body, headers=headers)
    assert waits(server, key) == 1
    answer.get_data()
    answer.close()
    assert waits(server, key) == 0
    assert server.responses(key) == {answer.json["async-response-id"]: (200, None)}
