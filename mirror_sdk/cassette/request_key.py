"""The keys with which a request is matched to its recording. This module does no I/O."""

from __future__ import annotations

import hashlib

import httpx

from mirror_sdk.cassette.cassette_file import RequestKey
from mirror_sdk.wire.routes import PULL

_VARYING_PARAMETERS = frozenset({"async-id", "hold", "compression"})
_KEY_HEADERS = ("accept", "content-type", "if-match", "if-none-match")


def request_key_of(request: httpx.Request, base_path: str) -> RequestKey:
    """Return the key of a request. The body of the request must have been read.

    Args:
        request: The request.
        base_path: The path in the address of the service.
    """
    content = request.content
    return RequestKey(
        method=request.method,
        path=request.url.path.removeprefix(base_path),
        query=tuple(sorted(pair for pair in request.url.params.multi_items() if pair[0] not in _VARYING_PARAMETERS)),
        headers=tuple((name, request.headers[name]) for name in _KEY_HEADERS if name in request.headers),
        body_sha256=hashlib.sha256(content).hexdigest() if content else None,
    )


def async_id_of(request: httpx.Request) -> str | None:
    """Return the async-id of a device request."""
    found: str | None = request.url.params.get("async-id")
    return found


def is_poll(key: RequestKey) -> bool:
    """Return whether the key belongs to a poll of the notification log."""
    return key.method == "GET" and key.path.rstrip("/") == PULL


def hold_seconds_of(request: httpx.Request) -> float:
    """Return the time for which a poll may wait, in seconds."""
    hold = request.url.params.get("hold", "0")
    return float(hold) if hold.isdecimal() else 0.0
