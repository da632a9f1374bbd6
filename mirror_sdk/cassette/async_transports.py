"""The transports of a client that uses a cassette. One records responses, and the other plays them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import httpx

from mirror_sdk.cassette.http_conversion import prepare, response_of
from mirror_sdk.cassette.player import Played, Player, Wait
from mirror_sdk.cassette.recorder import CassetteRecorder, OpenExchange
from mirror_sdk.cassette.request_key import async_id_of, hold_seconds_of, request_key_of


class AsyncRecordingTransport(httpx.AsyncBaseTransport):
    """A transport that sends requests with another transport and records the responses."""

    def __init__(self, carrier: httpx.AsyncBaseTransport, recorder: CassetteRecorder, base_path: str) -> None:
        self._carrier = carrier
        self._recorder = recorder
        self._base_path = base_path

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and record its response."""
        await request.aread()
        exchange = self._recorder.start(request_key_of(request, self._base_path), async_id_of(request))
        prepare(request)
        try:
            response = await self._carrier.handle_async_request(request)
        except httpx.RequestError as error:
            self._recorder.end(exchange, error)
            raise
        self._recorder.add_head(exchange, response.status_code, response.headers)
        return httpx.Response(
            response.status_code,
            headers=response.headers,
            stream=_Recorded(response, self._recorder, exchange),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close the other transport."""
        await self._carrier.aclose()


class _Recorded(httpx.AsyncByteStream):
    """The body of a response, which is recorded while it arrives."""

    def __init__(self, response: httpx.Response, recorder: CassetteRecorder, exchange: OpenExchange) -> None:
        self._response = response
        self._recorder = recorder
        self._draft = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            # The body is asynchronous if and only if the transport is.
            async for chunk in cast("httpx.AsyncByteStream", self._response.stream):
                self._recorder.add(self._draft, chunk)
                yield chunk
        except httpx.RequestError as error:
            self._recorder.end(self._draft, error)
            raise
        self._recorder.end(self._draft)

    async def aclose(self) -> None:
        await self._response.aclose()
        # If a body was not read to its end, the part that arrived is recorded.
        self._recorder.end(self._draft)


class AsyncPlayingTransport(httpx.AsyncBaseTransport):
    """A transport that returns responses from a cassette. It does not send requests."""

    def __init__(self, player: Player, base_path: str) -> None:
        self._player = player
        self._base_path = base_path

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Return the recorded response to a request."""
        await request.aread()
        key, started = request_key_of(request, self._base_path), self._player.waiting_seconds()
        while True:
            match self._player.respond(key, async_id_of(request), started, hold_seconds_of(request)):
                case Wait(seconds):
                    await asyncio.sleep(seconds)
                case Played() as played:
                    return response_of(request, played)
