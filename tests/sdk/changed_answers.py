"""A fleet of all kinds of devices, and answers that are changed on their way to a client of either kind."""

import httpx

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


def between(change):
    """A transport of the server whose answers are changed on the way; made for both kinds of clients."""

    class Sync(httpx.BaseTransport):
        def __init__(self, inner):
            self.inner = inner

        def handle_request(self, request):
            answer = self.inner.handle_request(request)
            answer.read()
            return change(request, answer)

    class Async(httpx.AsyncBaseTransport):
        def __init__(self, inner):
            self.inner = inner

        async def handle_async_request(self, request):
            answer = await self.inner.handle_async_request(request)
            await answer.aread()
            return change(request, answer)

    return Sync, Async


def answer_with(answer, content):
    return httpx.Response(answer.status_code, headers={"Content-Type": answer.headers["Content-Type"]}, content=content)


def without_snapshots(request, answer):
    if request.url.path != "/v3/device-echo":
        return answer
    return httpx.Response(404, json={"object": "error", "code": 404, "type": "not_found", "message": "no such path"})


def without_arrow(request, answer):
    if request.headers["Accept"] != ARROW:
        return answer
    body = {"object": "error", "code": 406, "type": "not_acceptable", "message": "no pyarrow here"}
    return httpx.Response(406, json=body)
