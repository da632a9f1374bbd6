"""The body of a response as it arrives on an event loop; the counterpart of ``arrival``.

A thread waits where it reads. Here a thread that reads has each piece fetched by the loop, and can be stopped.
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
from mirror_sdk._protocol.response_body import BUFFER_BYTES, Body, Unpacking

T = TypeVar("T")

_BYTES_A_TURN = 1024 * 1024
"""How many bytes of an answer that a thread reads as it arrives the loop gathers for it."""


async def read_arriving(
    read: Callable[[Mapping[str, str], io.BufferedReader[Any]], T], answer: httpx.Response, deadline: Deadline
) -> T:
    """Have the headers and the body read in a thread, the body as it arrives.

    When this is cancelled, the thread has ended before this does.
    """
    chunks = _Chunks(pieces_of(answer, deadline, _BYTES_A_TURN))
    body: io.BufferedReader[Any] = io.BufferedReader(Body(chunks), BUFFER_BYTES)
    # Reading takes a while, in which other tasks go on.
    reading = asyncio.ensure_future(asyncio.to_thread(read, answer.headers, body))
    try:
        return await asyncio.shield(reading)
    finally:
        chunks.stop()
        await asyncio.wait([reading])
        if not reading.cancelled():
            # Else it is reported as what nobody has looked at.
            reading.exception()


class _Chunks:
    """What arrives on the loop, for a thread to iterate over; none of it is fetched before it is wanted."""

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
            self._awaited = asyncio.run_coroutine_threadsafe(self._next(), self._loop)
        chunk = self._awaited.result()
        if chunk is None:
            raise StopIteration
        return chunk

    def stop(self) -> None:
        """Have the thread get an error for what it waits for, and whatever it wants next."""
        with self._lock:
            self._is_stopped = True
            if self._awaited is not None:
                self._awaited.cancel()

    async def _next(self) -> bytes | None:
        return await anext(self._chunks, None)


async def pieces_of(answer: httpx.Response, deadline: Deadline, at_once: int = 1) -> AsyncGenerator[bytes]:
    """The body as it arrives, decompressed, of so many bytes of it at least; some transports have read it already.

    To be closed where it is not read to its end: else that is a task of the loop, for which nobody waits.

    Raises:
        httpx.ReadTimeout: The time of the call is over.
    """
    unpacking = Unpacking(answer.headers)
    if answer.is_stream_consumed:
        yield answer.content
        return
    gathered = bytearray()
    async with aclosing(cast("AsyncGenerator[bytes]", answer.aiter_raw())) as arriving:
        while (raw := await _next_piece(arriving, deadline)) is not None:
            gathered += raw
            if len(gathered) >= at_once:
                for piece in unpacking.pieces(bytes(gathered)):
                    yield piece
                gathered.clear()
    for piece in unpacking.pieces(bytes(gathered)):
        yield piece


async def _next_piece(arriving: AsyncIterator[bytes], deadline: Deadline) -> bytes | None:
    deadline.begin_wait()
    async with ends_with(deadline):
        raw = await anext(arriving, None)
    deadline.arrived(len(raw or b""))
    return raw
