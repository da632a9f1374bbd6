"""Conversion of httpx requests and responses, so that they can be recorded and replayed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx

from mirror_sdk.cassette.player import Played
from mirror_sdk.wire.routes import PREFER_HEADER

_UNCOMPRESSED = "identity"


def prepare(request: httpx.Request) -> None:
    """Change a request so that its response can be recorded and replayed."""
    # The recorder could not find the access key in a compressed body.
    request.headers["Accept-Encoding"] = _UNCOMPRESSED
    # Without this, timing would determine whether a response arrives immediately, and how the client polls for others.
    request.headers.pop(PREFER_HEADER, None)


class _RecordedBody(httpx.SyncByteStream, httpx.AsyncByteStream):
    """The recorded body of a response. If an error ended the body, reading it raises that error."""

    def __init__(self, played: Played) -> None:
        self._played = played

    def __iter__(self) -> Iterator[bytes]:
        yield from self._played.chunks()
        _fail(self._played)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._played.chunks():
            yield chunk
        _fail(self._played)


def response_of(request: httpx.Request, played: Played) -> httpx.Response:
    """Return the recorded response to a request.

    Raises:
        httpx.RequestError: The recorded request failed.
    """
    if played.status is None:
        _fail(played)
        raise httpx.ReadError("the recording contains no response to this request; record it again", request=request)
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in played.headers.items()]
    return httpx.Response(played.status, headers=headers, stream=_RecordedBody(played))


def _fail(played: Played) -> None:
    """Raise the httpx error that ended the exchange, if any."""
    if played.failure is None:
        return
    name, message = played.failure
    kind = getattr(httpx, name, None)
    is_one = isinstance(kind, type) and issubclass(kind, httpx.RequestError)
    raise (kind if is_one and kind else httpx.ReadError)(message)
