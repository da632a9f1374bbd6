"""A blocking wrapper of the asynchronous client, so that one test of a flow runs with both clients."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, Self

from waits import PATIENCE_SECONDS

from mirror_sdk import AsyncDeviceRequest, AsyncEvents, AsyncMirrorClient, AsyncWatch
from mirror_sdk.cassette import AsyncCassette
from mirror_sdk.client_groups.base import AsyncClientGroup
from mirror_sdk.conditions.async_alarms import AsyncAlarms
from mirror_sdk.plan import AsyncPlan
from mirror_sdk.recording import AsyncRecorder

LAST_TURNS = 10
ASYNCHRONOUS = (AsyncMirrorClient, AsyncDeviceRequest, AsyncPlan, AsyncRecorder, AsyncWatch, AsyncClientGroup)


class Loop:
    """An event loop in its own thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Wait for the coroutine and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_SECONDS)

    def tasks_left(self) -> int:
        """Return the number of tasks that still run."""

        async def count() -> int:
            # The loop itself closes the rest of a body that httpx did not read completely.
            for _ in range(LAST_TURNS):
                await asyncio.sleep(0)
            return len(asyncio.all_tasks()) - 1

        return int(self.run(count()))

    def close(self) -> None:
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()


def record_pauses(client: Any) -> list[float]:
    """Replace the pauses between attempts of either client, and return the list of their durations."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    client._session.sender._sleep = sleep if isinstance(client, Blocking) else slept.append
    return slept


class Blocking:
    """A wrapper of an asynchronous object whose methods block. Their results are wrapped in the same way."""

    def __init__(self, wrapped: Any, loop: Loop) -> None:
        self._wrapped = wrapped
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._wrapped, "aclose" if name == "close" else name)
        return self._blocking(found) if callable(found) else self._wrap(found)

    def __repr__(self) -> str:
        return repr(self._wrapped)

    def __len__(self) -> int:
        return len(self._wrapped)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *arguments: object) -> None:
        self._loop.run(self._wrapped.__aexit__(*arguments))

    def _blocking(self, method: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            async def run() -> Any:
                made = method(*map(_argument_for, arguments), **options)
                return await made if inspect.isawaitable(made) else made

            return self._wrap(self._loop.run(run()))

        return call

    def _wrap(self, made: Any) -> Any:
        if isinstance(made, ASYNCHRONOUS):
            return Blocking(made, self._loop)
        if isinstance(made, AsyncCassette):
            return BlockingCassette(made, self._loop)
        if isinstance(made, AsyncEvents | AsyncAlarms):
            # Events of the synchronous client start at the call.
            self._loop.run(made.__aenter__())
            return BlockingEvents(made, self._loop)
        return made


def _argument_for(argument: Any) -> Any:
    """Convert an argument: a list contains the client's own requests."""
    if not isinstance(argument, list):
        return argument
    return [one._wrapped if isinstance(one, Blocking) else one for one in argument]


class BlockingCassette(Blocking):
    """A cassette of the asynchronous client with a blocking context manager."""

    def __enter__(self) -> Self:
        self._loop.run(self._wrapped.__aenter__())
        return self


class BlockingEvents(Iterator[Any]):
    """A blocking iterator of the asynchronous client's events or alarms."""

    def __init__(self, events: AsyncEvents | AsyncAlarms, loop: Loop) -> None:
        self._events = events
        self._loop = loop
        self._is_over = False

    @property
    def position(self) -> int | None:
        return self._events.position  # type: ignore[union-attr] # of events alone

    def __next__(self) -> Any:
        if self._is_over:
            raise StopIteration
        try:
            return self._loop.run(self._events.__anext__())
        except StopAsyncIteration:
            # Alarms continue, as those of the synchronous client.
            self._is_over = isinstance(self._events, AsyncEvents)
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *arguments: object) -> None:
        self._loop.run(self._events.__aexit__(*arguments))

    def close(self) -> None:
        self._loop.run(self._events.aclose())
