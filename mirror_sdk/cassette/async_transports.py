"""What carries the requests of a client while a cassette is in it: over its own way and into the file, or out of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import httpx

from mirror_sdk.cassette.asking import asked_of, async_id_of, hold_of
from mirror_sdk.cassette.messages import prepare, response_of
from mirror_sdk.cassette.player import Played, Player, Wait
from mirror_sdk.cassette.recorder import CassetteRecorder, Draft


class AsyncRecordingTransport(httpx.AsyncBaseTransport):
    """Has requests carried by another transport, and what comes of them recorded."""

    def __init__(self, carrier: httpx.AsyncBaseTransport, recorder: CassetteRecorder, base_path: str) -> None:
        self._carrier = carrier
        self._recorder = recorder
        self._base_path = base_path

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Carry a request."""
        await request.aread()
        draft = self._recorder.begin(asked_of(request, self._base_path), async_id_of(request))
        prepare(request)
        try:
            answer = await self._carrier.handle_async_request(request)
        except httpx.RequestError as error:
            self._recorder.end(draft, error)
            raise
        self._recorder.answered(draft, answer.status_code, answer.headers)
        return httpx.Response(
            answer.status_code,
            headers=answer.headers,
            stream=_Recorded(answer, self._recorder, draft),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        """Close what carries."""
        await self._carrier.aclose()


class _Recorded(httpx.AsyncByteStream):
    """The body of an answer, taken down as it comes."""

    def __init__(self, answer: httpx.Response, recorder: CassetteRecorder, draft: Draft) -> None:
        self._answer = answer
        self._recorder = recorder
        self._draft = draft

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            # What carries requests on a loop answers on one, and what does without a loop without one.
            async for piece in cast("httpx.AsyncByteStream", self._answer.stream):
                self._recorder.add(self._draft, piece)
                yield piece
        except httpx.RequestError as error:
            self._recorder.end(self._draft, error)
            raise
        self._recorder.end(self._draft)

    async def aclose(self) -> None:
        await self._answer.aclose()
        self._recorder.end(self._draft)


class AsyncPlayingTransport(httpx.AsyncBaseTransport):
    """Answers requests out of a cassette; nothing is sent."""

    def __init__(self, player: Player, base_path: str) -> None:
        self._player = player
        self._base_path = base_path

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        await request.aread()
        asked, begun = asked_of(request, self._base_path), self._player.waiting_seconds()
        while True:
            match self._player.answer(asked, async_id_of(request), begun, hold_of(request)):
                case Wait(seconds):
                    await asyncio.sleep(seconds)
                case Played() as played:
                    return response_of(request, played)
