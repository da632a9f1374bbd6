"""The device directory. Source: wire.md 6."""

from __future__ import annotations

from typing import Any, Literal

from mirror_sdk.wire.model import Order, Timestamp, WireModel

FILTER_FIELDS = ("id", "name", "endpoint_name", "endpoint_type", "state", "created_at", "updated_at")
FILTER_OPERATORS = ("eq", "neq", "in", "nin", "gte", "lte", "gt", "lt")
DEFAULT_LIMIT = 50
MIN_LIMIT = 2
MAX_LIMIT = 1000


class Device(WireModel):
    """A device as the directory lists it."""

    object: Literal["device"] = "device"
    id: str
    name: str | None = None
    endpoint_name: str
    endpoint_type: str | None = None
    state: str
    created_at: Timestamp
    updated_at: Timestamp
    etag: str | None = None
    bootstrapped_timestamp: Timestamp | None = None
    custom_attributes: dict[str, Any] = {}
    queue_mode: bool = False


class DevicePage(WireModel):
    """One page of the directory; ``total_count`` only when it was asked for."""

    object: Literal["list"] = "list"
    data: list[Device]
    has_more: bool
    limit: int
    order: Order
    after: str | None = None
    total_count: int | None = None


class EndpointResource(WireModel):
    """A resource of a device as ``GET /v2/endpoints/{id}`` lists it."""

    uri: str
    obs: bool
    rt: str = ""
    type: str = ""
