"""Calls the asynchronous client and measures how long each call blocks its event loop; lines of JSON.

Arguments: URL, key, path of the resource that is written, the number to write. A line names a call; the response
contains the longest block. A concurrent task sleeps for a millisecond at a time. Its delay is the time for which the
loop was blocked by any thread. Time in which the loop's thread was ready while other programs occupied the machine does
not count.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mirror_sdk import AsyncMirrorClient

_TICK_SECONDS = 0.001
_TIMEOUT_SECONDS = 600
_IN_FLIGHT = 16


def without_a_core_seconds() -> float:
    """Return the time for which this thread was ready to run, but had no core."""
    return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9


class Ticker:
    """Measures the longest block of the loop since the last call."""

    def __init__(self) -> None:
        self._longest_seconds = 0.0

    async def run(self) -> None:
        at = time.perf_counter() - without_a_core_seconds()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            before, at = at, time.perf_counter() - without_a_core_seconds()
            self._longest_seconds = max(self._longest_seconds, at - before - _TICK_SECONDS)

    async def read(self) -> float:
        # A block that has just ended is noticed at the next tick.
        await asyncio.sleep(2 * _TICK_SECONDS)
        longest, self._longest_seconds = self._longest_seconds, 0.0
        return longest


async def main() -> None:
    url, key, path, value = sys.argv[1:]
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        results: dict[str, Any] = {}

        async def connect(client: AsyncMirrorClient) -> None:
            await stack.enter_async_context(client)
            results["lights"] = (await client.devices.list(endpoint_type="Light")).ids

        async def apply(_client: AsyncMirrorClient) -> None:
            done = await results["plan"].apply(concurrency=_IN_FLIGHT)
            assert set(done["status"]) == {"success"}, done["status"].value_counts()

        async def record(client: AsyncMirrorClient) -> None:
            async with await client.record(folder / "run.parquet"):
                pass

        calls: dict[str, Callable[[AsyncMirrorClient], Awaitable[Any]]] = {
            "connect": connect,
            "list_devices": lambda client: client.devices.list(),
            "state_frame": AsyncMirrorClient.state_frame,
            "snapshot": lambda client: client.fleet.snapshot(),
            "snapshot_dataset": lambda client: client.fleet.dataset(folder / "dataset", overwrite=True),
            "refresh": lambda client: client.fleet.refresh(results["snapshot"]),
            "events_frame": lambda client: client.notifications.events_frame(after=0, timeout=0),
            "plan": lambda client: client.plan([(each, path, int(value)) for each in results["lights"]]),
            "apply": apply,
            "record": record,
        }
        client = AsyncMirrorClient(url, key, timeout=_TIMEOUT_SECONDS)
        ticker = Ticker()
        ticking = asyncio.create_task(ticker.run())
        while line := await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
            name = json.loads(line)["call"]
            await ticker.read()
            # Later calls use the results of earlier ones.
            results[name] = await calls[name](client)
            print(json.dumps({"hold_ms": 1000 * await ticker.read()}), flush=True)
        ticking.cancel()


if __name__ == "__main__":
    asyncio.run(main())
