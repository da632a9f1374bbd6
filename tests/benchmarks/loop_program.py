"""Calls of the asynchronous client, and for how long each kept the other tasks of its loop waiting; lines of JSON.

Arguments: URL, key, path of the resource that is written, the number to write. A line names a call; the answer has the
longest hold and how long the call took. A task beside it asks to go on each millisecond: how much later it does is how
long the loop was held, by whichever thread. The time for which its thread could have gone on and the machine was busy
with other programs does not count.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mirror_sdk import AsyncMirrorClient

_TICK_SECONDS = 0.001
_TIMEOUT_SECONDS = 600
_IN_FLIGHT = 16


def without_a_core_seconds() -> float:
    """For how long this thread could have gone on up to now, and had no core."""
    return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9


class Ticker:
    """Tells for how long the loop was held at most since it was asked last."""

    def __init__(self) -> None:
        self._longest_seconds = 0.0

    async def run(self) -> None:
        at = time.perf_counter() - without_a_core_seconds()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            before, at = at, time.perf_counter() - without_a_core_seconds()
            self._longest_seconds = max(self._longest_seconds, at - before - _TICK_SECONDS)

    async def read(self) -> float:
        # What has just ended is seen at the next tick.
        await asyncio.sleep(2 * _TICK_SECONDS)
        longest, self._longest_seconds = self._longest_seconds, 0.0
        return longest


class Calls:
    """The calls, by their names; what one of them gives is there for those after it."""

    def __init__(self, stack: AsyncExitStack, url: str, key: str, path: str, value: int, folder: Path) -> None:
        self._stack = stack
        self._url = url
        self._key = key
        self._path = path
        self._folder = folder
        self._value = value
        self._kept: dict[str, Any] = {}

    async def connect(self) -> None:
        client = AsyncMirrorClient(self._url, self._key, timeout=_TIMEOUT_SECONDS)
        self._client = await self._stack.enter_async_context(client)
        self._lights = (await client.list_devices(endpoint_type="Light")).ids

    async def list_devices(self) -> None:
        self._kept["devices"] = await self._client.list_devices()

    async def get_device(self) -> None:
        await self._client.get_device(self._lights[0])

    async def explain(self) -> None:
        await self._client.explain(self._lights[0], self._path)

    async def state_frame(self) -> None:
        await self._client.state_frame()

    async def snapshot(self) -> None:
        self._kept["frame"] = await self._client.snapshot()

    async def snapshot_dataset(self) -> None:
        await self._client.snapshot_dataset(self._folder / "dataset", overwrite=True)

    async def refresh(self) -> None:
        self._kept["frame"] = await self._client.refresh(self._kept["frame"])

    async def plan(self) -> None:
        wanted = [(device_id, self._path, self._value) for device_id in self._lights]
        self._kept["plan"] = await self._client.plan(wanted)

    async def apply(self) -> None:
        done = await self._kept["plan"].apply(concurrency=_IN_FLIGHT)
        assert set(done["status"]) == {"success"}, done["status"].value_counts()

    async def undo(self) -> None:
        await self._kept["plan"].undo()

    async def save(self) -> None:
        await asyncio.to_thread(self._kept["plan"].save, self._folder / "plan.json")

    async def load_plan(self) -> None:
        await self._client.load_plan(self._folder / "plan.json")

    async def events(self) -> None:
        async for _ in self._client.events(after=0, timeout=0):
            pass

    async def events_frame(self) -> None:
        await self._client.events_frame(after=0, timeout=0)

    async def watch(self) -> None:
        async with await self._client.watch(lambda _: None):
            pass

    async def record(self) -> None:
        async with await self._client.record(self._folder / "run.parquet"):
            pass


async def main() -> None:
    url, key, path, value = sys.argv[1:]
    loop = asyncio.get_running_loop()
    with TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            calls = Calls(stack, url, key, path, int(value), Path(folder))
            ticker = Ticker()
            ticking = asyncio.create_task(ticker.run())
            while line := await loop.run_in_executor(None, sys.stdin.readline):
                call = getattr(calls, json.loads(line)["call"])
                await ticker.read()
                began = time.perf_counter()
                await call()
                seconds = time.perf_counter() - began
                print(json.dumps({"hold_ms": 1000 * await ticker.read(), "seconds": seconds}), flush=True)
            ticking.cancel()


if __name__ == "__main__":
    asyncio.run(main())
