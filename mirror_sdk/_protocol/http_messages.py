"""Conversions for httpx: the request of an operation, and the error for a failed request."""

from __future__ import annotations

import reprlib
from typing import TypeVar
from urllib.parse import urlencode

import httpx

from mirror_sdk._formatting import visible_line
from mirror_sdk._protocol.deadline import Deadline
from mirror_sdk._protocol.operation_base import Operation
from mirror_sdk._protocol.proxy_and_tls_settings import plain_hint, proxy_hint, tls_hint
from mirror_sdk.config import DEFAULT_BASE_URL, HOST_VARIABLE
from mirror_sdk.errors import CallTimeout, ConnectionFailed, InvalidValue

T = TypeVar("T")


def forget_body(response: httpx.Response) -> None:
    """Break the reference cycle between a closed response and its stream, so that its memory is freed at once."""
    response.stream = httpx.ByteStream(b"")


def request_of(
    http: httpx.Client | httpx.AsyncClient,
    operation: Operation[T],
    base_url: str,
    timeout_seconds: float,
    deadline: Deadline,
) -> httpx.Request:
    """Return the HTTP request of an operation, with the headers and cookies of the httpx client.

    The request is not built and sent by the httpx client. For each request, that client handles redirects,
    authentication and cookies, which this interface does not need. This takes longer than all other steps together.
    Reading a response may take long, because the service may hold it. Connecting has a shorter limit.

    Raises:
        InvalidValue: The address is not valid.
    """
    # The complete address is passed, because httpx would parse it three times to join its parts.
    query = f"?{urlencode(operation.params, doseq=True)}" if operation.params else ""
    headers = http.headers
    if operation.headers:
        # A copy, because the headers of the client are used for all requests.
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
        message = f"{operation.method} {reprlib.repr(operation.path)} cannot be sent: {exc}; send less at a time"
        raise InvalidValue(message) from exc
    if http.cookies:
        http.cookies.set_cookie_header(request)
    return request


def store_cookies(http: httpx.Client | httpx.AsyncClient, request: httpx.Request, response: httpx.Response) -> None:
    """Store the cookies of a response, which a load balancer may use to route requests to the same server."""
    response.request = request
    if "Set-Cookie" in response.headers:
        http.cookies.extract_cookies(response)


def lost(operation: Operation[T], base_url: str, failure: httpx.RequestError, deadline: Deadline) -> ConnectionFailed:
    """Return the error for an operation that had no response."""
    request_line = f"{operation.method} {base_url}{operation.path}"
    if isinstance(failure, httpx.TimeoutException) and deadline.is_over:
        return CallTimeout(f"{request_line}: {deadline.overrun}")
    hint = tls_hint(failure) or plain_hint(base_url, failure)
    was_sent = not isinstance(failure, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError))
    if not hint and not was_sent:
        hint = proxy_hint(base_url)
    if not hint and isinstance(failure, httpx.ConnectError):
        cure = f"Check its address, {HOST_VARIABLE}"
        if base_url == DEFAULT_BASE_URL:
            cure = f"Start 'mirror-server demo', or set {HOST_VARIABLE} to another address"
        hint = f"; is the mirror running? {cure}"
    reason = f"{type(failure).__name__}: {visible_line(str(failure))}"
    error = ConnectionFailed(f"{request_line}: no response ({reason}){hint}")
    error.was_sent = was_sent
    return error
