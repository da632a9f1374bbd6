"""Sends operations over httpx on an event loop; the twin of :mod:`mirror_sdk._sender`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mirror_sdk._backoff import Backoff
from mirror_sdk._exchange import Operation
from mirror_sdk._httpx import httpx
from mirror_sdk._reports import Contact
from mirror_sdk._sender import delay_before_next, lost, request_arguments
from mirror_sdk.config import Settings
from mirror_sdk.errors import ConfigError, MirrorError

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
        self._base_url = settings.base_url
        self._timeout_seconds = timeout_seconds
        self._sleep = sleep
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)
        self._http = httpx.AsyncClient(
            base_url=self._base_url,
            headers={"Authorization": f"Bearer {settings.api_key.get_secret_value()}"},
            transport=transport,
        )

    async def aclose(self) -> None:
        """Close the connections; harmless when they are closed."""
        await self._http.aclose()

    async def send(self, operation: Operation[T]) -> T:
        """Send it and read the answer; see :meth:`mirror_sdk._sender.Sender.send`.

        Raises:
            APIError: The service refused.
            ConfigError: There is no asyncio event loop.
            ConnectionFailed: There was no answer, at the last attempt either.
            UnexpectedAnswer: What answered does not speak this interface.
        """
        _require_asyncio()
        if operation.hold_seconds:
            return await self._send(operation)
        async with self._turns:
            return await self._send(operation)

    async def _send(self, operation: Operation[T]) -> T:
        backoff = Backoff()
        for _ in range(operation.most_attempts - 1):
            try:
                return operation.finish(await self._exchange(operation))
            except MirrorError as error:
                delay_seconds = delay_before_next(error, backoff)
                if delay_seconds is None:
                    raise
                await self._sleep(delay_seconds)
        return operation.finish(await self._exchange(operation))

    async def _exchange(self, operation: Operation[T]) -> httpx.Response:
        try:
            answer = await self._http.request(**request_arguments(operation, self._timeout_seconds))
        except httpx.RequestError as exc:
            failure = lost(operation, self._base_url, exc)
            self.contact.failed(failure)
            raise failure from exc
        self.contact.answered()
        return answer


def _require_asyncio() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigError(
            "AsyncMirrorClient runs on an asyncio event loop, and there is none here; with trio or without a loop use"
            " MirrorClient in a thread"
        ) from None
