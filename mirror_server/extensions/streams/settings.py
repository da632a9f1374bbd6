"""The settings of websockets."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_server.config import SECONDS, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """The interval of websocket pings, and the timeout of their pongs."""

    websocket_ping_seconds: float = setting(
        20,
        "Seconds after which the server sends a ping on an idle websocket. Set less than the idle timeout of your"
        " proxies.",
        type=SECONDS,
    )
    websocket_pong_seconds: float = setting(
        20,
        "Seconds in which a client has to respond to a ping. Otherwise the server closes its websocket.",
        type=SECONDS,
    )
