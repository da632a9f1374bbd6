"""The clients of a test: those of the SDK, but for pauses after failures, which take no time."""

from __future__ import annotations

import asyncio
import time

import httpx

from mirror_sdk._async_client import AsyncMirrorClient
from mirror_sdk._client import MirrorClient
from mirror_sdk._service.async_log_reader import AsyncLogReader
from mirror_sdk._service.log_reader import LogReader
from mirror_sdk._session.async_client_session import AsyncClientSession
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk.config import ClientSettings

_REAL_SECONDS = 0.01
"""What a pause takes at most, so that a client whose every request fails does not keep a core busy."""


class Pauses:
    """A clock that runs as the real one does, and jumps over pauses."""

    def __init__(self) -> None:
        self._skipped_seconds = 0.0

    def now(self) -> float:
        """Seconds."""
        return time.monotonic() + self._skipped_seconds

    def sleep(self, seconds: float) -> None:
        """Jump over a pause."""
        self._skipped_seconds += seconds
        time.sleep(min(seconds, _REAL_SECONDS))

    async def sleep_on_loop(self, seconds: float) -> None:
        """Jump over a pause of a task."""
        self._skipped_seconds += seconds
        await asyncio.sleep(min(seconds, _REAL_SECONDS))


class _BriskSession(ClientSession):
    """The session of a :class:`BriskClient`."""

    def __init__(self, settings: ClientSettings, *, timeout: float, transport: httpx.BaseTransport) -> None:
        self._pauses = Pauses()
        super().__init__(settings, timeout_seconds=timeout, transport=transport)
        self.sender._sleep = self._pauses.sleep

    def new_log_reader(self, after: int | None) -> LogReader:
        """A reader that jumps over pauses."""
        return LogReader(self.send, after=after, clock=self._pauses.now, sleep=self._pauses.sleep)


class BriskClient(MirrorClient):
    """A :class:`~mirror_sdk.MirrorClient` that does not pause after failures."""

    def __init__(self, base_url: str, api_key: str, *, timeout: float, transport: httpx.BaseTransport) -> None:
        self._hold(_BriskSession(ClientSettings.of(base_url, api_key), timeout=timeout, transport=transport))


class _BriskAsyncSession(AsyncClientSession):
    """The session of a :class:`BriskAsyncClient`."""

    def __init__(self, settings: ClientSettings, *, timeout: float, transport: httpx.AsyncBaseTransport) -> None:
        self._pauses = Pauses()
        super().__init__(settings, timeout_seconds=timeout, transport=transport)
        self.sender._sleep = self._pauses.sleep_on_loop

    def new_log_reader(self, after: int | None) -> AsyncLogReader:
        """A reader that jumps over pauses."""
        return AsyncLogReader(self.send, after=after, clock=self._pauses.now, sleep=self._pauses.sleep_on_loop)


class BriskAsyncClient(AsyncMirrorClient):
    """An :class:`~mirror_sdk.AsyncMirrorClient` that does not pause after failures."""

    def __init__(self, base_url: str, api_key: str, *, timeout: float, transport: httpx.AsyncBaseTransport) -> None:
        self._hold(_BriskAsyncSession(ClientSettings.of(base_url, api_key), timeout=timeout, transport=transport))
