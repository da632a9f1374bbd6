"""``GET /healthz``, which returns whether a server is healthy and is a device state mirror.

An extension of the specification.
"""

from __future__ import annotations

from mirror_sdk.wire.model import WireModel

SERVICE = "device-state-mirror"
OK = "ok"


class Health(WireModel):
    """The status of a server, the kind of service, and its extensions, which an early server does not list."""

    status: str
    service: str | None = None
    extensions: list[str] | None = None
