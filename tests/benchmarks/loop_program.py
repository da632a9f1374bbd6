"""Calls of the asynchronous client, and for how long each kept all other tasks of its loop waiting; lines of JSON.

Arguments: URL, key. A line names the call; the answer has the longest hold and the seconds of the call. A task beside
it asks to go on each millisecond: how much later it does is how long the loop was held, by whatever thread.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mirror_sdk import AsyncMirrorClient

_TICK_SECONDS = 0.001
_TIMEOUT_SECONDS = 600
_FOLDER = Path.cwd()


class Ticker:
    """Tells for how long the loop was held at most since it was last asked."""

    def __init__(self) -> None:
        self._longest_seconds = 0.0

    async def run(self) -> None:
        at = time.perf_counter()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            before, at = at, time.perf_counter()
            self._longest_seconds = max(self._longest_seconds, at - before - _TICK_SECONDS)

    async def read(self) -> float:
        # A hold that has just ended is seen at the next turn.
        await asyncio.sleep(2 * _TICK_SECONDS)
        longest, self._longest_seconds = self._longest_seconds, 0.0
        return longest


class Calls:
    """The calls, by their names; what one leaves is there for those after it."""

    def __init__(self, client: AsyncMirrorClient, *, writes: int) -> None:
        self._client = client
        self._writes = writes
        self._frame: Any = None
        self._plan: Any = None

    async def list_devices(self) -> None:
        self._devices = await self._client.list_devices()

    async def get_device(self) -> None:
        await self._client.get_device(self._devices[0].id)

    async def explain(self) -> None:
        await self._client.explain(self._devices[0].id, "/3/0/0")

    async def state_frame(self) -> None:
        await self._client.state_frame()

    async def snapshot(self) -> None:
        self._frame = await self._client.snapshot()

    async def snapshot_dataset(self) -> None:
        await self._client.snapshot_dataset(_FOLDER / "dataset", overwrite=True)

    async def refresh(self) -> None:
        await self._client.refresh(self._frame)

    async def plan(self) -> None:
        lights = (await self._client.list_devices(endpoint_type="Light", limit=self._writes)).ids
        value = 10 + int(time.time()) % 80
        self._plan = await self._client.plan([(device_id, "/3311/0/5851", value) for device_id in lights])

    async def apply(self) -> None:
        done = await self._plan.apply(concurrency=16)
        assert (done["status"] == "success").all(), done["status"].value_counts()

    async def undo(self) -> None:
        await self._plan.undo()

    async def load_plan(self) -> None:
        await self._client.load_plan(_FOLDER / "plan.json")

    async def events_frame(self) -> None:
        self._frame2 = await self._client.events_frame(after=0, timeout=0)

    async def events(self) -> None:
        self._n = 0
        async for _ in self._client.events(after=0, timeout=0):
            self._n += 1

    async def watch(self) -> None:
        watch = await self._client.watch(lambda event: None)
        await watch.stop()

    async def record(self) -> None:
        recorder = await self._client.record(_FOLDER / f"{time.time()}.rec")
        await recorder.stop()


async def main() -> None:
    url, key, writes = sys.argv[1:]
    began = time.perf_counter()
    async with AsyncMirrorClient(url, key, timeout=_TIMEOUT_SECONDS) as client:
        print("constructor", round(1000*(time.perf_counter()-began)), file=sys.stderr)
        calls = Calls(client, writes=int(writes))
        ticker = Ticker()
        ticking = asyncio.create_task(ticker.run())
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            name = json.loads(line)["call"]
            call = getattr(calls, name)
            await ticker.read()
            began = time.perf_counter()
            await call()
            seconds = time.perf_counter() - began
            print(json.dumps({"call": name, "hold_ms": round(1000 * await ticker.read(),1), "seconds": round(seconds,2)}), flush=True)
            if name == "plan":
                calls._plan.save(_FOLDER / "plan.json")
            if name == "events":
                print(calls._n, file=sys.stderr)
        ticking.cancel()


asyncio.run(main())
