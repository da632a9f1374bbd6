"""Features of the asynchronous client only: concurrent tasks, cancellation, other loops, async callbacks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import httpx
import pytest
from changed_responses import TEMPERATURE

from mirror_sdk import AsyncMirrorClient, ConfigError, Event
from mirror_sdk._protocol.event_loop import MAX_CONCURRENT


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0)


def test_another_task_continues_reading_when_the_reader_is_cancelled(run, simulator, device_id):
    simulator.set_online(device_id, False)

    async def scene(client):
        requests = [await client.requests.begin_read(device_id, TEMPERATURE) for _ in range(3)]
        waits = [asyncio.create_task(request.result(60)) for request in requests]
        await until(lambda: client._session.router._is_reading and len(client._session.router._changed._waiting) == 2)
        waits[0].cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waits[0]
        await asyncio.to_thread(simulator.set_online, device_id, True)
        values = [(await wait).python for wait in waits[1:]]
        return values, (await requests[0].result(60)).python

    assert run(scene) == ([21.5, 21.5], 21.5)


def test_a_cancelled_wait_releases_everything(run, simulator, device_id):
    simulator.set_online(device_id, False)

    async def scene(client):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.read_value(device_id, TEMPERATURE), 0.1)
        assert not client._session.router._is_reading
        assert not client._session.router._changed._waiting
        assert not client._session.router.matcher.waiting
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(client.events(timeout=20)), 0.1)

    run(scene)


def test_a_cancelled_step_of_the_events_loses_nothing(run, simulator, device_id):
    async def scene(client):
        async with client.events(timeout=60) as first, client.events(timeout=60) as second:
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(anext(first), 0.05)
            await client.subscribe(device_id, TEMPERATURE)
            await asyncio.to_thread(simulator.set_value, device_id, TEMPERATURE, "30")
            return [[(await anext(events)).value.python for _ in range(2)] for events in (first, second)]

    assert run(scene) == [[21.5, 30.0]] * 2


def test_a_callback_may_be_async_and_its_errors_are_recorded(run, simulator, device_id):
    async def scene(client):
        async def callback(event: Event) -> None:
            await asyncio.sleep(0)
            raise ValueError("no")

        await client.subscribe(device_id, TEMPERATURE)
        async with await client.watch(callback, paths=[TEMPERATURE]) as watch:
            await asyncio.to_thread(simulator.set_value, device_id, TEMPERATURE, "30")
            await until(lambda: watch.errors)
            assert watch.is_running
        assert not watch.is_running
        return {type(error) for error in watch.errors}

    assert run(scene) == {ValueError}


def test_a_callback_may_stop_its_own_watch(run, simulator, device_id):
    async def scene(client):
        async def callback(event: Event) -> None:
            await watch.stop()

        await client.subscribe(device_id, TEMPERATURE)
        watch = await client.watch(callback, paths=[TEMPERATURE])
        await asyncio.to_thread(simulator.set_value, device_id, TEMPERATURE, "30")
        await until(lambda: not watch.is_running)

    run(scene)


def test_only_so_many_requests_are_under_way_at_once(mirror, run, device_id):
    under_way, most = 0, 0

    @httpx.MockTransport
    async def counted(request: httpx.Request) -> httpx.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        answer = await mirror.async_transport.handle_async_request(request)
        under_way -= 1
        return answer

    async def scene(client):
        await asyncio.gather(*(client.get_device(device_id) for _ in range(50)))

    run(scene, counted)
    assert 1 < most <= MAX_CONCURRENT


def test_without_an_asyncio_loop_it_is_a_clear_error():
    client = AsyncMirrorClient("localhost", "key")
    step = client.get_device("x")
    with pytest.raises(ConfigError, match="asyncio event loop"):
        step.send(None)
    asyncio.run(client.aclose())


def test_it_runs_on_uvloop(run, device_id):
    new_loop = pytest.importorskip("uvloop").new_event_loop
    assert run(lambda client: client.read_value(device_id, TEMPERATURE), loop_factory=new_loop) == 21.5
