"""One exchange of a client with the server, with the faults that act on it, as steps that somebody else takes.

So a transport that blocks and one on an event loop do the same. Nothing in here does I/O or waits.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

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


@dataclass(frozen=True, slots=True)
class SendToServer:
    """Have the server answer a request; ``is_read`` when the whole body is wanted."""

    request: httpx.Request
    is_read: bool = False


@dataclass(frozen=True, slots=True)
class WaitForChannel:
    """Wait, at most so long, until the notification channel may bring something again."""

    seconds: float


@dataclass(frozen=True, slots=True)
class LetPass:
    """Let so much time pass on the mirror's clock."""

    seconds: float


Step: TypeAlias = SendToServer | WaitForChannel | LetPass
Exchange: TypeAlias = Generator[Step, Any, httpx.Response]
"""Yields steps, is sent the response after each :class:`SendToServer`, and gives the response of the whole."""


def exchange(request: httpx.Request, faults: Faults) -> Exchange:
    """An exchange from its request to its response.

    Raises:
        httpx.ConnectError: The request is to be lost.
        httpx.ReadError: The answer is to be lost.
        httpx.ReadTimeout: The answer is later than the client waits.
    """
    encounter = faults.meet(request)
    if encounter.is_request_lost:
        raise httpx.ConnectError("a fault dropped the request", request=request)
    response = yield from _poll(request, faults) if _is_poll(request) else _send(request)
    for _ in range(encounter.repeats):
        yield SendToServer(request, is_read=True)
    if encounter.late_seconds:
        yield from _be_late(request, encounter.late_seconds)
    if encounter.is_answer_lost:
        raise httpx.ReadError("a fault dropped the answer", request=request)
    return response


def _send(request: httpx.Request) -> Exchange:
    response: httpx.Response = yield SendToServer(request)
    return response


def _be_late(request: httpx.Request, late_seconds: float) -> Generator[Step, Any, None]:
    patience_seconds = request.extensions.get("timeout", {}).get("read")
    if patience_seconds is None or late_seconds <= patience_seconds:
        yield LetPass(late_seconds)
        return
    yield LetPass(patience_seconds)
    raise httpx.ReadTimeout("a fault delayed the answer", request=request)


@dataclass(slots=True)
class _Gathered:
    """What follows a position, of one message or more."""

    after: str
    message: dict[str, list[Any]] = field(default_factory=dict)
    gap: str | None = None
    served_at: str | None = None
    messages: int = 0

    def add(self, response: httpx.Response) -> None:
        self.messages += 1
        self.after = response.headers.get(CURSOR_HEADER, self.after)
        self.gap = self.gap or response.headers.get(GAP_HEADER)
        self.served_at = response.headers.get(TIME_HEADER)
        for key, entries in (json.loads(response.content) if response.content else {}).items():
            self.message[key] = self.message.get(key, []) + entries


def _poll(request: httpx.Request, faults: Faults) -> Exchange:
    """A poll that gives up when its hold is over, whatever holds the channel up.

    Nothing is ever lost by that: the reader's position stays where it was.
    """
    after, hold_seconds = _position(request), _hold_seconds(request)
    if hold_seconds:
        yield from _give_up_silent_devices(request, faults)
    end_at = time.monotonic() + hold_seconds
    gathered = _Gathered(after or "")
    while True:
        left_seconds = max(0.0, end_at - time.monotonic())
        if not faults.is_channel_late():
            response: httpx.Response = yield SendToServer(
                _poll_request(request, gathered.after, left_seconds), is_read=True
            )
            if after is None or response.status_code not in {200, 204}:
                return response
            gathered.add(response)
            if not faults.is_channel_late() and not faults.is_incomplete(gathered.message):
                altered = faults.alter(gathered.message)
                if gathered.messages == 1 and altered == gathered.message:
                    return response
                return _answer(request, gathered.after, altered, gathered.gap, gathered.served_at)
        elif left_seconds:
            yield WaitForChannel(left_seconds)
        if not left_seconds:
            return _answer(request, after, {})


def _give_up_silent_devices(request: httpx.Request, faults: Faults) -> Generator[Step, Any, None]:
    """Let the server's patience pass for each attempt of what this application waits for from silent devices."""
    for device_id in faults.silent_devices:
        url = request.url.copy_with(path=DEVICE_REQUESTS.format(device_id=device_id), query=None)
        for _ in range(1 + MAX_RETRIES):
            response = yield SendToServer(httpx.Request("GET", url, headers=request.headers), is_read=True)
            if response.status_code != httpx.codes.OK or not response.json()["data"]:
                break
            yield LetPass(faults.patience_seconds)


def _is_poll(request: httpx.Request) -> bool:
    """Whether it is a poll the server would hold; what is wrong with another one the server itself says."""
    if request.method != "GET" or request.url.path.rstrip("/") != PULL:
        return False
    params = request.url.params
    hold, after = params.get("hold", "0"), params.get("after", "0")
    return hold.isdecimal() and int(hold) <= MAX_HOLD_SECONDS and after.isdecimal()


def _position(request: httpx.Request) -> str | None:
    after: str | None = request.url.params.get("after")
    return after


def _hold_seconds(request: httpx.Request) -> int:
    return int(request.url.params.get("hold", DEFAULT_HOLD_SECONDS))


def _poll_request(request: httpx.Request, after: str, hold_seconds: float) -> httpx.Request:
    """The poll with another position and hold; one without a position stays one."""
    params = request.url.params.set("hold", min(math.ceil(hold_seconds), _hold_seconds(request)))
    if after:
        params = params.set("after", after)
    url = request.url.copy_with(params=params)
    return httpx.Request("GET", url, headers=request.headers, extensions=request.extensions)


def _answer(
    request: httpx.Request,
    cursor: str | None,
    message: Mapping[str, Any],
    gap: str | None = None,
    served_at: str | None = None,
) -> httpx.Response:
    told = {CURSOR_HEADER: cursor, GAP_HEADER: gap, TIME_HEADER: served_at}
    headers = {name: value for name, value in told.items() if value is not None}
    if not message:
        return httpx.Response(204, headers=headers, request=request)
    return httpx.Response(200, headers=headers, json=message, request=request)
