"""A plain poll right after an aborted one stays open, even if the server notices the abort later."""

import asyncio

import pytest
from asgi_requests import Request, until

from mirror_server.views import notifications

pytestmark = pytest.mark.anyio

PULL = "/v2/notification/pull"


async def test_poll_that_waited_for_another_to_end_stays_open_and_counts(server, bridge, key, monkeypatch):
    monkeypatch.setattr(notifications, "_CLOSING_SECONDS", 60)
    aborted = await Request(bridge, key, PULL, b"hold=55").begin()
    second = await Request(bridge, key, PULL, b"hold=55").begin()
    await aborted.leave()
    await until(lambda: server.services.log.open_polls == 1)
    assert second.status is None
    assert bridge._slots.in_use == 1
    await asyncio.to_thread(server.add_device, key, "sensor-1")
    await until(second.task.done)
    assert second.status == 200
    assert bridge._slots.in_use == 0


async def test_second_poll_gets_409_and_the_first_stays_open(server, bridge, key, monkeypatch):
    monkeypatch.setattr(notifications, "_CLOSING_SECONDS", 0.01)
    first = await Request(bridge, key, PULL, b"hold=55").begin()
    second = await Request(bridge, key, PULL, b"hold=55").begin()
    await until(second.task.done)
    assert second.status == 409
    assert first.status is None
    await first.leave()
    assert server.services.log.open_polls == bridge._slots.in_use == 0


async def test_poll_of_a_client_that_disconnects_while_waiting_opens_no_channel(server, bridge, key, monkeypatch):
    monkeypatch.setattr(notifications, "_CLOSING_SECONDS", 60)
    first = await Request(bridge, key, PULL, b"hold=55").begin()
    second = await Request(bridge, key, PULL, b"hold=55").begin()
    second.disconnected.set()
    first.disconnected.set()
    await first.task
    await second.task
    assert server.services.log.open_polls == bridge._slots.in_use == 0
    assert not server.services.polls._open
