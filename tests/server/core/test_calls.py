"""Calls from other threads are made on the loop, each once and in order, a hundred at most without a break."""

import asyncio
import threading
from contextlib import closing

from mirror_server.web.bridge import LoopCallQueue

MANY = 1050


def test_threads_that_call_at_once_lose_none_and_each_keeps_its_order_on_the_thread_of_the_loop():
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


def test_others_have_their_turn_between_many_calls():
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


def test_of_a_loop_that_does_not_run_a_thread_waits_no_longer_than_it_says_and_nothing_is_called_after_its_end():
    with closing(asyncio.new_event_loop()) as loop:
        calls = LoopCallQueue(loop)
        calls.submit(lambda: 1 / 0)
        calls.wait(0.001)
    calls.submit(lambda: 1 / 0)


def test_a_thread_waits_until_its_calls_are_made_and_the_tasks_they_woke_have_run():
    seen = []

    async def check():
        calls = LoopCallQueue(asyncio.get_running_loop())
        woken = [asyncio.Event() for _ in range(MANY)]

        async def answer(number):
            await woken[number].wait()
            answered.append(number)

        def wake_and_wait():
            calls.wait(30)
            for event in woken:
                calls.submit(event.set)
            calls.wait(30)
            seen.append(list(answered))

        for _ in range(2):
            answered: list[int] = []
            tasks = [asyncio.create_task(answer(number)) for number in range(MANY)]
            async with asyncio.timeout(60):
                await asyncio.sleep(0)
                await asyncio.to_thread(wake_and_wait)
                await asyncio.gather(*tasks)
            for event in woken:
                event.clear()

    asyncio.run(check())
    assert seen == [list(range(MANY))] * 2
