"""What carries the requests of a client while a cassette is in it: over its own way and into the file, or out of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import cast

import httpx

from mirror_sdk.cassette.asking import asked_of, async_id_of, hold_of
from mirror_sdk.cassette.player import Played, Player, Wait
from mirror_sdk.cassette.recorder import CassetteRecorder, Draft
from mirror_sdk.wire.routes import PREFER_HEADER

_AS_IT_IS = "identity"


class RecordingTransport(httpx.BaseTransport):
    """Has requests carried by another transport, and what comes of them recorded."""

    def __init__(self, carrier: httpx.BaseTransport, recorder: CassetteRecorder, base_path: str) -> None:
        self._carrier = carrier
        self._recorder = recorder
        self._base_path = base_path

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Carry a request."""
        request.read()
        draft = self._recorder.begin(asked_of(request, self._base_path), async_id_of(request))
        _prepare(request)
        try:
            answer = self._carrier.handle_request(request)
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

    def close(self) -> None:
        """Close what carries."""
        self._carrier.close()


class AsyncRecordingTransport(httpx.AsyncBaseTransport):
    """The same on an event loop."""

    def __init__(self, carrier: httpx.AsyncBaseTransport, recorder: CassetteRecorder, base_path: str) -> None:
        self._carrier = carrier
        self._recorder = recorder
        self._base_path = base_path

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Carry a request."""
        await request.aread()
        draft = self._recorder.begin(asked_of(request, self._base_path), async_id_of(request))
        _prepare(request)
        try:
            answer = await self._carrier.handle_async_request(request)
        except httpx.RequestError as error:
            self._recorder.end(draft, error)
            raise
        self._recorder.answered(draft, answer.status_code, answer.headers)
        return httpx.Response(
            answer.status_code,
            headers=answer.headers,
            stream=_AsyncRecorded(answer, self._recorder, draft),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        """Close what carries."""
        await self._carrier.aclose()


def _prepare(request: httpx.Request) -> None:
    """Have it answered so that the answer can be played."""
    request.headers["Accept-Encoding"] = _AS_IT_IS
    # Which of many requests has its answer with it is a matter of moments, and so would be what the others poll for.
    request.headers.pop(PREFER_HEADER, None)


class _Recorded(httpx.SyncByteStream):
    """The body of an answer, taken down as it comes."""

    def __init__(self, answer: httpx.Response, recorder: CassetteRecorder, draft: Draft) -> None:
        self._answer = answer
        self._recorder = recorder
        self._draft = draft

    def __iter__(self) -> Iterator[bytes]:
        try:
            # What carries requests without a loop answers without one.
            for piece in cast("httpx.SyncByteStream", self._answer.stream):
                self._recorder.add(self._draft, piece)
                yield piece
        except httpx.RequestError as error:
            self._recorder.end(self._draft, error)
            raise
        self._recorder.end(self._draft)

    def close(self) -> None:
        self._answer.close()
        self._recorder.end(self._draft)


class _AsyncRecorded(httpx.AsyncByteStream):
    """The same on an event loop."""

    def __init__(self, answer: httpx.Response, recorder: CassetteRecorder, draft: Draft) -> None:
        self._answer = answer
        self._recorder = recorder
        self._draft = draft

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
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


class PlayingTransport(httpx.BaseTransport):
    """Answers requests out of a cassette; nothing is sent."""

    def __init__(self, player: Player, base_path: str) -> None:
        self._player = player
        self._base_path = base_path

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request."""
        request.read()
        asked, begun = asked_of(request, self._base_path), self._player.waiting_seconds()
        while True:
            match self._player.answer(asked, async_id_of(request), begun, hold_of(request)):
                case Wait(seconds):
                    time.sleep(seconds)
                case Played() as played:
                    return _response(request, played)


class AsyncPlayingTransport(httpx.AsyncBaseTransport):
    """The same on an event loop."""

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
                    return _response(request, played)


class _RecordedBody(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The body of an answer as it was recorded, and how it ended."""

    def __init__(self, played: Played) -> None:
        self._played = played

    def __iter__(self) -> Iterator[bytes]:
        yield from self._played.pieces()
        _fail(self._played)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._played.pieces():
            yield piece
        _fail(self._played)


def _response(request: httpx.Request, played: Played) -> httpx.Response:
    if played.status is None:
        _fail(played)
        raise httpx.ReadError("the recording has no answer", request=request)
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in played.headers.items()]
    return httpx.Response(played.status, headers=headers, stream=_RecordedBody(played))


def _fail(played: Played) -> None:
    """Raise the error of httpx in which the exchange ended, if it did."""
    if played.failure is None:
        return
    name, told = played.failure
    kind = getattr(httpx, name, None)
    is_one = isinstance(kind, type) and issubclass(kind, httpx.RequestError)
    raise (kind if is_one and kind else httpx.ReadError)(told)
