# Made from async_transports.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""The transports of a client that uses a cassette. One records responses, and the other plays them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import cast

import httpx

from mirror_sdk.cassette.http_conversion import prepare, response_of
from mirror_sdk.cassette.player import Played, Player, Wait
from mirror_sdk.cassette.recorder import CassetteRecorder, OpenExchange
from mirror_sdk.cassette.request_key import async_id_of, hold_seconds_of, request_key_of


class RecordingTransport(httpx.BaseTransport):
    """A transport that sends requests with another transport and records the responses."""

    def __init__(self, carrier: httpx.BaseTransport, recorder: CassetteRecorder, base_path: str) -> None:
        self._carrier = carrier
        self._recorder = recorder
        self._base_path = base_path

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and record its response."""
        request.read()
        exchange = self._recorder.start(request_key_of(request, self._base_path), async_id_of(request))
        prepare(request)
        try:
            response = self._carrier.handle_request(request)
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

    def close(self) -> None:
        """Close the other transport."""
        self._carrier.close()


class _Recorded(httpx.SyncByteStream):
    """The body of a response, which is recorded while it arrives."""

    def __init__(self, response: httpx.Response, recorder: CassetteRecorder, exchange: OpenExchange) -> None:
        self._response = response
        self._recorder = recorder
        self._draft = exchange

    def __iter__(self) -> Iterator[bytes]:
        try:
            # The body is asynchronous if and only if the transport is.
            for chunk in cast("httpx.SyncByteStream", self._response.stream):
                self._recorder.add(self._draft, chunk)
                yield chunk
        except httpx.RequestError as error:
            self._recorder.end(self._draft, error)
            raise
        self._recorder.end(self._draft)

    def close(self) -> None:
        self._response.close()
        # If a body was not read to its end, the part that arrived is recorded.
        self._recorder.end(self._draft)


class PlayingTransport(httpx.BaseTransport):
    """A transport that returns responses from a cassette. It does not send requests."""

    def __init__(self, player: Player, base_path: str) -> None:
        self._player = player
        self._base_path = base_path

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return the recorded response to a request."""
        request.read()
        key, started = request_key_of(request, self._base_path), self._player.waiting_seconds()
        while True:
            match self._player.respond(key, async_id_of(request), started, hold_seconds_of(request)):
                case Wait(seconds):
                    time.sleep(seconds)
                case Played() as played:
                    return response_of(request, played)
