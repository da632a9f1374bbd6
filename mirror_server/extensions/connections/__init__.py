"""Limits on connections before authentication, and trusted proxies."""

# Read ``limits`` first, then ``connection``.

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_server.extensions.connections.settings import ConnectionSettings
from mirror_server.hooks import extends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mirror_server.server import Services


@extends
def settings() -> type:
    """Return the settings class with the limits and the trusted proxies."""
    return ConnectionSettings


@extends
def build(services: Services) -> Sequence[object]:
    """Build the limits of one server."""
    from mirror_server.extensions.connections.limits import ConnectionLimits

    return [ConnectionLimits(services.settings)]
