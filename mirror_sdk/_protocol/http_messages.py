"""Requests and responses of httpx as values: how an operation is written, and which error a failure becomes."""

from __future__ import annotations

import reprlib
from typing import TypeVar
from urllib.parse import urlencode

import httpx

from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk._protocol.environment import plain_hint, proxy_hint, tls_hint
from mirror_sdk._protocol.operation import Operation
from mirror_sdk._visible import visible_line
from mirror_sdk.config import DEFAULT_BASE_URL, HOST_VARIABLE
from mirror_sdk.errors import CallTimeout, ConnectionFailed, InvalidValue

T = TypeVar("T")


def forget_body(answer: httpx.Response) -> None:
    """Let a closed answer go at once: it and the stream of its body hold each other, for a collection to find."""
    answer.stream = httpx.ByteStream(b"")


def request_of(
    http: httpx.Client | httpx.AsyncClient,
    operation: Operation[T],
    base_url: str,
    timeout_seconds: float,
    deadline: Deadline,
) -> httpx.Request:
    """An operation as it is sent, with the headers and cookies of its client.

    It is not built and sent by that client, which at each request looks for what no service of this interface has:
    redirects to follow, other ways to authenticate, cookies in every answer. That takes longer than all else here.
    An answer may be held back for long; a connection comes soon, or never.

    Raises:
        InvalidValue: Its address cannot be one.
    """
    # The whole address: httpx would take one apart three times to put it together from its parts.
    query = f"?{urlencode(operation.params, doseq=True)}" if operation.params else ""
    headers = http.headers
    if operation.headers:
        headers = httpx.Headers(headers)
        headers.update(operation.headers)
    timeout = httpx.Timeout(deadline.to_connect(timeout_seconds), read=deadline)
    try:
        request = httpx.Request(
            operation.method,
            f"{base_url}{operation.path}{query}",
            headers=headers,
            json=operation.json,
            extensions={"timeout": timeout.as_dict()},
        )
    except httpx.InvalidURL as exc:
        message = f"{operation.method} {reprlib.repr(operation.path)} cannot be sent: {exc}; give less"
        raise InvalidValue(message) from exc
    if http.cookies:
        http.cookies.set_cookie_header(request)
    return request


def take_cookies(http: httpx.Client | httpx.AsyncClient, request: httpx.Request, answer: httpx.Response) -> None:
    """Keep the cookies of an answer, by which what spreads requests over several servers finds the same one again."""
    answer.request = request
    if "Set-Cookie" in answer.headers:
        http.cookies.extract_cookies(answer)


def lost(operation: Operation[T], base_url: str, failure: httpx.RequestError, deadline: Deadline) -> ConnectionFailed:
    """The error for an operation that had no answer."""
    place = f"{operation.method} {base_url}{operation.path}"
    if isinstance(failure, httpx.TimeoutException) and deadline.is_over:
        return CallTimeout(f"{place}: {deadline.overrun}")
    hint = tls_hint(failure) or plain_hint(base_url, failure)
    was_sent = not isinstance(failure, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError))
    if not hint and not was_sent:
        hint = proxy_hint(base_url)
    if not hint and base_url == DEFAULT_BASE_URL and isinstance(failure, httpx.ConnectError):
        hint = f"; nothing answers at {base_url}: start 'mirror-server demo', or set {HOST_VARIABLE} to another address"
    error = ConnectionFailed(f"{place}: no answer ({type(failure).__name__}: {visible_line(str(failure))}){hint}")
    error.was_sent = was_sent
    return error
