"""The network of the asynchronous client: that of httpx, opened beside the loop."""

from __future__ import annotations

import anyio
import httpx

from mirror_sdk._service.environment import certificates_for, proxy_for


class AsyncNetwork(httpx.AsyncBaseTransport):
    """Carries requests over the connections of one pool, through the proxy that the environment names for the address.

    Args:
        base_url: Where the requests go.

    Raises:
        ConfigError: The environment names no proxy that can be used.
    """

    def __init__(self, base_url: str) -> None:
        self._url = httpx.URL(base_url)
        self._proxy = proxy_for(self._url)
        self._opened: httpx.AsyncHTTPTransport | None = None

    def open(self) -> httpx.AsyncHTTPTransport:
        """Make it ready, which takes a tenth of a second: to be done in a thread before anything is sent.

        Raises:
            ConfigError: The certificates that the environment names cannot be read.
        """
        if self._opened is None:
            # Loads what anyio loads where it is wanted first.
            anyio.run(anyio.sleep, 0)
            self._opened = httpx.AsyncHTTPTransport(verify=certificates_for(self._url) or False, proxy=self._proxy)
        return self._opened

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the body of the answer is read as it is wanted."""
        return await self.open().handle_async_request(request)

    async def aclose(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            await self._opened.aclose()
