"""Long responses that none of their clients takes."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from asgi_requests import Reader, until

from mirror_server.web.asgi_bridge import ASGIBridge


async def check_made_no_further(
    bridge: ASGIBridge, key: str, path: tuple[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long response that none of its clients takes is made as far as there is room."""
    made: list[Future[Any]] = []

    class Threads(ThreadPoolExecutor):
        def submit(self, *work: Any, **more: Any) -> Any:
            made.append(super().submit(*work, **more))
            return made[-1]

    with Threads(8) as threads:
        monkeypatch.setattr("mirror_server.extensions.downloads._THREADS", threads)
        deaf = [Reader(bridge, key, *path) for _ in range(3)]
        await until(lambda: all(each.sent for each in deaf) and bridge.backpressure.total_bytes > 100_000)
        # What is being made counts as much as it may become. When it is there, there may be room for the next.
        count = None
        while count != len(made):
            count = len(made)
            await until(lambda: all(each.done() for each in made))
            for _ in range(20):
                await asyncio.sleep(0)
        assert len(made) <= len(deaf)
        # It began when there was room, and what it makes next waits for the client.
        assert 100_000 < bridge.backpressure.total_bytes < 1_000_000
        for each in deaf:
            each.may_read.set()
            each.disconnected.set()
            await each.end()
        assert bridge.backpressure.total_bytes == 0
