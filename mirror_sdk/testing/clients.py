# Made from async_clients.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""A client of the SDK for tests, in which pauses after failures take no time."""

from __future__ import annotations

import time

import httpx

from mirror_sdk._client import MirrorClient
from mirror_sdk._protocol.log_reader import LogReader
from mirror_sdk._session.client_session import ClientSession
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

    def sleep(self, seconds: float) -> None:
        """Skip a pause, and advance the clock by its length."""
        self._skipped_seconds += seconds
        time.sleep(min(seconds, _REAL_SECONDS))


class _UnpausedSession(ClientSession):
    """The session of a :class:`UnpausedClient`."""

    def __init__(self, settings: ClientSettings, *, timeout: float, transport: httpx.BaseTransport) -> None:
        self._pauses = Pauses()
        super().__init__(settings, timeout_seconds=timeout, transport=transport)
        self.sender._sleep = self._pauses.sleep

    def new_log_reader(self, after: int | None) -> LogReader:
        """Return a reader of the notification log that skips pauses."""
        return LogReader(self.sender.send, after=after, clock=self._pauses.now, sleep=self._pauses.sleep)


class UnpausedClient(MirrorClient):
    """An :class:`~mirror_sdk.MirrorClient` that does not pause after failures."""

    def __init__(self, base_url: str, api_key: str, *, timeout: float, transport: httpx.BaseTransport) -> None:
        self._hold(_UnpausedSession(ClientSettings.of(base_url, api_key), timeout=timeout, transport=transport))
