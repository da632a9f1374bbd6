"""``GET /healthz``: that a server answers, and that it is one of these. An extension."""

from __future__ import annotations

from mirror_sdk.wire.model import WireModel

SERVICE = "device-state-mirror"
OK = "ok"


class Health(WireModel):
    """How a server is; an early one does not tell what it is."""

    status: str
    service: str | None = None
