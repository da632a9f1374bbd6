"""The transports from clients to the server inside the test, to which faults are applied."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

import httpx

from mirror_sdk.testing.faults import Faults
from mirror_sdk.wire.device_requests import MAX_RETRIES
from mirror_sdk.wire.routes import (
    CURSOR_HEADER,
    DEFAULT_HOLD_SECONDS,
    DEVICE_REQUESTS,
    GAP_HEADER,
    MAX_HOLD_SECONDS,
    PULL,
    TIME_HEADER,
)

if TYPE_CHECKING:
    from mirror_sdk.testing.in_process import InProcessServer

_POLL_SECONDS = 0.2
_MOST_THREADS = 1000


class FaultyTransport(httpx.BaseTransport):
    """A transport that sends requests to the server in the process, and applies the active faults.

    Args:
        server: The server.
        faults: The faults that affect requests and responses.
        let_pass: A function that advances the clock of the mirror by a number of seconds.
    """

    def __init__(self, server: InProcessServer, faults: Faults, let_pass: Callable[[float], object]) -> None:
        self._server = server
        self._faults = faults
        self._let_pass = let_pass

    def handle_request(self, request: httpx.Request, is_canceled: Callable[[], bool] = lambda: False) -> httpx.Response:
        """Send a request and return the response, with the effects of faults.

        Args:
            request: The request.
            is_canceled: A function that returns whether the client has stopped waiting for the response.

        Raises:
            httpx.ConnectError: A fault drops the request, or the server is stopped.
            httpx.ReadError: A fault drops the response, or the server was stopped before the response was complete.
            httpx.ReadTimeout: The delay of the response exceeds the timeout of the client.
        """
        acting = self._faults.acting_on(request)
        actions = [(fault.action, fault.target) for fault in acting]
        if ("drop", "request") in actions:
            raise httpx.ConnectError("a fault dropped the request", request=request)
        if _is_poll(request):
            response = self._poll(request, is_canceled)
        else:
            response = self._server.handle_request(request, is_canceled)
        for _ in range(actions.count(("duplicate", "request"))):
            self.read(request, is_canceled)
        self._apply_delay(request, sum(fault.delay_seconds for fault in acting))
        if ("drop", "response") in actions:
            raise httpx.ReadError("a fault dropped the response", request=request)
        return response

    def read(self, request: httpx.Request, is_canceled: Callable[[], bool]) -> httpx.Response:
        """Send a request to the server and read the complete response."""
        response = _buffered(self._server.handle_request(request, is_canceled))
        response.read()
        return response

    def _apply_delay(self, request: httpx.Request, delay_seconds: float) -> None:
        if not delay_seconds:
            return
        timeout_seconds = request.extensions.get("timeout", {}).get("read")
        if timeout_seconds is None or delay_seconds <= timeout_seconds:
            self._let_pass(delay_seconds)
            return
        self._let_pass(timeout_seconds)
        raise httpx.ReadTimeout("a fault delayed the response", request=request)

    def _poll(self, request: httpx.Request, is_canceled: Callable[[], bool]) -> httpx.Response:
        """Poll until there are entries to deliver, or until the waiting time of the poll has elapsed.

        Faults may delay entries but do not lose them, because the position of the reader does not change.
        """
        after: str | None = request.url.params.get("after")
        hold_seconds = _hold_seconds(request)
        if hold_seconds:
            self._expire_silent_requests(request, is_canceled)
        end_at = time.monotonic() + hold_seconds
        # Several responses are needed if the first entries have to wait for later ones.
        responses: list[httpx.Response] = []
        position = after
        while True:
            left_seconds = max(0.0, end_at - time.monotonic())
            if not self._faults.is_channel_late():
                response = self.read(_poll_request(request, position, left_seconds), is_canceled)
                # Without a position, the server has already advanced its stored position. So the entries cannot be held
                # back.
                if after is None or response.status_code not in {200, 204}:
                    return response
                responses.append(response)
                position = response.headers.get(CURSOR_HEADER, position)
                message = _merged(responses)
                if not self._faults.is_channel_late() and not self._faults.is_incomplete(message):
                    altered = self._faults.alter(message)
                    is_unchanged = len(responses) == 1 and altered == message
                    return response if is_unchanged else _poll_response(request, responses, altered)
            elif left_seconds:
                # The steps are short, so that a client that stopped waiting is noticed soon.
                self._faults.wait(min(left_seconds, _POLL_SECONDS))
            if not left_seconds or is_canceled():
                return httpx.Response(204, headers={CURSOR_HEADER: after} if after else None, request=request)

    def _expire_silent_requests(self, request: httpx.Request, is_canceled: Callable[[], bool]) -> None:
        """Advance the clock past the timeouts of this application's requests to silent devices.

        The clock advances once for each attempt.
        """
        for device_id in self._faults.silent_devices:
            url = request.url.copy_with(path=DEVICE_REQUESTS.format(device_id=device_id), query=None)
            for _ in range(1 + MAX_RETRIES):
                response = self.read(httpx.Request("GET", url, headers=request.headers), is_canceled)
                if response.status_code != httpx.codes.OK or not response.json()["data"]:
                    break
                self._let_pass(self._faults.patience_seconds)


class AsyncFaultyTransport(httpx.AsyncBaseTransport):
    """A :class:`FaultyTransport` for asynchronous clients. It sends each request in a thread."""

    def __init__(self, server: InProcessServer, faults: Faults, let_pass: Callable[[float], object]) -> None:
        self._transport = FaultyTransport(server, faults, let_pass)
        self._threads = ThreadPoolExecutor(_MOST_THREADS, "mirror-transport")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return the response. If the task is canceled, the thread stops waiting soon afterwards."""
        is_over = threading.Event()
        try:
            return await asyncio.wrap_future(self._threads.submit(self._carry, request, is_over.is_set))
        finally:
            is_over.set()

    def _carry(self, request: httpx.Request, is_canceled: Callable[[], bool]) -> httpx.Response:
        response = self._transport.handle_request(request, is_canceled)
        return response if response.is_stream_consumed else _buffered(response)

    async def aclose(self) -> None:
        """Shut down the threads after they become idle."""
        self._threads.shutdown(wait=False)


def _buffered(response: httpx.Response) -> httpx.Response:
    """Return the response with a stream that, unlike a WSGI stream, can be read twice and in an event loop."""
    with closing(cast("httpx.SyncByteStream", response.stream)) as body:
        response.stream = httpx.ByteStream(b"".join(body))
    return response


def _is_poll(request: httpx.Request) -> bool:
    """Return whether the request is a poll that the server would hold open.

    The server itself rejects malformed polls.
    """
    if request.method != "GET" or request.url.path.rstrip("/") != PULL:
        return False
    params = request.url.params
    hold, after = params.get("hold", "0"), params.get("after", "0")
    return hold.isdecimal() and int(hold) <= MAX_HOLD_SECONDS and after.isdecimal()


def _hold_seconds(request: httpx.Request) -> int:
    return int(request.url.params.get("hold", DEFAULT_HOLD_SECONDS))


def _poll_request(request: httpx.Request, after: str | None, hold_seconds: float) -> httpx.Request:
    """Return the poll with another position and waiting time.

    A poll without a position stays without one.
    """
    params = request.url.params.set("hold", min(math.ceil(hold_seconds), _hold_seconds(request)))
    if after:
        params = params.set("after", after)
    url = request.url.copy_with(params=params)
    return httpx.Request("GET", url, headers=request.headers, extensions=request.extensions)


def _merged(responses: Sequence[httpx.Response]) -> dict[str, list[Any]]:
    message: dict[str, list[Any]] = {}
    for response in responses:
        for key, entries in (response.json() if response.content else {}).items():
            message[key] = message.get(key, []) + entries
    return message


def _poll_response(
    request: httpx.Request, responses: Sequence[httpx.Response], message: Mapping[str, Any]
) -> httpx.Response:
    """Merge the responses into one.

    The result contains the gap from the first response, and the position and the time from the last one.
    """
    first, last = responses[0], responses[-1]
    sources = ((GAP_HEADER, first), (CURSOR_HEADER, last), (TIME_HEADER, last))
    headers = {name: response.headers[name] for name, response in sources if name in response.headers}
    return httpx.Response(200 if message else 204, headers=headers, json=message or None, request=request)
