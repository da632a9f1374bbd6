"""Tables that are fetched while DuckDB reads them."""

import asyncio

import pyarrow as pa
import pytest

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
