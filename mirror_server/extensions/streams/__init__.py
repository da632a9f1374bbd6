"""Event streams and websockets: the notification log over one open connection.

``GET /v2/notification/events`` streams the log as server-sent events; a client that comes back with ``Last-Event-ID``
misses nothing. A websocket passes where a proxy cuts long polls: ``PUT /v2/notification/websocket`` registers the
channel, ``GET /v2/notification/websocket-connect`` opens it.

Websockets
----------

The key stands in ``Authorization``, or for browsers among the protocols: ``Sec-WebSocket-Protocol: wss, pelion_<key>``.
Each text frame is a message as a poll gives it, or as the ``serialization`` of the ``PUT`` says, with a ping behind it.
When the client has answered that, which libraries do by themselves, the position moves; what was not answered for is
sent again to the next websocket, so that nothing is lost, and the last messages may come twice. The library answers
when a message has come, not when the program has read it: take what it still holds before the end, or read by
``after=``, below. A websocket counts as an open poll, and ``mirror_open_websockets`` of ``/metrics`` counts them alone;
it may be at any of several processes.

It is closed with 1001 when another one of the key is opened, the channel is deleted or the server stops; with 1008
when the key is missing, wrong, revoked or lacks a scope; with 1011 when there is no channel, a ping is not answered
within ``--websocket-pong-seconds`` or the server fails; with 1009 when the client sends more than 64 KiB at once.
Smaller messages of a client are ignored. A channel that had no websocket for 24 hours is removed.

A proxy has to pass ``Upgrade`` on (nginx: ``proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection
"upgrade";``) and to allow more silence than ``--websocket-ping-seconds``.

``GET /v2/notification/websocket-connect?after=SEQ``, an extension, needs no channel: as with such a poll the reader
holds its own position, and any number of them read with one key. ``client.notifications.use_websocket()`` of the
Python package reads so.
"""

# To read it begin with ``event_stream``, then ``websockets``.

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
    """How long a websocket may be silent."""
    return StreamSettings


@extends
def help_topics() -> dict[str, str]:
    """What programs and proxies have to know."""
    return {"streams": __name__}


@extends
def storage() -> Storage:
    """The websocket channels."""
    from mirror_server.store.backend import Storage
    from mirror_server.store.schema import Branch

    return Storage(
        branch=Branch("streams", Path(__file__).parent / "migrations"),
        end_application=lambda session, app_id: session.run("DELETE FROM websockets WHERE app_id = :id", id=app_id),
    )


@extends
def build(services: Services) -> Sequence[object]:
    """The websocket channels of a server."""
    from mirror_server.extensions.streams.websockets import SOCKET, Websockets

    websockets = Websockets(
        services.database, services.clock, services.log, services.channels, is_alive=services.coordinator.is_alive
    )
    services.database.on(SOCKET, websockets.look_again)
    return [websockets]


@extends
def blueprints() -> list[Blueprint]:
    """The event stream, and the calls for websockets."""
    from mirror_server.extensions.streams.views import routes

    return [routes]


@extends
def configure_server(config: uvicorn.Config, bridge: Bridge, services: Services) -> None:
    """Let connections become websockets."""
    from mirror_server.extensions.streams.websocket_upgrade import UpgradableConnection, WebsocketUpgrade

    config.ws = cast("type[asyncio.Protocol]", WebsocketUpgrade(services, bridge))
    if isinstance(config.http, str):
        config.http = UpgradableConnection
