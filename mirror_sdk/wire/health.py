"""``GET /healthz``: that a server answers, and that it is one of these. An extension."""

from __future__ import annotations

from mirror_sdk.wire.model import WireModel

SERVICE = "device-state-mirror"
OK = "ok"


class Health(WireModel):
    """How a server is, what it is, and which extensions it has; an early one does not tell the latter."""

    status: str
    service: str | None = None
    extensions: list[str] | None = None
