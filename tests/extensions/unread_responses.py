"""Long responses that no client reads."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from asgi_requests import Reader, until

from mirror_server.web.asgi_bridge import ASGIBridge


async def check_production_stops(
    bridge: ASGIBridge, key: str, path: tuple[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a long response without a reader is produced only as far as there is space."""
    made: list[Future[Any]] = []

    class Threads(ThreadPoolExecutor):
        def submit(self, *work: Any, **more: Any) -> Any:
            made.append(super().submit(*work, **more))
            return made[-1]

    with Threads(8) as threads:
        monkeypatch.setattr("mirror_server.extensions.downloads._THREADS", threads)
        deaf = [Reader(bridge, key, *path) for _ in range(3)]
        await until(lambda: all(each.sent for each in deaf) and bridge.backpressure.total_bytes > 100_000)
        # A batch counts with its maximum size while it is being made. Afterwards there may be space for the next.
        count = None
        while count != len(made):
            count = len(made)
            await until(lambda: all(each.done() for each in made))
            for _ in range(20):
                await asyncio.sleep(0)
        assert len(made) <= len(deaf)
        # It started when there was space, and its next batch waits for the client.
        assert 100_000 < bridge.backpressure.total_bytes < 1_000_000
        for each in deaf:
            each.may_read.set()
            each.disconnected.set()
            await each.end()
        assert bridge.backpressure.total_bytes == 0
