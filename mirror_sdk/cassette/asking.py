"""What tells a request from others when it is made again. Nothing in here does I/O."""

from __future__ import annotations

import hashlib

import httpx

from mirror_sdk.cassette.content import RequestKey
from mirror_sdk.wire.routes import PULL

_CHOSEN_ANEW = frozenset({"async-id", "hold", "compression"})
_TELLING_HEADERS = ("accept", "content-type", "if-match", "if-none-match")


def asked_of(request: httpx.Request, base_path: str) -> RequestKey:
    """What a request asks; its body is to be read before.

    Args:
        request: The request.
        base_path: The path of the service's address.
    """
    content = request.content
    return RequestKey(
        method=request.method,
        path=request.url.path.removeprefix(base_path),
        query=tuple(sorted(pair for pair in request.url.params.multi_items() if pair[0] not in _CHOSEN_ANEW)),
        headers=tuple((name, request.headers[name]) for name in _TELLING_HEADERS if name in request.headers),
        body_sha256=hashlib.sha256(content).hexdigest() if content else None,
    )


def async_id_of(request: httpx.Request) -> str | None:
    """Under which async-id a device request is made."""
    found: str | None = request.url.params.get("async-id")
    return found


def is_poll(asked: RequestKey) -> bool:
    """Whether it asks for what the notification log has."""
    return asked.method == "GET" and asked.path.rstrip("/") == PULL


def hold_of(request: httpx.Request) -> float:
    """For how many seconds a poll may be held."""
    hold = request.url.params.get("hold", "0")
    return float(hold) if hold.isdecimal() else 0.0
