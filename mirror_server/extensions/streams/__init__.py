"""Event streams and websockets: the notification log over one open connection.

Watch the log in a shell::

    curl -N -H "Authorization: Bearer $API_KEY" "$API_HOST/v2/notification/events"

``GET /v2/notification/events`` streams the log as server-sent events. A client that reconnects with ``Last-Event-ID``
misses nothing.

If a proxy cuts long polls, use a websocket: ``PUT /v2/notification/websocket`` registers the channel, and
``GET /v2/notification/websocket-connect`` opens it.

Websockets
----------

The key is in ``Authorization`` or, for browsers, in the protocols: ``Sec-WebSocket-Protocol: wss, pelion_<key>``.

Each text frame is a message in the format of a poll, or of the ``serialization`` of the ``PUT``. After each message the
server sends a ping. When the client's pong arrives, which libraries send automatically, the position moves. Messages
without a pong are sent again to the next websocket. So nothing is lost, and the last messages can arrive twice.

The library sends the pong when a message arrives, not when the program reads it. Before you close a websocket, process
the messages that the library still holds, or read with ``after=`` (below).

A websocket counts as an open poll; ``mirror_open_websockets`` in ``/metrics`` counts websockets alone. It can be open
at any of several processes. The server closes it with these codes:

- 1001: another websocket of the key opened, the channel was deleted, or the server stops.
- 1008: the key is missing, wrong or revoked, or lacks a scope.
- 1009: the client sent more than 64 KiB at once. Smaller messages of a client are ignored.
- 1011: there is no channel, a pong did not arrive within ``--websocket-pong-seconds``, or the server failed.

A channel that had no websocket for 24 hours is removed.

Websockets with a position
--------------------------

``GET /v2/notification/websocket-connect?after=SEQ``, an extension, needs no channel. As with such a poll, the reader
keeps its own position, and any number of readers can use one key. ``client.notifications.use_websocket()`` of the
Python package reads this way.

Proxies
-------

A proxy has to forward ``Upgrade`` (nginx: ``proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection
"upgrade";``). Its idle timeout has to be longer than ``--websocket-ping-seconds``.
"""

# Start reading with ``event_stream``, then ``websockets``.

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
    from mirror_server.web.bridge import Bridge


@extends
def settings() -> type:
    """Return the settings of websockets."""
    return StreamSettings


@extends
def help_topics() -> dict[str, str]:
    """Return the help about streams and websockets."""
    return {"streams": __name__}


@extends
def storage() -> Storage:
    """Return the table of websocket channels."""
    from mirror_server.store.backend import Storage
    from mirror_server.store.schema import Branch

    return Storage(
        branch=Branch("streams", Path(__file__).parent / "migrations"),
        end_application=lambda session, app_id: session.run("DELETE FROM websockets WHERE app_id = :id", id=app_id),
    )


@extends
def build(services: Services) -> Sequence[object]:
    """Return the websocket channels of a server."""
    from mirror_server.extensions.streams.websockets import SOCKET, Websockets

    websockets = Websockets(
        services.database, services.clock, services.log, services.channels, is_alive=services.coordinator.is_alive
    )
    services.database.on(SOCKET, websockets.refresh)
    return [websockets]


@extends
def blueprints() -> list[Blueprint]:
    """Return the routes of event streams and websockets."""
    from mirror_server.extensions.streams.views import routes

    return [routes]


@extends
def configure_server(config: uvicorn.Config, bridge: Bridge, services: Services) -> None:
    """Enable upgrades of connections to websockets."""
    from mirror_server.extensions.streams.websocket_upgrade import UpgradableConnection, WebsocketUpgrade

    config.ws = cast("type[asyncio.Protocol]", WebsocketUpgrade(services, bridge))
    if isinstance(config.http, str):
        config.http = UpgradableConnection
