"""The settings of websockets."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_server.config import SECONDS, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """How long a websocket may be silent."""

    websocket_ping_seconds: float = setting(
        20,
        "How long a websocket may be idle before its client is pinged; less than proxies on the way allow.",
        type=SECONDS,
    )
    websocket_pong_seconds: float = setting(
        20,
        "How long a client may take to answer a ping before its websocket is closed.",
        type=SECONDS,
    )
