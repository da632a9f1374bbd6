"""A client of the SDK for tests, in which pauses after failures take no time."""

from __future__ import annotations

import asyncio
import time

import httpx

from mirror_sdk._async_client import AsyncMirrorClient
from mirror_sdk._protocol.async_log_reader import AsyncLogReader
from mirror_sdk._session.async_client_session import AsyncClientSession
from mirror_sdk.config import ClientSettings

_REAL_SECONDS = 0.01
"""The longest real pause in seconds.

It prevents a client whose requests all fail from keeping a CPU core busy.
"""


class Pauses:
    """A clock for clients in tests. It follows real time, but pauses take almost no real time."""

    def __init__(self) -> None:
        self._skipped_seconds = 0.0

    def now(self) -> float:
        """Return the time of the clock in seconds."""
        return time.monotonic() + self._skipped_seconds

    async def sleep(self, seconds: float) -> None:
        """Skip a pause, and advance the clock by its length."""
        self._skipped_seconds += seconds
        await asyncio.sleep(min(seconds, _REAL_SECONDS))


class _UnpausedSession(AsyncClientSession):
    """The session of a :class:`AsyncUnpausedClient`."""

    def __init__(self, settings: ClientSettings, *, timeout: float, transport: httpx.AsyncBaseTransport) -> None:
        self._pauses = Pauses()
        super().__init__(settings, timeout_seconds=timeout, transport=transport)
        self.sender._sleep = self._pauses.sleep

    def new_log_reader(self, after: int | None) -> AsyncLogReader:
        """Return a reader of the notification log that skips pauses."""
        return AsyncLogReader(self.sender.send, after=after, clock=self._pauses.now, sleep=self._pauses.sleep)


class AsyncUnpausedClient(AsyncMirrorClient):
    """An :class:`~mirror_sdk.AsyncMirrorClient` that does not pause after failures."""

    def __init__(self, base_url: str, api_key: str, *, timeout: float, transport: httpx.AsyncBaseTransport) -> None:
        self._hold(_UnpausedSession(ClientSettings.of(base_url, api_key), timeout=timeout, transport=transport))
