"""Calls from other threads run on the loop once each, in order, at most a hundred without a break."""

import asyncio
import threading
from contextlib import closing

from mirror_server.web.asgi_bridge import LoopCallQueue

MANY = 1050


def test_concurrent_threads_lose_no_call_and_keep_their_order_on_the_loop_thread():
    made = []

    async def check():
        calls = LoopCallQueue(asyncio.get_running_loop())

        def call_all(first):
            for number in range(first, first + MANY):
                calls.submit(lambda number=number: made.append((number, threading.get_ident())))

        async with asyncio.timeout(60):
            await asyncio.gather(*(asyncio.to_thread(call_all, first * MANY) for first in range(4)))
            while len(made) < 4 * MANY:
                await asyncio.sleep(0)

    asyncio.run(check())
    assert sorted(made, key=lambda each: each[0] // MANY) == [(n, threading.get_ident()) for n in range(4 * MANY)]


def test_loop_runs_other_tasks_between_many_calls():
    order = []

    async def check():
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        calls = LoopCallQueue(loop)
        for number in range(250):
            calls.submit(lambda number=number: order.append(number))
        calls.submit(done.set)
        loop.call_soon(order.append, "other")
        await done.wait()

    asyncio.run(check())
    assert order.index("other") == 100
    assert [each for each in order if each != "other"] == list(range(250))


def test_call_on_a_stopped_loop_times_out_and_nothing_is_called_after_close():
    with closing(asyncio.new_event_loop()) as loop:
        calls = LoopCallQueue(loop)
        calls.submit(lambda: 1 / 0)
        calls.wait(0.001)
    calls.submit(lambda: 1 / 0)


def test_thread_waits_for_its_calls_and_the_tasks_they_wake():
    results = []

    async def check():
        calls = LoopCallQueue(asyncio.get_running_loop())
        woken = [asyncio.Event() for _ in range(MANY)]

        async def finish(number):
            await woken[number].wait()
            finished.append(number)

        def wake_and_wait():
            calls.wait(30)
            for event in woken:
                calls.submit(event.set)
            calls.wait(30)
            results.append(list(finished))

        for _ in range(2):
            finished: list[int] = []
            tasks = [asyncio.create_task(finish(number)) for number in range(MANY)]
            async with asyncio.timeout(60):
                await asyncio.sleep(0)
                await asyncio.to_thread(wake_and_wait)
                await asyncio.gather(*tasks)
            for event in woken:
                event.clear()

    asyncio.run(check())
    assert results == [list(range(MANY))] * 2
