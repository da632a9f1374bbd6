"""The hooks that apply the limits of connections to a server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from mirror_server.config import Settings
from mirror_server.extensions.connections.connection import BoundedConnection
from mirror_server.extensions.connections.handshakes import TlsListener
from mirror_server.extensions.connections.open_files import allow_connections
from mirror_server.extensions.connections.settings import ConnectionSettings
from mirror_server.extensions.connections.trusted_proxies import TrustedProxies
from mirror_server.hooks import extends
from mirror_server.web.asgi_bridge import ASGIBridge

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


class ConnectionLimits:
    """The limits of one server.

    Args:
        settings: The settings of the server.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._limits = settings.of(ConnectionSettings)
        self._proxies = TrustedProxies(self._limits.trusted_proxies)

    @extends
    def client_of(self, environ: WSGIEnvironment) -> str:
        """Return the client of a request, which trusted proxies may have forwarded."""
        return self._proxies.client_of(environ)

    @extends
    def configure_server(self, config: uvicorn.Config, bridge: ASGIBridge) -> None:
        """Limit the connections, after raising the system's limit on open files.

        Raises:
            CannotServe: The system allows too few connections.
        """
        self._limits = replace(self._limits, max_connections=allow_connections(self._limits.max_connections))
        connection = partial(
            BoundedConnection, settings=self._settings, limits=self._limits, error_response=bridge.error_response
        )
        config.http = cast("type[asyncio.Protocol]", connection)

    @extends
    def accept(self, server: uvicorn.Server, sockets: Sequence[socket.socket]) -> list[TlsListener] | None:
        """Limit the TLS handshakes, if the server uses TLS."""
        config = server.config
        if config.ssl is None:
            return None
        make = partial(
            cast("Callable[..., asyncio.Protocol]", config.http_protocol_class),
            config=config,
            server_state=server.server_state,
            app_state=cast("dict[str, Any]", server.lifespan.state),
        )
        return [
            TlsListener(
                listener,
                config.ssl,
                make,
                server.server_state.connections,
                max_connections=self._limits.max_connections,
                handshake_seconds=self._limits.idle_timeout_seconds,
            )
            for listener in sockets
        ]
