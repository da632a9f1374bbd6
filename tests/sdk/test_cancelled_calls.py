"""Cancelled calls of the asynchronous client close their connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from mirror_sdk import AsyncMirrorClient

AT_ONCE = 8
"""Number of requests that the client sends at a time."""
MOST_TURNS = 30
"""Maximum number of turns of the event loop that a call takes."""
NOTHING = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]"


class FastService:
    """A service that responds with an empty list, and counts its open connections."""

    def __init__(self) -> None:
        self.open_count = 0

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open_count += 1
        with suppress(OSError, asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(NOTHING)
        writer.close()
        self.open_count -= 1


async def cancel_after(client: AsyncMirrorClient, turns: int, times: int) -> None:
    """Cancel concurrent calls after ``turns`` turns of the event loop, ``times`` times."""
    calls = [asyncio.create_task(client.subscriptions.rules.list()) for _ in range(AT_ONCE)]
    for _ in range(turns):
        await asyncio.sleep(0)
    for _ in range(times):
        for call in calls:
            call.cancel()
        await asyncio.sleep(0)
    await asyncio.wait(calls)


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_calls_cancelled_at_any_moment_leave_no_connection_in_use(times: int) -> None:
    async def scene() -> None:
        service = FastService()
        async with service.served() as url, AsyncMirrorClient(url, "an-access-key", timeout=5) as client:
            await client.subscriptions.rules.list()
            for turns in range(MOST_TURNS):
                await cancel_after(client, turns, times)
            found = await asyncio.gather(*[client.subscriptions.rules.list() for _ in range(AT_ONCE)])
            assert found == [[]] * AT_ONCE
            while service.open_count > AT_ONCE:  # the service notices later that a connection was closed
                await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(scene(), 60))
