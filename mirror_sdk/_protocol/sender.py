# Made from async_sender.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""Sends operations over httpx; the one place where HTTP is spoken and its errors become ours."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, TypeVar

import httpx

from mirror_sdk._fork import Connections, Lock, register_fork_handler
from mirror_sdk._protocol.arrival import pieces_of, read_arriving
from mirror_sdk._protocol.client_clock import ClientClock
from mirror_sdk._protocol.deadline import Deadline, Pace, left_of
from mirror_sdk._protocol.defaults import DEFAULT_MAX_RETRIES
from mirror_sdk._protocol.flow import Sleep
from mirror_sdk._protocol.http_messages import (
    forget_body,
    request_of,
    take_cookies,
)
from mirror_sdk._protocol.network import Network
from mirror_sdk._protocol.operation import HTTPResponse, Operation, Received
from mirror_sdk._protocol.response_body import Gathering
from mirror_sdk._protocol.sender_base import SenderBase
from mirror_sdk.config import ClientSettings
from mirror_sdk.errors import InvalidValue, MirrorError, UnexpectedResponse

T = TypeVar("T")


class Sender(SenderBase):
    """A connection pool with the address and the access key, for any number of threads.

    A child process gets a pool of its own; a transport that was given stays, without the connections there were.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        timeout_seconds: float,
        max_retries: int = DEFAULT_MAX_RETRIES,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        super().__init__(settings, timeout_seconds, max_retries, clock)
        self._sleep = sleep
        self._transport = transport
        self._connections = Connections()
        self._making = Lock()
        self._pool: _Pool | None = self._new_pool()
        self._before: _Pool | None = None
        register_fork_handler(self)

    def _after_fork_in_child(self) -> None:
        """Leave the connections to the parent."""
        self._connections.close_in_child()
        pool = self._pool
        if pool is not None and isinstance(pool.carrier, Network) and not pool.is_closed:
            self._pool = None

    def _new_pool(self) -> _Pool:
        return _Pool(self._headers, self._transport or Network(self.base_url))

    @property
    def _http(self) -> _Pool:
        """The pool. A child process makes its own when it first sends something, which most of them never do."""
        with self._making:
            if self._pool is None:
                self._pool = self._new_pool()
            return self._pool

    def close(self) -> None:
        """Close the connections; harmless when they are closed."""
        self._http.close()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._http.is_closed

    @property
    def is_on_network(self) -> bool:
        """Whether requests go over the network, and not to a given or inserted transport."""
        return isinstance(self.carrier, Network)

    @property
    def carrier(self) -> httpx.BaseTransport:
        """The transport of the requests."""
        return self._http.carrier

    def insert(self, transport: httpx.BaseTransport, clock: ClientClock) -> None:
        """Send requests to another transport, which has a clock of its own, until :meth:`take_out`.

        Raises:
            ClientClosed: It was closed.
            InvalidValue: Another one is inserted already.
        """
        self.refuse_closed()
        before = self._http
        with self._making:
            if self._before is not None:
                raise InvalidValue("there is a cassette in this client; end its block first")
            self._before, self._pool = before, _Pool(self._headers, transport)
            self.clock: ClientClock = clock

    def take_out(self) -> None:
        """Send requests as before; a client that was closed meanwhile stays closed."""
        is_closed = self.is_closed
        with self._making:
            self._pool, self._before = self._before, None
            self.clock = ClientClock()
        if is_closed:
            self._http.close()

    def send(self, operation: Operation[T], timeout: float | None = None) -> T:
        """Send it and read the answer. What is safe to repeat is sent again when its answer was lost on the way.

        Args:
            operation: What to send.
            timeout: How long all of it may take; ``None`` is the client's, and for how long the answer may be held.

        Raises:
            APIError: The service refused.
            CallTimeout: It took too long.
            ClientClosed: It was closed.
            ConnectionFailed: There was no answer, at the last attempt either.
            UnexpectedResponse: What answered does not speak this interface.
        """
        usual = min(self.timeout_seconds + operation.hold_seconds, operation.within_seconds, key=left_of)
        deadline = self.deadline(usual if timeout is None else timeout)

        def attempt() -> T:
            answer = self._read(operation, self._open(operation, deadline), deadline)
            return operation.finish(answer)

        with self.explaining():
            return self._repeat(operation, deadline, attempt)

    def receive(
        self,
        operation: Operation[None],
        read: Callable[[Mapping[str, str], io.BufferedReader[Any]], T],
        timeout: float | None = None,
    ) -> T:
        """Send it and have the answer read as it arrives. An answer that has begun is not asked for again.

        Args:
            operation: What to send.
            read: Takes the headers and the body.
            timeout: How long all of it may take; ``None`` gives each step of the answer the client's.

        Raises:
            APIError: The service refused.
            CallTimeout: It took too long.
            ClientClosed: It was closed.
            ConnectionFailed: There was no answer, or it broke off.
            UnexpectedResponse: What answered does not speak this interface.
        """
        deadline = Pace(self.timeout_seconds, self._clock) if timeout is None else self.deadline(timeout)
        with self.explaining():
            answer = self._repeat(operation, deadline, lambda: self._begin(operation, deadline))
            try:
                return read_arriving(read, answer, deadline)
            except httpx.RequestError as exc:
                raise self.lost(operation, exc, deadline) from exc
            finally:
                answer.close()
                forget_body(answer)

    def pause(self, pause: Sleep, deadline: Deadline) -> None:
        """Wait between two requests of a call.

        Raises:
            CallTimeout: The call has no time for that.
        """
        self.require_time(pause, deadline)
        self._sleep(pause.seconds)

    def _begin(self, operation: Operation[None], deadline: Deadline) -> httpx.Response:
        """The answer without its body, unless it is an error."""
        answer = self._open(operation, deadline)
        if not answer.is_success:
            operation.finish(self._read(operation, answer, deadline))
        return answer

    def _repeat(self, operation: Operation[Any], deadline: Deadline, attempt: Callable[[], T]) -> T:
        retries = self.retries(operation, deadline)
        while True:
            deadline.begin_attempt()
            try:
                return attempt()
            except MirrorError as error:
                pause_seconds = retries.pause_after(error)
            self._sleep(pause_seconds)

    def _open(self, operation: Operation[Any], deadline: Deadline) -> httpx.Response:
        """The answer without its body; it is to be closed."""
        http = self._http
        self.refuse_closed()
        request = request_of(http, operation, self.base_url, self.timeout_seconds, deadline)
        try:
            answer = http.carrier.handle_request(request)
        except httpx.RequestError as exc:
            raise self.lost(operation, exc, deadline) from exc
        take_cookies(http, request, answer)
        self._connections.note(answer.extensions.get("network_stream"))
        self.contact.answered()
        return answer

    def _read(self, operation: Operation[Any], answer: httpx.Response, deadline: Deadline) -> HTTPResponse:
        """The answer with its body, and closed."""
        try:
            gathering = Gathering(answer)
            with closing(pieces_of(answer, deadline)) as pieces:
                for piece in pieces:
                    gathering.add(piece)
            return Received(answer.status_code, answer.headers, gathering.content)
        except httpx.RequestError as exc:
            raise self.lost(operation, exc, deadline) from exc
        except UnexpectedResponse:
            if answer.is_success:
                raise
            # A refusal is one by its status alone.
            return Received(answer.status_code, answer.headers, b"")
        finally:
            answer.close()
            forget_body(answer)


class _Pool(httpx.Client):
    """The headers and cookies of all requests, and what carries them."""

    def __init__(self, headers: dict[str, str], carrier: httpx.BaseTransport) -> None:
        super().__init__(headers=headers, transport=carrier)
        self.carrier = carrier
