"""Event streams and websockets, which deliver the notification log over one open connection."""

# Start reading with ``event_stream``, then ``websocket_channels``.

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from mirror_server.extensions.streams.settings import StreamSettings
from mirror_server.hooks import extends

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    import uvicorn
    from flask import Blueprint

    from mirror_server.server import Services
    from mirror_server.store.backend import Storage
    from mirror_server.web.asgi_bridge import ASGIBridge


@extends
def settings() -> type:
    """Return the class of the websocket settings."""
    return StreamSettings


@extends
def storage() -> Storage:
    """Return the database table of websocket channels, with the function that deletes the channel of an application."""
    from mirror_server.store.backend import Storage
    from mirror_server.store.schema import Branch

    return Storage(
        branch=Branch("streams", Path(__file__).parent / "migrations"),
        end_application=lambda session, app_id: session.run("DELETE FROM websockets WHERE app_id = :id", id=app_id),
    )


@extends
def build(services: Services) -> Sequence[object]:
    """Create the websocket channels of a server."""
    from mirror_server.extensions.streams.websocket_channels import SOCKET, WebsocketChannels

    websockets = WebsocketChannels(
        services.database, services.clock, services.log, services.channels, is_alive=services.coordinator.is_alive
    )
    services.database.on(SOCKET, websockets.refresh)
    return [websockets]


@extends
def blueprints() -> list[Blueprint]:
    """Return the blueprint with the routes of event streams and websockets."""
    from mirror_server.extensions.streams.views import routes

    return [routes]


@extends
def configure_server(config: uvicorn.Config, bridge: ASGIBridge, services: Services) -> None:
    """Make uvicorn upgrade connections to websockets."""
    from mirror_server.extensions.streams.websocket_upgrade import UpgradableConnection, WebsocketUpgrade

    config.ws = cast("type[asyncio.Protocol]", WebsocketUpgrade(services, bridge))
    if isinstance(config.http, str):
        config.http = UpgradableConnection
