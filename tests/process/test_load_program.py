"""The load generator of the benchmarks gives a figure however slow the server is."""

import asyncio
import sys

import pytest
from process_server import ROOT


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.readline() == b"GET / HTTP/1.1\r\n":
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
    writer.close()


async def _measure(seconds: float) -> dict[str, object]:
    from load_program import run  # noqa: PLC0415 - it lies among the benchmarks

    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        requests = ["GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"]
        return await run({"ports": [port], "requests": requests, "connections": 1, "seconds": seconds})


def test_a_measurement_that_is_over_before_the_first_answer_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(ROOT / "tests" / "benchmarks")])
    measured = asyncio.run(_measure(seconds=0))
    assert measured["statuses"] == {204: 1}
    assert measured["p99_ms"]
