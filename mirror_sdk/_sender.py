"""Sends operations over httpx; the one place where HTTP is spoken and its errors become ours."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from mirror_sdk._backoff import Backoff
from mirror_sdk._exchange import Operation
from mirror_sdk._httpx import httpx
from mirror_sdk._reports import Contact
from mirror_sdk.config import Settings
from mirror_sdk.errors import APIError, ConnectionFailed, MirrorError

T = TypeVar("T")

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
        self._timeout_seconds = timeout_seconds
        self._sleep = sleep
        self._http = httpx.Client(
            base_url=self._base_url,
            headers={"Authorization": f"Bearer {settings.api_key.get_secret_value()}"},
            transport=transport,
        )

    def close(self) -> None:
        """Close the connections; harmless when they are closed."""
        self._http.close()

    def send(self, operation: Operation[T]) -> T:
        """Send it and read the answer. What is safe to repeat is sent again when its answer was lost on the way.

        Raises:
            APIError: The service refused.
            ConnectionFailed: There was no answer, at the last attempt either.
            UnexpectedAnswer: What answered does not speak this interface.
        """
        backoff = Backoff()
        for _ in range(operation.most_attempts - 1):
            try:
                return operation.finish(self._exchange(operation))
            except MirrorError as error:
                delay_seconds = delay_before_next(error, backoff)
                if delay_seconds is None:
                    raise
                self._sleep(delay_seconds)
        return operation.finish(self._exchange(operation))

    def _exchange(self, operation: Operation[T]) -> httpx.Response:
        try:
            answer = self._http.request(**request_arguments(operation, self._timeout_seconds))
        except httpx.RequestError as exc:
            failure = lost(operation, self._base_url, exc)
            self.contact.failed(failure)
            raise failure from exc
        self.contact.answered()
        return answer


def delay_before_next(error: MirrorError, backoff: Backoff) -> float | None:
    """How many seconds to wait before the same is sent again; ``None`` where that would not help."""
    if isinstance(error, ConnectionFailed):
        return backoff.failed()
    if not isinstance(error, APIError) or error.retry_after_seconds is None:
        return None
    if error.retry_after_seconds > LONGEST_RETRY_AFTER_SECONDS:
        return None
    return backoff.failed(error.retry_after_seconds)


def request_arguments(operation: Operation[T], timeout_seconds: float) -> dict[str, Any]:
    """What httpx is given for an operation."""
    return {
        "method": operation.method,
        "url": operation.path,
        "params": operation.params,
        "json": operation.json,
        "timeout": httpx.Timeout(timeout_seconds, read=timeout_seconds + operation.hold_seconds),
    }


def lost(operation: Operation[T], base_url: str, failure: httpx.RequestError) -> ConnectionFailed:
    """The error for an operation that had no answer."""
    place = f"{operation.method} {base_url}{operation.path}"
    return ConnectionFailed(f"{place}: no answer ({type(failure).__name__}: {failure})")
