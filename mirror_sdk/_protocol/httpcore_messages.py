"""Conversions between httpx and httpcore for both networks: addresses, requests, proxies and errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpcore
import httpx

from mirror_sdk._protocol.proxy_and_tls_settings import proxy_for

MAX_IDLE = 20
"""The maximum number of idle connections, as in httpx."""
IDLE_SECONDS = 5.0
"""The lifetime of an idle connection in seconds, as in httpx."""


def httpcore_url(url: httpx.URL) -> httpcore.URL:
    """Convert a URL of httpx to one of httpcore."""
    return httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)


def httpcore_request(request: httpx.Request) -> httpcore.Request:
    """Convert a request of httpx to one of httpcore."""
    return httpcore.Request(
        method=request.method,
        url=httpcore_url(request.url),
        headers=request.headers.raw,
        content=request.stream,
        extensions=request.extensions,
    )


@contextmanager
def httpx_errors() -> Iterator[None]:
    """Convert errors of httpcore in the block to those of httpx, which have the same names."""
    try:
        yield
    except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError, httpcore.TimeoutException) as exc:
        error: type[httpx.RequestError] = getattr(httpx, type(exc).__name__)
        raise error(str(exc)) from exc


def httpcore_proxy(base_url: httpx.URL) -> httpcore.Proxy | None:
    """Return the proxy of the environment for an address, or ``None``.

    Raises:
        ConfigError: The proxy cannot be used.
    """
    proxy = proxy_for(base_url)
    if proxy is None:
        return None
    return httpcore.Proxy(httpcore_url(proxy.url), auth=proxy.raw_auth, headers=proxy.headers.raw)
