"""Tables that are fetched while DuckDB reads them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import httpx
import pyarrow as pa
import pytest

from mirror_sdk._protocol.async_response_stream import read_streamed
from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk._run_in_thread import run_in_new_thread, run_in_thread
from mirror_sdk.sql.streams import StreamClosed, fetch_in_thread, fetch_on_loop

TABLE = pa.table({"a": [1]})


def test_fetch_waits_for_its_reader():
    put = []

    def work(sink):
        for number in range(20):
            sink(TABLE)
            put.append(number)

    stream = fetch_in_thread(work)
    tables = iter(stream)
    for read in range(1, 21):
        next(tables)
        # A few tables may be waiting, and one more may be on its way.
        assert len(put) <= read + 5
    assert list(tables) == []


def test_fetch_ends_when_no_more_tables_are_needed():
    ended = []

    def work(sink):
        try:
            while True:
                sink(TABLE)
        except StreamClosed:
            ended.append(True)
            raise

    stream = fetch_in_thread(work)
    next(iter(stream))
    stream.close()
    assert ended == [True]
    stream.close()


def test_error_of_a_fetch_follows_its_tables():
    def work(sink):
        sink(TABLE)
        raise OSError("it failed")

    tables = iter(fetch_in_thread(work))
    assert next(tables) is TABLE
    with pytest.raises(OSError, match="it failed"):
        next(tables)


def test_fetch_in_a_task_of_another_thread():
    async def work(sink):
        await asyncio.to_thread(sink, TABLE)

    async def scene():
        loop = asyncio.get_running_loop()
        return await asyncio.to_thread(lambda: list(fetch_on_loop(loop, work)))

    assert asyncio.run(scene()) == [TABLE]


async def put_one_by_one(sink):
    for _ in range(6):
        await run_in_thread(sink, TABLE)


async def put_while_read(sink):
    await read_streamed(lambda *_: [sink(TABLE) for _ in range(6)], httpx.Response(200, content=b""), Deadline(60))


@pytest.mark.parametrize("work", [put_one_by_one, put_while_read])
def test_fetch_that_waits_for_its_reader_occupies_no_thread_of_the_loop(work):
    async def scene():
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        streams = [fetch_on_loop(loop, work), fetch_on_loop(loop, work)]
        last_first = run_in_new_thread(lambda: [list(stream) for stream in reversed(streams)], "reader")
        try:
            return await asyncio.wait_for(asyncio.wrap_future(last_first), 60)
        finally:
            for stream in streams:
                stream.stop()

    assert asyncio.run(scene()) == [[TABLE] * 6] * 2
