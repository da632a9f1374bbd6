"""Sends operations over httpx; the one place where HTTP is spoken and its errors become ours."""

from __future__ import annotations

import io
import reprlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlencode

import httpx

from mirror_sdk._answer_body import ACCEPT_ENCODING, Gathering, Unpacking
from mirror_sdk._backoff import Backoff
from mirror_sdk._exchange import Answer, Operation, Received, hide_key
from mirror_sdk._reports import Contact
from mirror_sdk._visible import visible_line
from mirror_sdk.config import DEFAULT_BASE_URL, HOST_VARIABLE, Settings, read_timeout
from mirror_sdk.errors import (
    APIError,
    ClientClosed,
    ConnectionFailed,
    MirrorError,
    UnexpectedAnswer,
    ValueRefused,
)

T = TypeVar("T")

BUFFER_BYTES = 1024 * 1024
"""Of an answer that is read as it arrives."""
LONGEST_RETRY_AFTER_SECONDS = 10.0
"""Of what the service asks to wait; a caller learns of a longer time instead."""


class Sender:
    """A connection pool with the address and the access key. Any number of threads may send at once."""

    def __init__(
        self,
        settings: Settings,
        *,
        timeout_seconds: float,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.contact = Contact()
        self._base_url = settings.base_url
        self._key = settings.api_key
        self._timeout_seconds = read_timeout(timeout_seconds)
        self._sleep = sleep
        self._http = httpx.Client(
            headers=client_headers(settings),
            transport=transport,
            # To load all certificates takes longer than most answers, and http: uses none.
            verify=self._base_url.startswith("https:"),
        )

    def close(self) -> None:
        """Close the connections; harmless when they are closed."""
        self._http.close()

    def send(self, operation: Operation[T]) -> T:
        """Send it and read the answer. What is safe to repeat is sent again when its answer was lost on the way.

        Raises:
            APIError: The service refused.
            ClientClosed: It was closed.
            ConnectionFailed: There was no answer, at the last attempt either.
            UnexpectedAnswer: What answered does not speak this interface.
        """
        try:
            return self._repeat(operation, lambda: operation.finish(self._exchange(operation)))
        except MirrorError as error:
            hide_key(error, self._key.get_secret_value())
            raise

    def receive(self, operation: Operation[None], read: Callable[[Mapping[str, str], BinaryIO], T]) -> T:
        """Send it and have the answer read as it arrives. An answer that has begun is not asked for again.

        Raises:
            APIError: The service refused.
            ClientClosed: It was closed.
            ConnectionFailed: There was no answer, or it broke off.
            UnexpectedAnswer: What answered does not speak this interface.
        """
        try:
            return self._receive(operation, read)
        except MirrorError as error:
            hide_key(error, self._key.get_secret_value())
            raise

    def _receive(self, operation: Operation[None], read: Callable[[Mapping[str, str], BinaryIO], T]) -> T:
        answer = self._repeat(operation, lambda: self._begin(operation))
        try:
            return read(answer.headers, io.BufferedReader(Body(_pieces(answer)), BUFFER_BYTES))
        except httpx.RequestError as exc:
            raise self._lost(operation, exc) from exc
        finally:
            answer.close()

    def _repeat(self, operation: Operation[Any], attempt: Callable[[], T]) -> T:
        backoff = Backoff()
        for _ in range(operation.most_attempts - 1):
            try:
                return attempt()
            except MirrorError as error:
                delay_seconds = delay_before_next(error, backoff)
                if delay_seconds is None:
                    raise
                self._sleep(delay_seconds)
        return attempt()

    def _begin(self, operation: Operation[None]) -> httpx.Response:
        """The answer without its body, unless it is an error."""
        answer = self._open(operation)
        if not answer.is_success:
            operation.finish(self._read(operation, answer))
        return answer

    def _exchange(self, operation: Operation[Any]) -> Answer:
        return self._read(operation, self._open(operation))

    def _open(self, operation: Operation[Any]) -> httpx.Response:
        """The answer without its body; it is to be closed."""
        refuse_closed(self._http)
        try:
            answer = self._http.send(
                self._http.build_request(**request_arguments(operation, self._base_url, self._timeout_seconds)),
                stream=True,
            )
        except httpx.RequestError as exc:
            raise self._lost(operation, exc) from exc
        except httpx.InvalidURL as exc:
            raise unsendable(operation, exc) from exc
        self.contact.answered()
        return answer

    def _read(self, operation: Operation[Any], answer: httpx.Response) -> Answer:
        """The answer with its body, and closed."""
        try:
            gathering = Gathering(answer)
            for piece in _pieces(answer):
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
            answer.close()

    def _lost(self, operation: Operation[Any], exc: httpx.RequestError) -> ConnectionFailed:
        # Under an open request; the system's own words for it would mislead.
        refuse_closed(self._http)
        failure = lost(operation, self._base_url, exc)
        hide_key(failure, self._key.get_secret_value())
        self.contact.failed(failure)
        return failure


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


def _pieces(answer: httpx.Response) -> Iterator[bytes]:
    """The body as it arrives, decompressed; some transports have read it already."""
    unpacking = Unpacking(answer.headers)
    if answer.is_stream_consumed:
        yield answer.content
        return
    for raw in answer.iter_raw():
        yield from unpacking.pieces(raw)


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


def delay_before_next(error: MirrorError, backoff: Backoff) -> float | None:
    """How many seconds to wait before the same is sent again; ``None`` where that would not help."""
    if isinstance(error, ConnectionFailed):
        return backoff.failed()
    if not isinstance(error, APIError) or error.retry_after_seconds is None:
        return None
    if error.retry_after_seconds > LONGEST_RETRY_AFTER_SECONDS:
        return None
    return backoff.failed(error.retry_after_seconds)


def request_arguments(operation: Operation[T], base_url: str, timeout_seconds: float) -> dict[str, Any]:
    """What httpx is given for an operation."""
    # The whole address: httpx would take one apart three times to put it together from its parts.
    query = f"?{urlencode(operation.params, doseq=True)}" if operation.params else ""
    return {
        "method": operation.method,
        "url": f"{base_url}{operation.path}{query}",
        # Nothing rather than an empty mapping, which httpx would put together with its own at some length.
        "headers": operation.headers or None,
        "json": operation.json,
        "timeout": httpx.Timeout(timeout_seconds, read=timeout_seconds + operation.hold_seconds),
    }


def unsendable(operation: Operation[T], problem: httpx.InvalidURL) -> ValueRefused:
    """The error for an operation whose address cannot be one."""
    return ValueRefused(f"{operation.method} {reprlib.repr(operation.path)} cannot be sent: {problem}; give less")


def lost(operation: Operation[T], base_url: str, failure: httpx.RequestError) -> ConnectionFailed:
    """The error for an operation that had no answer."""
    place = f"{operation.method} {base_url}{operation.path}"
    hint = ""
    if base_url == DEFAULT_BASE_URL and isinstance(failure, httpx.ConnectError):
        hint = f"; nothing answers at {base_url}: start 'mirror-server demo', or set {HOST_VARIABLE} to another address"
    return ConnectionFailed(f"{place}: no answer ({type(failure).__name__}: {visible_line(str(failure))}){hint}")
