"""The device directory. Source: wire.md 6."""

from __future__ import annotations

from html import escape
from typing import Any, Literal

from mirror_sdk._visible import CARD, html_table, time_text, visible
from mirror_sdk.wire.model import Order, Timestamp, WireModel

FILTER_FIELDS = ("id", "name", "endpoint_name", "endpoint_type", "state", "created_at", "updated_at")
FILTER_OPERATORS = ("eq", "neq", "in", "nin", "gte", "lte", "gt", "lt")
DEFAULT_LIMIT = 50
MIN_LIMIT = 2
MAX_LIMIT = 1000


class Device(WireModel):
    """A device as the directory lists it; ``queue_mode`` and ``last_contact_at`` are extensions.

    ``last_contact_at`` is when anything last came from the device: a registration, its update or end, a value, an
    answer; ``None`` where the service does not tell.
    """

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
    last_contact_at: Timestamp | None = None

    def __repr__(self) -> str:
        """The device in one line; ``model_dump()`` has all there is."""
        queue_mode = " queue_mode" if self.queue_mode else ""
        return (
            f"<Device {visible(self.id)} endpoint_name={self.endpoint_name!r} endpoint_type={self.endpoint_type!r}"
            f" {visible(self.state)}{queue_mode}>"
        )

    __str__ = __repr__

    def _repr_html_(self) -> str:
        about = [
            ("device id", self.id),
            ("name", self.name or ""),
            ("type", self.endpoint_type or ""),
            ("state", self.state),
            ("queue mode", "yes" if self.queue_mode else "no"),
            ("created at (UTC)", time_text(self.created_at)),
            ("last registration event (UTC)", time_text(self.updated_at)),
            ("last contact (UTC)", "" if self.last_contact_at is None else time_text(self.last_contact_at)),
            *self.custom_attributes.items(),
        ]
        rows = ((_cell(name), _cell(value)) for name, value in about if value != "")
        return f"<div {CARD}><strong>{_cell(self.endpoint_name)}</strong>{html_table(_COLUMNS, rows)}</div>"


_COLUMNS = ("field", "value")
_MAX_SHOWN = 200


def _cell(value: object) -> str:
    text = str(value)
    return escape(visible(text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"))


class DevicePage(WireModel):
    """One page of the directory; ``total_count`` only when it was asked for."""

    object: Literal["list"] = "list"
    data: list[Device]
    has_more: bool
    limit: int
    order: Order
    after: str | None = None
    total_count: int | None = None


class DeviceContacts(WireModel):
    """When a device was heard lately, as far as the application was told of it; an extension.

    ``heard_at`` is when values came that the device sent because of a subscription of the application, the newest last:
    what the application's notification log still holds shortly before the device's last contact.
    """

    object: Literal["device-contacts"] = "device-contacts"
    device_id: str
    heard_at: list[Timestamp]


class EndpointResource(WireModel):
    """A resource of a device as ``GET /v2/endpoints/{id}`` lists it."""

    uri: str
    obs: bool
    rt: str = ""
    type: str = ""
