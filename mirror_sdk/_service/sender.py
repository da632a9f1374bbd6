"""Sends operations over httpx; the one place where HTTP is spoken and its errors become ours."""

from __future__ import annotations

import io
import reprlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

import httpx

from mirror_sdk._arguments import seconds
from mirror_sdk._fork import Connections, Lock, tell_in_child
from mirror_sdk._service.answer_body import ACCEPT_ENCODING, Gathering, Unpacking
from mirror_sdk._service.deadline import Deadline, Pace, left_of
from mirror_sdk._service.defaults import DEFAULT_MAX_RETRIES
from mirror_sdk._service.environment import plain_hint, proxy_hint, tls_hint
from mirror_sdk._service.moments import Moments
from mirror_sdk._service.network import Network
from mirror_sdk._service.operation import Answer, Operation, Received, hide_key, hint_at_demo
from mirror_sdk._service.retries import Retries
from mirror_sdk._service.status import Contact
from mirror_sdk._service.steps import Pause
from mirror_sdk._visible import visible_line
from mirror_sdk.config import (
    DEFAULT_BASE_URL,
    HOST_VARIABLE,
    LONGEST_TIMEOUT_SECONDS,
    Settings,
    read_max_retries,
    read_timeout,
)
from mirror_sdk.errors import (
    CallTimeout,
    ClientClosed,
    ConnectionFailed,
    InvalidValue,
    MirrorError,
    UnexpectedAnswer,
)

T = TypeVar("T")

BUFFER_BYTES = 64 * 1024
"""How many bytes of an answer are held at once where it is read as it arrives; longer parts of it pass by, uncopied."""


class Sender:
    """A connection pool with the address and the access key. Any number of threads may send at once.

    A child process gets a pool of its own; a transport that was given stays, without the connections there were.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        timeout_seconds: float,
        max_retries: int = DEFAULT_MAX_RETRIES,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.contact: Contact = Contact()
        self._base_url = settings.base_url
        self._key = settings.api_key
        self._timeout_seconds = read_timeout(timeout_seconds)
        self._max_retries = read_max_retries(max_retries)
        self._clock = clock
        self._sleep = sleep
        self._headers = client_headers(settings)
        self._transport = transport
        self._network: Network | None = None
        self.moments: Moments = Moments()
        self._before: tuple[httpx.BaseTransport | None, _Pool | None] | None = None
        self._connections = Connections()
        self._making = Lock()
        self._pool: _Pool | None = self._new_pool()
        tell_in_child(self)

    def _begin_in_child(self) -> None:
        """Leave the connections to the parent."""
        self._connections.close_in_child()
        if self._transport is None and self._pool is not None and not self._pool.is_closed:
            self._pool = self._network = None

    def _new_pool(self) -> _Pool:
        if self._transport is None:
            self._network = Network(self._base_url)
        return _Pool(self._headers, self.carrier)

    @property
    def _http(self) -> _Pool:
        """The pool; in a child it is made when it is wanted, for most of them never send anything."""
        with self._making:
            if self._pool is None:
                self._pool = self._new_pool()
            return self._pool

    def close(self) -> None:
        """Close the connections; harmless when they are closed."""
        self._http.close()

    def release_idle(self) -> None:
        """Close the connections on which no request is made; see :meth:`Network.release_idle`."""
        if self._network is not None:
            self._network.release_idle()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._http.is_closed

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
    def carrier(self) -> httpx.BaseTransport:
        """What carries the requests."""
        return self._transport or self._network or Network(self._base_url)

    def insert(self, transport: httpx.BaseTransport, moments: Moments) -> None:
        """Have requests carried by another transport, and times told by it, until :meth:`take_out`.

        Raises:
            ClientClosed: It was closed.
            InvalidValue: That is so already.
        """
        refuse_closed(self._http)
        with self._making:
            if self._before is not None:
                raise InvalidValue("there is a cassette in this client; end its block first")
            self._before = self._transport, self._pool
            self._transport, self.moments = transport, moments
            self._pool = self._new_pool()

    def take_out(self) -> None:
        """Have requests carried as before; what was closed meanwhile stays closed."""
        with self._making:
            inserted = self._pool
            if self._before is not None:
                (self._transport, self._pool), self._before = self._before, None
            self.moments = Moments()
        if inserted is not None and inserted.is_closed:
            self._http.close()

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
        """The end of a call that begins now, or began before with this very deadline; ``None`` is the client's.

        Raises:
            InvalidValue: It is no limit.
        """
        return deadline_of(self._timeout_seconds if timeout is None else timeout, self._clock)

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
            UnexpectedAnswer: What answered does not speak this interface.
        """
        usual = min(self._timeout_seconds + operation.hold_seconds, operation.within_seconds, key=left_of)
        deadline = self.deadline(usual if timeout is None else timeout)
        try:
            return self._repeat(operation, deadline, lambda: operation.finish(self._exchange(operation, deadline)))
        except MirrorError as error:
            hint_at_demo(error, self._base_url)
            hide_key(error, self._key.get_secret_value())
            raise

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
            UnexpectedAnswer: What answered does not speak this interface.
        """
        deadline = Pace(self._timeout_seconds, self._clock) if timeout is None else self.deadline(timeout)
        try:
            return self._receive(operation, read, deadline)
        except MirrorError as error:
            hint_at_demo(error, self._base_url)
            hide_key(error, self._key.get_secret_value())
            raise

    def pause(self, pause: Pause, deadline: Deadline) -> None:
        """Wait between two requests of a call.

        Raises:
            CallTimeout: The call has no time for that.
        """
        require_time(pause, deadline)
        self._sleep(pause.seconds)

    def _receive(
        self,
        operation: Operation[None],
        read: Callable[[Mapping[str, str], io.BufferedReader[Any]], T],
        deadline: Deadline,
    ) -> T:
        answer = self._repeat(operation, deadline, lambda: self._begin(operation, deadline))
        try:
            return read(answer.headers, io.BufferedReader(Body(_pieces(answer, deadline)), BUFFER_BYTES))
        except httpx.RequestError as exc:
            raise self._lost(operation, exc, deadline) from exc
        finally:
            answer.close()
            forget_body(answer)

    def _repeat(self, operation: Operation[Any], deadline: Deadline, attempt: Callable[[], T]) -> T:
        retries = Retries(
            operation.most_attempts(self._max_retries),
            self._timeout_seconds,
            deadline,
            outlasts_loss=operation.outlasts_loss,
        )
        while True:
            deadline.begin_attempt()
            try:
                return attempt()
            except MirrorError as error:
                pause_seconds = retries.pause_after(error)
            self._sleep(pause_seconds)

    def _begin(self, operation: Operation[None], deadline: Deadline) -> httpx.Response:
        """The answer without its body, unless it is an error."""
        answer = self._open(operation, deadline)
        if not answer.is_success:
            operation.finish(self._read(operation, answer, deadline))
        return answer

    def _exchange(self, operation: Operation[Any], deadline: Deadline) -> Answer:
        return self._read(operation, self._open(operation, deadline), deadline)

    def _open(self, operation: Operation[Any], deadline: Deadline) -> httpx.Response:
        """The answer without its body; it is to be closed."""
        http = self._http
        refuse_closed(http)
        request = request_of(http, operation, self._base_url, self._timeout_seconds, deadline)
        try:
            answer = http.carrier.handle_request(request)
        except httpx.RequestError as exc:
            raise self._lost(operation, exc, deadline) from exc
        take_cookies(http, request, answer)
        self._connections.note(answer.extensions.get("network_stream"))
        self.contact.answered()
        return answer

    def _read(self, operation: Operation[Any], answer: httpx.Response, deadline: Deadline) -> Answer:
        """The answer with its body, and closed."""
        try:
            gathering = Gathering(answer)
            for piece in _pieces(answer, deadline):
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
            answer.close()
            forget_body(answer)

    def _lost(self, operation: Operation[Any], exc: httpx.RequestError, deadline: Deadline) -> ConnectionFailed:
        # Under an open request; the system's own words for it would mislead.
        refuse_closed(self._http)
        failure = lost(operation, self._base_url, exc, deadline)
        hide_key(failure, self._key.get_secret_value())
        self.contact.failed(failure)
        return failure


class _Pool(httpx.Client):
    """The headers and cookies of all requests, and what carries them."""

    def __init__(self, headers: dict[str, str], carrier: httpx.BaseTransport) -> None:
        super().__init__(headers=headers, transport=carrier)
        self.carrier = carrier


class Body(io.RawIOBase):
    """The body of an answer as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with what is there; 0 at the end."""
        while not self._rest and (chunk := next(self._chunks, None)) is not None:
            self._rest = memoryview(chunk)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def _pieces(answer: httpx.Response, deadline: Deadline) -> Iterator[bytes]:
    """The body as it arrives, decompressed; some transports have read it already."""
    unpacking = Unpacking(answer.headers)
    if answer.is_stream_consumed:
        yield answer.content
        return
    arriving = answer.iter_raw()
    while True:
        deadline.begin_wait()
        if (raw := next(arriving, None)) is None:
            return
        # A transport that is not ours knows of no deadline.
        if not deadline.left:
            raise httpx.ReadTimeout("the answer had not ended")
        deadline.arrived(len(raw))
        yield from unpacking.pieces(raw)


def require_time(pause: Pause, deadline: Deadline) -> None:
    """Make sure that a call has time for a pause.

    Raises:
        CallTimeout: It has none.
    """
    if pause.seconds >= deadline.left:
        raise CallTimeout(deadline.overrun)


def forget_body(answer: httpx.Response) -> None:
    """Let a closed answer go at once: it and the stream of its body hold each other, for a collection to find."""
    answer.stream = httpx.ByteStream(b"")


def client_headers(settings: Settings) -> dict[str, str]:
    """The headers of every request."""
    return {"Authorization": f"Bearer {settings.api_key.get_secret_value()}", "Accept-Encoding": ACCEPT_ENCODING}


def refuse_closed(http: httpx.Client | httpx.AsyncClient) -> None:
    """Make sure that a connection pool can be used.

    Raises:
        ClientClosed: It was closed.
    """
    if http.is_closed:
        raise ClientClosed(
            "this client is closed; make a new one, or do this before its close() or its with block ends"
        )


def deadline_of(timeout: float, clock: Callable[[], float]) -> Deadline:
    """The end of a call that begins now; a deadline is one already.

    Raises:
        InvalidValue: It is no limit.
    """
    if isinstance(timeout, Deadline):
        return timeout
    limit_seconds = seconds("timeout", timeout)
    if not 0 < limit_seconds <= LONGEST_TIMEOUT_SECONDS:
        raise InvalidValue(
            f"timeout={timeout!r} must be a number of seconds, above 0, {LONGEST_TIMEOUT_SECONDS} at most"
        )
    return Deadline(limit_seconds, clock)


def request_of(
    http: httpx.Client | httpx.AsyncClient,
    operation: Operation[T],
    base_url: str,
    timeout_seconds: float,
    deadline: Deadline,
) -> httpx.Request:
    """An operation as it is sent, with the headers and cookies of its client.

    It is not built and sent by that client, which at each request looks for what no service of this interface has:
    redirects to follow, other ways to authenticate, cookies in every answer. That takes longer than all else here.
    An answer may be held back for long; a connection comes soon, or never.

    Raises:
        InvalidValue: Its address cannot be one.
    """
    # The whole address: httpx would take one apart three times to put it together from its parts.
    query = f"?{urlencode(operation.params, doseq=True)}" if operation.params else ""
    headers = http.headers
    if operation.headers:
        headers = httpx.Headers(headers)
        headers.update(operation.headers)
    timeout = httpx.Timeout(deadline.to_connect(timeout_seconds), read=deadline)
    try:
        request = httpx.Request(
            operation.method,
            f"{base_url}{operation.path}{query}",
            headers=headers,
            json=operation.json,
            extensions={"timeout": timeout.as_dict()},
        )
    except httpx.InvalidURL as exc:
        message = f"{operation.method} {reprlib.repr(operation.path)} cannot be sent: {exc}; give less"
        raise InvalidValue(message) from exc
    if http.cookies:
        http.cookies.set_cookie_header(request)
    return request


def take_cookies(http: httpx.Client | httpx.AsyncClient, request: httpx.Request, answer: httpx.Response) -> None:
    """Keep the cookies of an answer, by which what spreads requests over several servers finds the same one again."""
    answer.request = request
    if "Set-Cookie" in answer.headers:
        http.cookies.extract_cookies(answer)


def lost(operation: Operation[T], base_url: str, failure: httpx.RequestError, deadline: Deadline) -> ConnectionFailed:
    """The error for an operation that had no answer."""
    place = f"{operation.method} {base_url}{operation.path}"
    if isinstance(failure, httpx.TimeoutException) and deadline.is_over:
        return CallTimeout(f"{place}: {deadline.overrun}")
    hint = tls_hint(failure) or plain_hint(base_url, failure)
    was_sent = not isinstance(failure, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError))
    if not hint and not was_sent:
        hint = proxy_hint(base_url)
    if not hint and base_url == DEFAULT_BASE_URL and isinstance(failure, httpx.ConnectError):
        hint = f"; nothing answers at {base_url}: start 'mirror-server demo', or set {HOST_VARIABLE} to another address"
    error = ConnectionFailed(f"{place}: no answer ({type(failure).__name__}: {visible_line(str(failure))}){hint}")
    error.was_sent = was_sent
    return error
