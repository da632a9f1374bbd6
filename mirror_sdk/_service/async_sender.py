"""Sends operations over httpx on an event loop; the twin of :mod:`mirror_sdk._service.sender`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import io
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any, Self, TypeVar, cast

import httpx

from mirror_sdk._fork import Connections, leave_to_parent, tell_in_child
from mirror_sdk._off_loop import off_loop
from mirror_sdk._service.answer_body import Gathering, Unpacking
from mirror_sdk._service.async_network import AsyncNetwork
from mirror_sdk._service.deadline import Deadline, Pace, left_of
from mirror_sdk._service.defaults import DEFAULT_MAX_RETRIES
from mirror_sdk._service.moments import Moments
from mirror_sdk._service.operation import Answer, Operation, Received, hide_key, hint_at_demo
from mirror_sdk._service.retries import Retries
from mirror_sdk._service.sender import (
    BUFFER_BYTES,
    Body,
    client_headers,
    deadline_of,
    forget_body,
    lost,
    refuse_closed,
    request_of,
    require_time,
    take_cookies,
)
from mirror_sdk._service.status import Contact
from mirror_sdk._service.steps import Pause
from mirror_sdk.config import Settings, read_max_retries, read_timeout
from mirror_sdk.errors import ConfigError, ConnectionFailed, InvalidValue, MirrorError, UnexpectedAnswer
from mirror_sdk.wire.errors import ErrorBody

T = TypeVar("T")

MOST_AT_ONCE = 8
"""How many requests are under way at once, held polls aside: httpx gets slower with more."""
MOST_BYTES_ON_LOOP = 32 * 1024
"""The most bytes of an answer that is read on the loop, which takes a millisecond at most.

To have a thread read it takes a tenth of that."""
_BYTES_A_TURN = 1024 * 1024
"""How many bytes of an answer that a thread reads as it arrives the loop gathers for it."""


class AsyncSender:
    """A connection pool with the address and the access key, for one event loop.

    A child process gets a pool of its own, for a loop of its own; see :class:`mirror_sdk._service.sender.Sender`.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        timeout_seconds: float,
        max_retries: int = DEFAULT_MAX_RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.contact: Contact = Contact()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._base_url = settings.base_url
        self._key = settings.api_key
        self._timeout_seconds = read_timeout(timeout_seconds)
        self._max_retries = read_max_retries(max_retries)
        self._clock = clock
        self._sleep = sleep
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)
        self._ahead: set[asyncio.Task[None]] = set()
        self._headers = client_headers(settings)
        self._transport = transport
        self._network: AsyncNetwork | None = None
        self.moments: Moments = Moments()
        self._before: tuple[httpx.AsyncBaseTransport | None, _Pool | None] | None = None
        self._preparing = asyncio.Lock()
        self._is_prepared = False
        self._connections = Connections()
        self._pool: _Pool | None = self._new_pool()
        tell_in_child(self)

    def _begin_in_child(self) -> None:
        """Leave the connections and the loop to the parent."""
        self._connections.close_in_child()
        self._loop = None
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)
        self._ahead = set()
        self._preparing = asyncio.Lock()
        if self._transport is None and self._pool is not None and not self._pool.is_closed:
            # Its end would take the connections out of the parent's loop, which waits for them in the kernel.
            leave_to_parent(self._pool)
            self._pool = self._network = None
            self._is_prepared = False

    def _new_pool(self) -> _Pool:
        if self._transport is None:
            self._network = AsyncNetwork(self._base_url)
        return _Pool(self._headers, self.carrier)

    @property
    def _http(self) -> _Pool:
        """The pool; in a child it is made when it is wanted, for most of them never send anything."""
        if self._pool is None:
            self._pool = self._new_pool()
        return self._pool

    async def prepare(self) -> None:
        """Have done in a thread what is done once and would hold the loop; to be called before anything is sent.

        Raises:
            ClientClosed: It was closed.
            ConfigError: The certificates that the environment names cannot be read, or as for :meth:`send`.
        """
        if self._is_prepared:
            return
        self._require_loop()
        refuse_closed(self._http)
        async with self._preparing:
            if not self._is_prepared:
                await off_loop(self._prepare)

    def _prepare(self) -> None:
        # With the first of all models pydantic looks for plugins among all that is installed.
        ErrorBody.model_rebuild()
        if self._network is not None:
            self._network.open()
        self._is_prepared = True

    async def aclose(self) -> None:
        """Close the connections; harmless when they are closed. Those of an event loop that has ended are dropped."""
        with _ended_loop_ignored(self._loop):
            for task in list(self._ahead):
                task.cancel()
        with _ended_loop_ignored(self._loop):
            await self._http.aclose()

    @property
    def is_on_network(self) -> bool:
        """Whether requests are carried by the network, and by no transport that was given or inserted."""
        return self._transport is None

    @property
    def timeout_seconds(self) -> float:
        """How long a call may take that is given no limit of its own."""
        return self._timeout_seconds

    @property
    def base_url(self) -> str:
        """Address of the service."""
        return self._base_url

    @property
    def base_path(self) -> str:
        """The path of that address."""
        return httpx.URL(self._base_url).path.rstrip("/")

    @property
    def api_key(self) -> str:
        """The access key."""
        return self._key.get_secret_value()

    @property
    def carrier(self) -> httpx.AsyncBaseTransport:
        """What carries the requests."""
        return self._transport or self._network or AsyncNetwork(self._base_url)

    def insert(self, transport: httpx.AsyncBaseTransport, moments: Moments) -> None:
        """Have requests carried by another transport; see :meth:`mirror_sdk._service.sender.Sender.insert`.

        Raises:
            ClientClosed: It was closed.
            InvalidValue: That is so already.
        """
        refuse_closed(self._http)
        if self._before is not None:
            raise InvalidValue("there is a cassette in this client; end its block first")
        self._before = self._transport, self._pool
        self._transport, self.moments = transport, moments
        self._pool = self._new_pool()

    async def take_out(self) -> None:
        """Have requests carried as before; what was closed meanwhile stays closed."""
        inserted = self._pool
        if self._before is not None:
            (self._transport, self._pool), self._before = self._before, None
        self.moments = Moments()
        if inserted is not None and inserted.is_closed:
            await self._http.aclose()

    def let_ahead(self, task: asyncio.Task[None]) -> None:
        """Send nothing else before this task of the running loop, which sends by this too, has ended."""
        self._ahead.add(task)
        task.add_done_callback(self._ahead.discard)

    def whole(self, timeout: float | None) -> Deadline | None:
        """The end of a call that begins now and sends a number of requests; ``None`` leaves each the client's time-out.

        Raises:
            InvalidValue: It is no limit.
        """
        return None if timeout is None else self.deadline(timeout)

    def to_place(self, wait: Deadline | None) -> Deadline | None:
        """How long the placing of a request may take whose answer is then waited for; ``None`` is the client's."""
        return wait if wait and wait < self._timeout_seconds else None

    def deadline(self, timeout: float | None) -> Deadline:
        """The end of a call; see :meth:`mirror_sdk._service.sender.Sender.deadline`.

        Raises:
            InvalidValue: It is no limit.
        """
        return deadline_of(self._timeout_seconds if timeout is None else timeout, self._clock)

    async def send(self, operation: Operation[T], timeout: float | None = None) -> T:
        """Send it and read the answer; see :meth:`mirror_sdk._service.sender.Sender.send`.

        Raises:
            APIError: The service refused.
            CallTimeout: It took too long.
            ClientClosed: It was closed.
            ConfigError: There is no asyncio event loop, or it is another one than before.
            ConnectionFailed: There was no answer, at the last attempt either.
            UnexpectedAnswer: What answered does not speak this interface.
        """
        self._require_loop()
        usual = min(self._timeout_seconds + operation.hold_seconds, operation.within_seconds, key=left_of)
        deadline = self.deadline(usual if timeout is None else timeout)
        try:
            if operation.hold_seconds:
                return await self._send(operation, deadline)
            async with self._turn(operation, deadline):
                return await self._send(operation, deadline)
        except MirrorError as error:
            hint_at_demo(error, self._base_url)
            hide_key(error, self._key.get_secret_value())
            raise

    async def receive(
        self,
        operation: Operation[None],
        read: Callable[[Mapping[str, str], io.BufferedReader[Any]], T],
        timeout: float | None = None,
    ) -> T:
        """Send it and have the answer read as it arrives, in a thread.

        See :meth:`mirror_sdk._service.sender.Sender.receive`.


        When it is cancelled, the thread has ended before this does.

        Raises:
            APIError: The service refused.
            CallTimeout: It took too long.
            ClientClosed: It was closed.
            ConfigError: There is no asyncio event loop, or it is another one than before.
            ConnectionFailed: There was no answer, or it broke off.
            UnexpectedAnswer: What answered does not speak this interface.
        """
        self._require_loop()
        deadline = Pace(self._timeout_seconds, self._clock) if timeout is None else self.deadline(timeout)
        try:
            return await self._receive(operation, read, deadline)
        except MirrorError as error:
            hint_at_demo(error, self._base_url)
            hide_key(error, self._key.get_secret_value())
            raise

    async def pause(self, pause: Pause, deadline: Deadline) -> None:
        """Wait between two requests of a call.

        Raises:
            CallTimeout: The call has no time for that.
        """
        require_time(pause, deadline)
        await self._sleep(pause.seconds)

    async def _receive(
        self,
        operation: Operation[None],
        read: Callable[[Mapping[str, str], io.BufferedReader[Any]], T],
        deadline: Deadline,
    ) -> T:
        async with self._turn(operation, deadline):
            answer = await self._repeat(operation, deadline, lambda: self._begin(operation, deadline))
            chunks = _Chunks(_pieces(answer, deadline, _BYTES_A_TURN))
            body: io.BufferedReader[Any] = io.BufferedReader(Body(chunks), BUFFER_BYTES)
            # Reading takes a while, in which other tasks go on.
            reading = asyncio.ensure_future(asyncio.to_thread(read, answer.headers, body))
            try:
                return await asyncio.shield(reading)
            except httpx.RequestError as exc:
                raise self._lost(operation, exc, deadline) from exc
            finally:
                chunks.stop()
                await asyncio.wait([reading])
                if not reading.cancelled():
                    # Else it is reported as what nobody has looked at.
                    reading.exception()
                await answer.aclose()
                forget_body(answer)

    @asynccontextmanager
    async def _turn(self, operation: Operation[Any], deadline: Deadline) -> AsyncIterator[None]:
        """One of the turns, as soon as one is free and what goes ahead has ended."""
        deadline.begin_attempt()
        if self._ahead and asyncio.current_task() not in self._ahead:
            await self._within(operation, deadline, asyncio.wait(self._ahead))
        await self._within(operation, deadline, self._turns.acquire())
        try:
            yield
        finally:
            self._turns.release()

    async def _within(self, operation: Operation[Any], deadline: Deadline, doing: Awaitable[T]) -> T:
        """What is done before the call is over."""
        try:
            async with _ends_with(deadline):
                return await doing
        except httpx.RequestError as exc:
            raise self._lost(operation, exc, deadline) from exc

    def _require_loop(self) -> None:
        """Make sure that this is the loop that the connections belong to."""
        loop = _running_loop()
        if self._loop is None:
            self._loop = loop
        if self._loop is not loop:
            raise ConfigError(
                "this client belongs to another event loop, such as that of an asyncio.run() before; make one for each"
            )

    async def _begin(self, operation: Operation[None], deadline: Deadline) -> httpx.Response:
        answer = await self._open(operation, deadline)
        if not answer.is_success:
            operation.finish(await self._read(operation, answer, deadline))
        return answer

    async def _send(self, operation: Operation[T], deadline: Deadline) -> T:
        async def attempt() -> T:
            answer = await self._exchange(operation, deadline)
            if len(answer.content) <= MOST_BYTES_ON_LOOP:
                return operation.finish(answer)
            return await off_loop(operation.finish, answer)

        return await self._repeat(operation, deadline, attempt)

    async def _repeat(self, operation: Operation[Any], deadline: Deadline, attempt: Callable[[], Awaitable[T]]) -> T:
        retries = Retries(
            operation.most_attempts(self._max_retries),
            self._timeout_seconds,
            deadline,
            outlasts_loss=operation.outlasts_loss,
        )
        while True:
            deadline.begin_attempt()
            try:
                return await attempt()
            except MirrorError as error:
                pause_seconds = retries.pause_after(error)
            await self._sleep(pause_seconds)

    async def _exchange(self, operation: Operation[Any], deadline: Deadline) -> Answer:
        return await self._read(operation, await self._open(operation, deadline), deadline)

    async def _open(self, operation: Operation[Any], deadline: Deadline) -> httpx.Response:
        """The answer without its body; it is to be closed."""
        await self.prepare()
        http = self._http
        refuse_closed(http)
        request = request_of(http, operation, self._base_url, self._timeout_seconds, deadline)
        async with _closed_when_cancelled(request):
            answer = await self._within(operation, deadline, http.carrier.handle_async_request(request))
        take_cookies(http, request, answer)
        self._connections.note(answer.extensions.get("network_stream"))
        self.contact.answered()
        return answer

    async def _read(self, operation: Operation[Any], answer: httpx.Response, deadline: Deadline) -> Answer:
        """The answer with its body, and closed."""
        try:
            gathering = Gathering(answer)
            async with aclosing(_pieces(answer, deadline)) as pieces:
                async for piece in pieces:
                    gathering.add(piece)
            return Received(answer.status_code, answer.headers, gathering.content)
        except httpx.RequestError as exc:
            raise self._lost(operation, exc, deadline) from exc
        except UnexpectedAnswer:
            if answer.is_success:
                raise
            # A refusal is one by its status alone.
            return Received(answer.status_code, answer.headers, b"")
        finally:
            await answer.aclose()
            forget_body(answer)

    def _lost(self, operation: Operation[Any], exc: httpx.RequestError, deadline: Deadline) -> ConnectionFailed:
        # Under an open request; the system's own words for it would mislead.
        refuse_closed(self._http)
        failure = lost(operation, self._base_url, exc, deadline)
        hide_key(failure, self._key.get_secret_value())
        self.contact.failed(failure)
        return failure


class _Pool(httpx.AsyncClient):
    """The headers and cookies of all requests, and what carries them."""

    def __init__(self, headers: dict[str, str], carrier: httpx.AsyncBaseTransport) -> None:
        super().__init__(headers=headers, transport=carrier)
        self.carrier = carrier


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


async def _pieces(answer: httpx.Response, deadline: Deadline, at_once: int = 1) -> AsyncGenerator[bytes]:
    """The body as it arrives, decompressed, of so many bytes of it at least; some transports have read it already.

    To be closed where it is not read to its end: else that is a task of the loop, for which nobody waits.
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
    async with _ends_with(deadline):
        raw = await anext(arriving, None)
    deadline.arrived(len(raw or b""))
    return raw


@asynccontextmanager
async def _closed_when_cancelled(request: httpx.Request) -> AsyncIterator[None]:
    """Closes a connection that is cancelled while it is being encrypted, which httpcore leaves open."""
    begun: list[Any] = []

    async def note(event: str, about: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            begun.append(about["return_value"])
        elif event == "connection.start_tls.complete":
            begun.clear()

    if request.url.scheme == "https":
        request.extensions["trace"] = note
    try:
        yield
    except BaseException:
        for connection in begun:
            await connection.aclose()
        raise


@asynccontextmanager
async def _ends_with(deadline: Deadline) -> AsyncIterator[None]:
    """Cancels what is within when the time of the call is over.

    Raises:
        httpx.ReadTimeout: It was.
    """
    try:
        async with asyncio.timeout(deadline.left):
            yield
    except TimeoutError as exc:
        raise httpx.ReadTimeout("the time of the call is over") from exc


@contextmanager
def _ended_loop_ignored(loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
    """Ignore that a loop is closed: its connections ended with it, and the error would hide a more helpful one."""
    try:
        yield
    except RuntimeError:
        if loop is None or not loop.is_closed():
            raise


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigError(
            "AsyncMirrorClient runs on an asyncio event loop, and there is none here; with trio or without a loop use"
            " MirrorClient in a thread"
        ) from None
