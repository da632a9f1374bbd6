"""The sender of operations over httpx. No other module sends HTTP requests and translates their errors."""

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
    """A sender with a connection pool, the address and the access key, for any number of tasks of one event loop.

    A child process gets its own pool. A transport that the caller passed is used there, too, but without its earlier
    connections.
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
        # Guards both pools, because several threads of a child process may need the first pool at the same time.
        self._making = Lock()
        self._pool: _Pool | None = self._new_pool()
        self._before: _Pool | None = None
        register_fork_handler(self)

    def _after_fork_in_child(self) -> None:
        """Close the connections in the child process without affecting the parent."""
        self._connections.close_in_child()
        self._limiter = LoopLimiter()  # asynchronous alone: the loop is the parent's, too
        pool = self._pool
        # A closed client stays closed in the child process, and a transport that the caller passed is used there, too.
        if pool is not None and isinstance(pool.carrier, AsyncNetwork) and not pool.is_closed:
            # Deleting the pool would remove the connections from the parent's loop, which shares its kernel object.
            abandon_in_child(pool)  # asynchronous alone
            self._is_prepared = False  # asynchronous alone
            self._pool = None

    def _new_pool(self) -> _Pool:
        return _Pool(self._headers, self._transport or AsyncNetwork(self.base_url))

    @property
    def _http(self) -> _Pool:
        """The connection pool. A child process creates its own when it first sends a request, which most never do."""
        with self._making:
            if self._pool is None:
                self._pool = self._new_pool()
            return self._pool

    async def prepare(self) -> None:  # asynchronous alone
        """Perform the work before the first request in a thread, because it would block the loop.

        Raises:
            ClientClosed: The client was closed.
            ConfigError: The certificates of the environment cannot be read, or no usable event loop is running; see
            :meth:`send`.
        """
        if self._is_prepared:
            return
        self._limiter.require_loop()
        self.require_open()
        async with self._limiter.preparing:
            if not self._is_prepared:
                await run_in_thread(self._prepare)

    def _prepare(self) -> None:  # asynchronous alone
        # When the first model is built, pydantic searches all installed packages for plugins.
        ErrorBody.model_rebuild()
        carrier = (self._before or self._http).carrier
        if isinstance(carrier, AsyncNetwork):
            carrier.open()
        self._is_prepared = True

    async def aclose(self) -> None:
        """Close the connections. Those of an event loop that has ended are dropped. A second call has no effect."""
        self._limiter.cancel_prioritized()  # asynchronous alone
        with self._limiter.ended_loop_ignored():
            await self._http.aclose()

    @property
    def is_closed(self) -> bool:
        """Whether the client was closed."""
        return self._http.is_closed

    @property
    def is_on_network(self) -> bool:
        """Whether requests are sent over the network instead of another transport."""
        return isinstance(self.carrier, AsyncNetwork)

    @property
    def carrier(self) -> httpx.AsyncBaseTransport:
        """The transport that sends the requests."""
        return self._http.carrier

    def replace_transport(self, transport: httpx.AsyncBaseTransport, clock: ClientClock) -> None:
        """Send requests to another transport with its own clock, until :meth:`restore_transport` is called.

        Raises:
            ClientClosed: The client was closed.
            InvalidValue: The transport has already been replaced.
        """
        self.require_open()
        # Before the lock, because the property acquires it, too.
        before = self._http
        with self._making:
            if self._before is not None:
                raise InvalidValue("the client already uses a cassette; leave the with block of that cassette first")
            self._before, self._pool = before, _Pool(self._headers, transport)
            self.clock: ClientClock = clock

    async def restore_transport(self) -> None:
        """Use the original transport again. A client that was closed in the meantime stays closed."""
        is_closed = self.is_closed
        with self._making:
            self._pool, self._before = self._before, None
            self.clock = ClientClock()
        if is_closed:
            await self._http.aclose()

    def prioritize(self, task: asyncio.Task[None]) -> None:  # asynchronous alone
        """Delay all other requests until this task of the running loop has ended. The task itself can send requests."""
        self._limiter.prioritize(task)

    async def send(self, operation: Operation[T], timeout: float | None = None) -> T:
        """Send an operation and return its result. If a response is lost, repeat the request if that is safe.

        Args:
            operation: The operation.
            timeout: The timeout of the whole call in seconds. The default is the timeout of the client plus the hold
                time of the operation.

        Raises:
            APIError: The service responded with an error.
            CallTimeout: The call took too long.
            ClientClosed: The client was closed.
            ConfigError: There is no asyncio event loop, or it is another one than before.
            ConnectionFailed: The service did not respond, not even at the last attempt.
            UnexpectedResponse: The response does not follow the mirror API.
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
        """Send an operation and read the response while it arrives. After its first byte, the request is not repeated.

        Args:
            operation: The operation.
            read: A function that reads the response. It receives the headers and the body, in a thread.
            timeout: The timeout of the whole call in seconds. With ``None``, the client's timeout applies to each step
                of the response.

        Raises:
            APIError: The service responded with an error.
            CallTimeout: The call took too long.
            ClientClosed: The client was closed.
            ConfigError: There is no asyncio event loop, or it is another one than before.
            ConnectionFailed: The service did not respond, or the connection was lost during the response.
            UnexpectedResponse: The response does not follow the mirror API.
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
            CallTimeout: The pause is longer than the rest of the call's time.
        """
        self.require_time(pause, deadline)
        await self._sleep(pause.seconds)

    @asynccontextmanager
    async def _slot(self, operation: Operation[Any], deadline: Deadline) -> AsyncIterator[None]:  # asynchronous alone
        """Use one of the slots for concurrent requests. A poll that the service holds needs no slot."""
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
        """Return a successful response without its body. For an error, read the body and raise the error."""
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
        """Return the response without its body. The caller closes it."""
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
        """Return the response with its body, after closing it."""
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
            # For an error, the status is enough if the body cannot be read.
            return Received(response.status_code, response.headers, b"")
        finally:
            await response.aclose()
            forget_body(response)


class _Pool(httpx.AsyncClient):
    """The headers and cookies of all requests, and the transport that sends them."""

    def __init__(self, headers: dict[str, str], carrier: httpx.AsyncBaseTransport) -> None:
        super().__init__(headers=headers, transport=carrier)
        self.carrier = carrier
