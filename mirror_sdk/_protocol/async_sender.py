"""Sends operations over httpx; the only module that sends HTTP and translates its errors."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import httpx

from mirror_sdk._fork import Connections, Lock, abandon_in_child, register_fork_handler
from mirror_sdk._protocol.async_network import AsyncNetwork
from mirror_sdk._protocol.async_response_stream import iter_chunks, read_streamed
from mirror_sdk._protocol.client_clock import ClientClock
from mirror_sdk._protocol.deadline import Deadline, Pace, left_of
from mirror_sdk._protocol.defaults import DEFAULT_MAX_RETRIES
from mirror_sdk._protocol.event_loop import MAX_BYTES_ON_LOOP, LoopLimiter, closed_when_cancelled, ends_with
from mirror_sdk._protocol.flow import Sleep
from mirror_sdk._protocol.http_messages import (
    forget_body,
    request_of,
    store_cookies,
)
from mirror_sdk._protocol.operation_base import HTTPResponse, Operation, Received
from mirror_sdk._protocol.response_body import BodyCollector
from mirror_sdk._protocol.sender_base import SenderBase
from mirror_sdk._run_in_thread import run_in_thread
from mirror_sdk.config import ClientSettings
from mirror_sdk.errors import InvalidValue, MirrorError, UnexpectedResponse
from mirror_sdk.wire.errors import ErrorBody

T = TypeVar("T")


class AsyncSender(SenderBase):
    """A connection pool with the address and the access key, for any number of tasks of one event loop.

    A child process gets its own pool; a transport that was passed stays, without its earlier connections.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        timeout_seconds: float,
        max_retries: int = DEFAULT_MAX_RETRIES,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        super().__init__(settings, timeout_seconds, max_retries, clock)
        self._sleep = sleep
        self._limiter = LoopLimiter()  # asynchronous alone: threads send whenever they want to
        self._is_prepared = False  # asynchronous alone
        self._transport = transport
        self._connections = Connections()
        # Guards both pools: in a child process, several threads may need the first pool at once.
        self._making = Lock()
        self._pool: _Pool | None = self._new_pool()
        self._before: _Pool | None = None
        register_fork_handler(self)

    def _after_fork_in_child(self) -> None:
        """Leave the connections to the parent."""
        self._connections.close_in_child()
        self._limiter = LoopLimiter()  # asynchronous alone: the loop is the parent's, too
        pool = self._pool
        # A closed client stays closed in the child, and a transport that was passed is used there, too.
        if pool is not None and isinstance(pool.carrier, AsyncNetwork) and not pool.is_closed:
            # Its end would take the connections out of the parent's loop, which waits for them in the kernel.
            abandon_in_child(pool)  # asynchronous alone
            self._is_prepared = False  # asynchronous alone
            self._pool = None

    def _new_pool(self) -> _Pool:
        return _Pool(self._headers, self._transport or AsyncNetwork(self.base_url))

    @property
    def _http(self) -> _Pool:
        """The pool.

        A child process makes its own pool when it first sends something. Most children never send anything.
        """
        with self._making:
            if self._pool is None:
                self._pool = self._new_pool()
            return self._pool

    async def prepare(self) -> None:  # asynchronous alone
        """Do in a thread the work before the first request that would block the loop.

        Raises:
            ClientClosed: It was closed.
            ConfigError: The certificates that the environment names cannot be read, or as for :meth:`send`.
        """
        if self._is_prepared:
            return
        self._limiter.require_loop()
        self.require_open()
        async with self._limiter.preparing:
            if not self._is_prepared:
                await run_in_thread(self._prepare)

    def _prepare(self) -> None:  # asynchronous alone
        # With the first model pydantic searches all installed packages for plugins.
        ErrorBody.model_rebuild()
        carrier = (self._before or self._http).carrier
        if isinstance(carrier, AsyncNetwork):
            carrier.open()
        self._is_prepared = True

    async def aclose(self) -> None:
        """Close the connections, also twice. Those of an event loop that has ended are dropped."""
        self._limiter.cancel_prioritized()  # asynchronous alone
        with self._limiter.ended_loop_ignored():
            await self._http.aclose()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._http.is_closed

    @property
    def is_on_network(self) -> bool:
        """Whether requests go over the network, and not to another transport."""
        return isinstance(self.carrier, AsyncNetwork)

    @property
    def carrier(self) -> httpx.AsyncBaseTransport:
        """The transport of the requests."""
        return self._http.carrier

    def replace_transport(self, transport: httpx.AsyncBaseTransport, clock: ClientClock) -> None:
        """Send requests to another transport with its own clock, until :meth:`restore_transport`.

        Raises:
            ClientClosed: It was closed.
            InvalidValue: The transport is replaced already.
        """
        self.require_open()
        # Before the lock, which the property acquires itself.
        before = self._http
        with self._making:
            if self._before is not None:
                raise InvalidValue("the client already uses a cassette; end that with block first")
            self._before, self._pool = before, _Pool(self._headers, transport)
            self.clock: ClientClock = clock

    async def restore_transport(self) -> None:
        """Use the original transport again; a client that was closed in between stays closed."""
        is_closed = self.is_closed
        with self._making:
            self._pool, self._before = self._before, None
            self.clock = ClientClock()
        if is_closed:
            await self._http.aclose()

    def prioritize(self, task: asyncio.Task[None]) -> None:  # asynchronous alone
        """Send no other requests before this task of the running loop, which sends some itself, has ended."""
        self._limiter.prioritize(task)

    async def send(self, operation: Operation[T], timeout: float | None = None) -> T:
        """Send an operation and read the response. If the response was lost and a repetition is safe, send it again.

        Args:
            operation: The operation.
            timeout: How long all of it may take; ``None`` is the client's limit plus the hold of the operation.

        Raises:
            APIError: The service responded with an error.
            CallTimeout: It took too long.
            ClientClosed: It was closed.
            ConfigError: No asyncio event loop is running, or the client has already used a different loop.
            ConnectionFailed: There was no response, not even at the last attempt.
            UnexpectedResponse: The response does not follow this interface.
        """
        self._limiter.require_loop()  # asynchronous alone
        usual = min(self.timeout_seconds + operation.hold_seconds, operation.within_seconds, key=left_of)
        deadline = self.deadline(usual if timeout is None else timeout)

        async def attempt() -> T:
            response = await self._read(operation, await self._open(operation, deadline), deadline)
            if len(response.content) > MAX_BYTES_ON_LOOP:  # asynchronous alone
                return await run_in_thread(operation.finish, response)
            return operation.finish(response)

        with self.explaining():
            async with self._slot(operation, deadline):
                return await self._repeat(operation, deadline, attempt)

    async def receive(
        self,
        operation: Operation[None],
        read: Callable[[Mapping[str, str], io.BufferedReader[Any]], T],
        timeout: float | None = None,
    ) -> T:
        """Send an operation and read the response as it arrives. Once the response has started, nothing is sent again.

        Args:
            operation: The operation.
            read: Takes the headers and the body, in a thread.
            timeout: How long all of it may take; with ``None`` the client's limit applies to each step of the response.

        Raises:
            APIError: The service responded with an error.
            CallTimeout: It took too long.
            ClientClosed: It was closed.
            ConfigError: No asyncio event loop is running, or the client has already used a different loop.
            ConnectionFailed: There was no response, or it broke off.
            UnexpectedResponse: The response does not follow this interface.
        """
        self._limiter.require_loop()  # asynchronous alone
        deadline = Pace(self.timeout_seconds, self._clock) if timeout is None else self.deadline(timeout)
        with self.explaining():
            async with self._slot(operation, deadline):
                response = await self._repeat(operation, deadline, lambda: self._start(operation, deadline))
                try:
                    return await read_streamed(read, response, deadline)
                except httpx.RequestError as exc:
                    raise self.lost(operation, exc, deadline) from exc
                finally:
                    await response.aclose()
                    forget_body(response)

    async def pause(self, pause: Sleep, deadline: Deadline) -> None:
        """Wait between two requests of a call.

        Raises:
            CallTimeout: The call has no time left for the pause.
        """
        self.require_time(pause, deadline)
        await self._sleep(pause.seconds)

    @asynccontextmanager
    async def _slot(self, operation: Operation[Any], deadline: Deadline) -> AsyncIterator[None]:  # asynchronous alone
        """Use one of the slots for concurrent requests; a held poll needs none."""
        if operation.hold_seconds:
            yield
            return
        deadline.begin_attempt()
        try:
            await self._limiter.acquire(deadline)
        except httpx.RequestError as exc:
            raise self.lost(operation, exc, deadline) from exc
        try:
            yield
        finally:
            self._limiter.release()

    async def _start(self, operation: Operation[None], deadline: Deadline) -> httpx.Response:
        """Return the response without its body; an error is read and raised."""
        response = await self._open(operation, deadline)
        if not response.is_success:
            operation.finish(await self._read(operation, response, deadline))
        return response

    async def _repeat(self, operation: Operation[Any], deadline: Deadline, attempt: Callable[[], Awaitable[T]]) -> T:
        retries = self.retries(operation, deadline)
        while True:
            deadline.begin_attempt()
            try:
                return await attempt()
            except MirrorError as error:
                pause_seconds = retries.pause_after(error)
            await self._sleep(pause_seconds)

    async def _open(self, operation: Operation[Any], deadline: Deadline) -> httpx.Response:
        """Return the response without its body; the caller closes it."""
        await self.prepare()  # asynchronous alone
        http = self._http
        self.require_open()
        request = request_of(http, operation, self.base_url, self.timeout_seconds, deadline)
        try:
            async with closed_when_cancelled(request), ends_with(deadline):
                response = await http.carrier.handle_async_request(request)
        except httpx.RequestError as exc:
            raise self.lost(operation, exc, deadline) from exc
        store_cookies(http, request, response)
        self._connections.note(response.extensions.get("network_stream"))
        self.contact.succeeded()
        return response

    async def _read(self, operation: Operation[Any], response: httpx.Response, deadline: Deadline) -> HTTPResponse:
        """Return the response with its body, and close it."""
        try:
            collector = BodyCollector(response)
            async with aclosing(iter_chunks(response, deadline)) as chunks:
                async for chunk in chunks:
                    collector.add(chunk)
            return Received(response.status_code, response.headers, collector.content)
        except httpx.RequestError as exc:
            raise self.lost(operation, exc, deadline) from exc
        except UnexpectedResponse:
            if response.is_success:
                raise
            # The status of an error is enough, even if its body cannot be read.
            return Received(response.status_code, response.headers, b"")
        finally:
            await response.aclose()
            forget_body(response)


class _Pool(httpx.AsyncClient):
    """The headers and cookies of all requests, and their transport."""

    def __init__(self, headers: dict[str, str], carrier: httpx.AsyncBaseTransport) -> None:
        super().__init__(headers=headers, transport=carrier)
        self.carrier = carrier
