"""A fleet with all kinds of devices, and responses that are changed in transit, for both kinds of clients."""

import functools
import tracemalloc
import zlib

import httpx
from resource_paths import LEVEL

from mirror_sdk.wire.snapshot import ARROW

TEMPERATURE, LIGHT, UNIT = "/3303/0/5700", "/3311/0/5850", "/3303/0/5701"
RESOURCES = [
    {"path": TEMPERATURE, "value": "21.5", "observable": True},
    {"path": UNIT, "value": "K", "observable": True},
    {"path": LIGHT, "value": "0", "observable": True, "writable": True},
    {"path": "/3/0/13", "value": "1700000000", "observable": True},
    {"path": "/3/0/0", "value": "Example", "observable": True},
    {"path": "/9999/0/1", "value": "hello", "observable": True},
]
DIMMER = {"path": LEVEL, "value": "10", "observable": True, "writable": True}
DIMMED = [RESOURCES[0], DIMMER]
"""The paths of a temperature and a level."""


class Between(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """A transport between a client of either kind and the server.

    ``before`` receives each request and may fail it before it is sent. ``change`` returns the changed response, or
    raises an error as if it were lost.
    """

    def __init__(self, mirror, change=None, *, before=lambda request: None):
        self._mirror = mirror
        self._change = change
        self._before = before

    def handle_request(self, request):
        self._before(request)
        response = self._mirror.transport.handle_request(request)
        if self._change is None:
            return response
        response.read()
        return self._change(request, response)

    async def handle_async_request(self, request):
        self._before(request)
        response = await self._mirror.async_transport.handle_async_request(request)
        if self._change is None:
            return response
        await response.aread()
        return self._change(request, response)


class Arriving(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body as it arrives from a socket; it counts the bytes that were read."""

    def __init__(self, content, piece_bytes=65_536):
        self.pieces = [content[begin : begin + piece_bytes] for begin in range(0, len(content), piece_bytes)]
        self.pieces_read = 0
        self.is_closed = False

    def __iter__(self):
        for piece in self.pieces:
            self.pieces_read += 1
            yield piece

    async def __aiter__(self):
        for piece in self:
            yield piece

    def close(self):
        self.is_closed = True

    async def aclose(self):
        self.is_closed = True


@functools.cache
def zipped(begin, spaces, bits=31):
    """Return compressed content that is followed by many spaces."""
    compress = zlib.compressobj(wbits=bits)
    parts = [compress.compress(begin), *(compress.compress(b" " * 10**6) for _ in range(spaces // 10**6))]
    return b"".join([*parts, compress.flush()])


def traced_peak(call):
    """Return the peak memory of a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def response_with(response, content):
    return httpx.Response(
        response.status_code, headers={"Content-Type": response.headers["Content-Type"]}, content=content
    )


def without(ending, request, response):
    """Return the response of a service without paths that end with ``ending``."""
    if not request.url.path.endswith(ending):
        return response
    return httpx.Response(404, json={"object": "error", "code": 404, "type": "not_found", "message": "no such path"})


without_snapshots = functools.partial(without, "/v3/device-echo")


def without_arrow(request, response):
    if request.headers["Accept"] != ARROW:
        return response
    body = {"object": "error", "code": 406, "type": "not_acceptable", "message": "no pyarrow here"}
    return httpx.Response(406, json=body)
