"""Requests and responses of httpx as a cassette records and plays them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx

from mirror_sdk.cassette.player import Played
from mirror_sdk.wire.routes import PREFER_HEADER

_AS_IT_IS = "identity"


def prepare(request: httpx.Request) -> None:
    """Have it answered so that the answer can be played."""
    request.headers["Accept-Encoding"] = _AS_IT_IS
    # Which of many requests has its answer with it is a matter of moments, and so would be what the others poll for.
    request.headers.pop(PREFER_HEADER, None)


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


def response_of(request: httpx.Request, played: Played) -> httpx.Response:
    """The response as it was recorded.

    Raises:
        httpx.RequestError: There was none.
    """
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
