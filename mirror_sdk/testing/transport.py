"""The way from a client to the server inside the test, on which faults act."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

import httpx

from mirror_sdk.testing.exchange import Exchange, LetPass, SendToServer, Step, WaitForChannel, exchange
from mirror_sdk.testing.faults import Faults

if TYPE_CHECKING:
    from mirror_sdk.testing.in_process import InProcessServer


class FaultyTransport(httpx.BaseTransport):
    """Carries requests over WSGI.

    Args:
        server: Who answers.
        faults: What is to go wrong.
        let_pass: Advances the mirror's clock by seconds.
    """

    def __init__(self, server: InProcessServer, faults: Faults, let_pass: Callable[[float], object]) -> None:
        self._server = server
        self._faults = faults
        self._let_pass = let_pass

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Carry a request and its answer."""
        steps, result = exchange(request, self._faults), None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as end:
                return _response_of(end)
            result = self._take(step)

    def _take(self, step: Step) -> httpx.Response | None:
        match step:
            case SendToServer(request, is_read):
                response = self._server.send(request)
                if is_read:
                    # The stream of WSGI ends with its first reader, and what records the response reads it again.
                    with closing(cast("httpx.SyncByteStream", response.stream)) as body:
                        response.stream = httpx.ByteStream(b"".join(body))
                    response.read()
                return response
            case WaitForChannel(seconds):
                self._faults.wait(seconds)
            case LetPass(seconds):
                self._let_pass(seconds)
        return None


class AsyncFaultyTransport(httpx.AsyncBaseTransport):
    """Carries requests over ASGI, for one event loop; arguments as for :class:`FaultyTransport`."""

    def __init__(self, server: InProcessServer, faults: Faults, let_pass: Callable[[float], object]) -> None:
        self._server = server
        self._faults = faults
        self._let_pass = let_pass
        self._bridge: tuple[object, httpx.ASGITransport] | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Carry a request and its answer."""
        steps: Exchange = exchange(request, self._faults)
        result: Any = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as end:
                return _response_of(end)
            result = await self._take(step)

    async def _take(self, step: Step) -> httpx.Response | None:
        match step:
            case SendToServer(request, is_read):
                return await self._send(request, is_read=is_read)
            case WaitForChannel(seconds):
                await self._wait(seconds)
            case LetPass(seconds):
                await asyncio.to_thread(self._let_pass, seconds)
        return None

    async def _send(self, request: httpx.Request, *, is_read: bool) -> httpx.Response:
        with self._server.serving(request, is_on_loop=True) as app:
            # An app of its own after each restart, and a bridge to each.
            if self._bridge is None or self._bridge[0] is not app:
                self._bridge = (app, self._server.new_bridge(app))
            response = await self._bridge[1].handle_async_request(request)
            if is_read:
                await response.aread()
            if request.method != "GET":
                await asyncio.to_thread(self._server.settle, request)
        return response

    async def _wait(self, seconds: float) -> None:
        # In short turns, so that a poll that is cancelled leaves no thread behind.
        await asyncio.to_thread(self._faults.wait, min(seconds, _TURN_SECONDS))


_TURN_SECONDS = 0.2


def _response_of(end: StopIteration) -> httpx.Response:
    response: httpx.Response = end.value
    return response
