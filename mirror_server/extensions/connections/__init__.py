"""Care for hostile connections: what one may send, how long it may take, how many there may be, and who sends it.

Without this extension connections are those of uvicorn: a head may have any number of headers, a client that reads
nothing keeps its connection, and the address of a client is that of its connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_server.extensions.connections.settings import ConnectionSettings
from mirror_server.hooks import extends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirror_server.server import Services


@extends
def settings() -> type:
    """The limits, and the proxies in front."""
    return ConnectionSettings


@extends
def build(services: Services) -> Sequence[object]:
    """The limits of one server."""
    from mirror_server.extensions.connections.limits import ConnectionLimits

    return [ConnectionLimits(services.settings)]
