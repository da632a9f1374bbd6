"""Parts of the asynchronous sender that have no synchronous counterpart: the request limit and cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx

from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk.errors import ConfigError

MAX_CONCURRENT = 8
"""The maximum number of concurrent requests, not counting held polls. httpx becomes slower with more requests."""
MAX_BYTES_ON_LOOP = 32 * 1024
"""The maximum size in bytes of a response that is parsed on the loop, which takes at most a millisecond.

A larger response is parsed in a thread. Starting a thread takes about 0.1 ms."""


class LoopLimiter:
    """The event loop to which a sender's connections belong, and the limit on its concurrent requests."""

    def __init__(self) -> None:
        self.preparing = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._prioritized: set[asyncio.Task[None]] = set()

    def require_loop(self) -> None:
        """Check that the current event loop is the one of the connections.

        Raises:
            ConfigError: Another event loop is running, or there is no running event loop.
        """
        loop = _running_loop()
        if self._loop is None:
            self._loop = loop
        if self._loop is not loop:
            raise ConfigError(
                "this client belongs to another event loop, such as an earlier asyncio.run(); make one for each loop"
            )

    def prioritize(self, task: asyncio.Task[None]) -> None:
        """Delay all other requests until this task of the running loop has ended. The task itself can send requests."""
        self._prioritized.add(task)
        task.add_done_callback(self._prioritized.discard)

    async def acquire(self, deadline: Deadline) -> None:
        """Wait until a slot is free and all prioritized tasks have ended.

        Raises:
            httpx.ReadTimeout: The timeout of the call expired.
        """
        # A prioritized task sends requests itself, so it must not wait for its own end.
        if self._prioritized and asyncio.current_task() not in self._prioritized:
            async with ends_with(deadline):
                await asyncio.wait(self._prioritized)
        async with ends_with(deadline):
            await self._slots.acquire()

    def release(self) -> None:
        """Release a slot."""
        self._slots.release()

    def cancel_prioritized(self) -> None:
        """Cancel all prioritized tasks."""
        with self.ended_loop_ignored():
            for task in list(self._prioritized):
                task.cancel()

    @contextmanager
    def ended_loop_ignored(self) -> Iterator[None]:
        """Ignore the error of a closed loop. Its connections have ended, and the error would hide a better one."""
        try:
            yield
        except RuntimeError:
            if self._loop is None or not self._loop.is_closed():
                raise


@asynccontextmanager
async def ends_with(deadline: Deadline) -> AsyncIterator[None]:
    """Cancel the block when the deadline of the call is reached.

    Raises:
        httpx.ReadTimeout: The deadline was reached.
    """
    try:
        async with asyncio.timeout(deadline.left):
            yield
    except TimeoutError as exc:
        raise httpx.ReadTimeout("the timeout of the call expired") from exc


@asynccontextmanager
async def closed_when_cancelled(request: httpx.Request) -> AsyncIterator[None]:
    """Close a connection if the block is cancelled during its TLS handshake, because httpcore leaves it open."""
    opened: list[Any] = []

    async def note(event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            opened.append(info["return_value"])
        elif event == "connection.start_tls.complete":
            # The TLS stream now owns the connection, and httpcore closes it.
            opened.clear()

    if request.url.scheme == "https":
        request.extensions["trace"] = note
    try:
        yield
    except BaseException:
        for connection in opened:
            await connection.aclose()
        raise


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigError(
            "AsyncMirrorClient needs a running asyncio event loop; with trio or without a loop use MirrorClient in a"
            " thread"
        ) from None
