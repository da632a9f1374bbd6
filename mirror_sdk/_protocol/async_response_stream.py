"""The body of a response while it arrives on an event loop. ``response_stream`` is the synchronous counterpart.

A synchronous reader waits for the network itself. With an event loop, the loop fetches each chunk for a reading thread,
which can be stopped.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import io
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Self, TypeVar, cast

import httpx

from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk._protocol.event_loop import ends_with
from mirror_sdk._protocol.response_body import BUFFER_BYTES, Body, Decompressor
from mirror_sdk._run_in_thread import to_thread

T = TypeVar("T")

_CHUNK_BYTES = 1024 * 1024
"""The number of bytes of a response that the loop collects before it passes them to the reading thread."""


async def read_streamed(
    read: Callable[[Mapping[str, str], io.BufferedReader[Any]], T], response: httpx.Response, deadline: Deadline
) -> T:
    """Read the headers and the body of a response in a thread, while the body arrives.

    A cancelled call waits until the thread has ended.
    """
    chunks = _Chunks(iter_chunks(response, deadline, _CHUNK_BYTES))
    body: io.BufferedReader[Any] = io.BufferedReader(Body(chunks), BUFFER_BYTES)
    # In a thread, because reading takes a while and other tasks must continue.
    reading = asyncio.ensure_future(to_thread(read, response.headers, body))
    try:
        return await asyncio.shield(reading)
    finally:
        # The thread must end first, because the caller closes the response next.
        chunks.stop()
        await asyncio.wait([reading])
        if not reading.cancelled():
            # Otherwise asyncio would report that the exception of the thread was never retrieved.
            reading.exception()


class _Chunks:
    """The chunks of a response, which the loop fetches on demand for a thread that iterates over them."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._is_stopped = False
        self._awaited: concurrent.futures.Future[bytes | None] | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        with self._lock:
            if self._is_stopped:
                raise concurrent.futures.CancelledError
            # Within the lock, so that `stop` either cancels this wait or prevents it.
            self._awaited = asyncio.run_coroutine_threadsafe(self._next(), self._loop)
        chunk = self._awaited.result()
        if chunk is None:
            raise StopIteration
        return chunk

    def stop(self) -> None:
        """Cancel the current wait of the thread, and let all later ones fail."""
        with self._lock:
            self._is_stopped = True
            if self._awaited is not None:
                self._awaited.cancel()

    async def _next(self) -> bytes | None:
        return await anext(self._chunks, None)


async def iter_chunks(response: httpx.Response, deadline: Deadline, min_bytes: int = 1) -> AsyncGenerator[bytes]:
    """Yield the decompressed body of a response while it arrives. Some transports have already read it.

    Each chunk contains at least ``min_bytes`` compressed bytes. Close this generator if you do not read it to the end.
    Otherwise the loop closes it in a task that no code awaits.

    Raises:
        httpx.ReadTimeout: The timeout of the call expired.
    """
    decompressor = Decompressor(response.headers)
    if response.is_stream_consumed:
        yield response.content
        return
    collected = bytearray()
    async with aclosing(cast("AsyncGenerator[bytes]", response.aiter_raw())) as arriving:
        while (raw := await _next_chunk(arriving, deadline)) is not None:
            collected += raw
            if len(collected) >= min_bytes:
                for chunk in decompressor.decompress(bytes(collected)):
                    yield chunk
                collected.clear()
    for chunk in decompressor.decompress(bytes(collected)):
        yield chunk


async def _next_chunk(arriving: AsyncIterator[bytes], deadline: Deadline) -> bytes | None:
    deadline.begin_wait()
    async with ends_with(deadline):
        raw = await anext(arriving, None)
    deadline.arrived(len(raw or b""))
    return raw
