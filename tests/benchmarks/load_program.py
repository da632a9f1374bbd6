"""The load generator: a separate process that reads and writes lines of JSON.

Each command names ports, requests as text, a number of keep-alive connections and seconds. Every connection sends the
next request as soon as it has the last response. All sides use this program, so that it slows none of them more.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections import Counter
from typing import Any

import httptools
from measuring import percentile

_LAST_SECONDS = 10


class Load:
    """The load of one server for a limited time."""

    def __init__(self, command: dict[str, Any]) -> None:
        self.ports = itertools.cycle(command["ports"])
        self.requests = itertools.cycle([text.encode() for text in command["requests"]])
        self.seconds: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.over = False
        self.open = 0
        self.responded = asyncio.Event()
        self.ended = asyncio.Event()

    async def connect(self) -> None:
        await asyncio.get_running_loop().create_connection(lambda: Connection(self), "127.0.0.1", next(self.ports))


class Connection(asyncio.Protocol):
    """One keep-alive connection; a server that closes it gets a new one."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._load.open += 1
        self._send()

    def _send(self) -> None:
        self._began = time.perf_counter()
        self._transport.write(next(self._load.requests))

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        if self._load.over:
            self._transport.close()
            return
        self._load.seconds.append(time.perf_counter() - self._began)
        self._load.responded.set()
        self._load.statuses[self._parser.get_status_code()] += 1
        if self._parser.should_keep_alive():
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        self._load.open -= 1
        if not self._load.over:
            asyncio.get_running_loop().create_task(self._load.connect())
        elif self._load.open == 0:
            self._load.ended.set()


async def run(command: dict[str, Any]) -> dict[str, Any]:
    load = Load(command)
    for _ in range(command["connections"]):
        await load.connect()
    began, busy = time.perf_counter(), time.process_time()
    await asyncio.sleep(command["seconds"])
    # On a slow machine the first response may take longer than the measurement.
    await asyncio.wait_for(load.responded.wait(), _LAST_SECONDS)
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    load.over = True
    await asyncio.wait_for(load.ended.wait(), _LAST_SECONDS)
    return {
        "rate": len(load.seconds) / seconds,
        "p50_ms": 1000 * percentile(load.seconds, 0.5),
        "p99_ms": 1000 * percentile(load.seconds, 0.99),
        "busy": busy / seconds,
        "statuses": load.statuses,
    }


def main() -> None:
    for line in sys.stdin:
        print(json.dumps(asyncio.run(run(json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
