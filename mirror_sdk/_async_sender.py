"""Sends operations over httpx on an event loop; the twin of :mod:`mirror_sdk._sender`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import io
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, BinaryIO, Self, TypeVar, cast

import httpx

from mirror_sdk._answer_body import Gathering, Unpacking
from mirror_sdk._backoff import Backoff
from mirror_sdk._exchange import Answer, Operation, Received, hide_key
from mirror_sdk._reports import Contact
from mirror_sdk._sender import (
    BUFFER_BYTES,
    Body,
    client_headers,
    delay_before_next,
    lost,
    refuse_closed,
    request_arguments,
    unsendable,
)
from mirror_sdk.config import Settings, read_timeout
from mirror_sdk.errors import ConfigError, ConnectionFailed, MirrorError, UnexpectedAnswer

T = TypeVar("T")

MOST_AT_ONCE = 8
"""How many requests are under way at once, held polls aside: httpx gets slower with more."""


class AsyncSender:
    """A connection pool with the address and the access key, for one event loop."""

    def __init__(
        self,
        settings: Settings,
        *,
        timeout_seconds: float,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.contact = Contact()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._base_url = settings.base_url
        self._key = settings.api_key
        self._timeout_seconds = read_timeout(timeout_seconds)
        self._sleep = sleep
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)
        self._http = httpx.AsyncClient(
            headers=client_headers(settings),
            transport=transport,
            # To load all certificates takes longer than most answers, and http: uses none.
            verify=self._base_url.startswith("https:"),
        )

    async def aclose(self) -> None:
        """Close the connections; harmless when they are closed."""
        await self._http.aclose()

    async def send(self, operation: Operation[T]) -> T:
        """Send it and read the answer; see :meth:`mirror_sdk._sender.Sender.send`.

        Raises:
            APIError: The service refused.
            ClientClosed: It was closed.
            ConfigError: There is no asyncio event loop, or it is another one than before.
            ConnectionFailed: There was no answer, at the last attempt either.
            UnexpectedAnswer: What answered does not speak this interface.
        """
        self._require_loop()
        try:
            if operation.hold_seconds:
                return await self._send(operation)
            async with self._turns:
                return await self._send(operation)
        except MirrorError as error:
            hide_key(error, self._key.get_secret_value())
            raise

    async def receive(self, operation: Operation[None], read: Callable[[Mapping[str, str], BinaryIO], T]) -> T:
        """Send it and have the answer read as it arrives, in a thread; see :meth:`mirror_sdk._sender.Sender.receive`.

        When it is cancelled, the thread has ended before this does.

        Raises:
            APIError: The service refused.
            ClientClosed: It was closed.
            ConfigError: There is no asyncio event loop, or it is another one than before.
            ConnectionFailed: There was no answer, or it broke off.
            UnexpectedAnswer: What answered does not speak this interface.
        """
        self._require_loop()
        try:
            return await self._receive(operation, read)
        except MirrorError as error:
            hide_key(error, self._key.get_secret_value())
            raise

    async def _receive(self, operation: Operation[None], read: Callable[[Mapping[str, str], BinaryIO], T]) -> T:
        async with self._turns:
            answer = await self._repeat(operation, lambda: self._begin(operation))
            chunks = _Chunks(_pieces(answer, BUFFER_BYTES))
            body = io.BufferedReader(Body(chunks), BUFFER_BYTES)
            # Reading takes a while, in which other tasks go on.
            reading = asyncio.ensure_future(asyncio.to_thread(read, answer.headers, body))
            try:
                return await asyncio.shield(reading)
            except httpx.RequestError as exc:
                raise self._lost(operation, exc) from exc
            finally:
                chunks.stop()
                await asyncio.wait([reading])
                await answer.aclose()

    def _require_loop(self) -> None:
        """Make sure that this is the loop that the connections belong to."""
        loop = _running_loop()
        if self._loop is None:
            self._loop = loop
        if self._loop is not loop:
            raise ConfigError(
                "this client belongs to another event loop, such as that of an asyncio.run() before; make one for each"
            )

    async def _begin(self, operation: Operation[None]) -> httpx.Response:
        answer = await self._open(operation)
        if not answer.is_success:
            operation.finish(await self._read(operation, answer))
        return answer

    async def _send(self, operation: Operation[T]) -> T:
        async def attempt() -> T:
            return operation.finish(await self._exchange(operation))

        return await self._repeat(operation, attempt)

    async def _repeat(self, operation: Operation[Any], attempt: Callable[[], Awaitable[T]]) -> T:
        backoff = Backoff()
        for _ in range(operation.most_attempts - 1):
            try:
                return await attempt()
            except MirrorError as error:
                delay_seconds = delay_before_next(error, backoff)
                if delay_seconds is None:
                    raise
                await self._sleep(delay_seconds)
        return await attempt()

    async def _exchange(self, operation: Operation[Any]) -> Answer:
        return await self._read(operation, await self._open(operation))

    async def _open(self, operation: Operation[Any]) -> httpx.Response:
        """The answer without its body; it is to be closed."""
        refuse_closed(self._http)
        try:
            answer = await self._http.send(
                self._http.build_request(**request_arguments(operation, self._base_url, self._timeout_seconds)),
                stream=True,
            )
        except httpx.RequestError as exc:
            raise self._lost(operation, exc) from exc
        except httpx.InvalidURL as exc:
            raise unsendable(operation, exc) from exc
        self.contact.answered()
        return answer

    async def _read(self, operation: Operation[Any], answer: httpx.Response) -> Answer:
        """The answer with its body, and closed."""
        try:
            gathering = Gathering(answer)
            async with aclosing(_pieces(answer)) as pieces:
                async for piece in pieces:
                    gathering.add(piece)
            return Received(answer.status_code, answer.headers, gathering.content)
        except httpx.RequestError as exc:
            raise self._lost(operation, exc) from exc
        except UnexpectedAnswer:
            if answer.is_success:
                raise
            # A refusal is one by its status alone.
            return Received(answer.status_code, answer.headers, b"")
        finally:
            await answer.aclose()

    def _lost(self, operation: Operation[Any], exc: httpx.RequestError) -> ConnectionFailed:
        # Under an open request; the system's own words for it would mislead.
        refuse_closed(self._http)
        failure = lost(operation, self._base_url, exc)
        hide_key(failure, self._key.get_secret_value())
        self.contact.failed(failure)
        return failure


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


async def _pieces(answer: httpx.Response, raw_bytes: int | None = None) -> AsyncGenerator[bytes]:
    """The body as it arrives, decompressed, of so many bytes of it at a time; some transports have read it already.

    To be closed where it is not read to its end: else that is a task of the loop, for which nobody waits.
    """
    unpacking = Unpacking(answer.headers)
    if answer.is_stream_consumed:
        yield answer.content
        return
    async with aclosing(cast("AsyncGenerator[bytes]", answer.aiter_raw(raw_bytes))) as arriving:
        async for raw in arriving:
            for piece in unpacking.pieces(raw):
                yield piece


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigError(
            "AsyncMirrorClient runs on an asyncio event loop, and there is none here; with trio or without a loop use"
            " MirrorClient in a thread"
        ) from None
