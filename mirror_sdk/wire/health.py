"""``GET /healthz``: whether a server responds, and is a device state mirror. An extension."""

from __future__ import annotations

from mirror_sdk.wire.model import WireModel

SERVICE = "device-state-mirror"
OK = "ok"


class Health(WireModel):
    """The status of a server, its kind, and its extensions. An early server does not list its extensions."""

    status: str
    service: str | None = None
    extensions: list[str] | None = None
