"""Events of device registrations. Source: wire.md 9; the public API's Device Directory."""

from __future__ import annotations

from typing import Any, Literal

from mirror_sdk.wire.model import EntryPage, Timestamp, WireModel

EVENT_TYPES = ("registration", "reg_update", "deregistration", "expired")
"""The kinds of events, as in the history and the tables."""
EVENT_ID_PATTERN = "^0{16}[0-7][0-9a-f]{15}$"


class DeviceEventData(WireModel):
    """The additional data of a device event. Other services may send other members.

    Attributes:
        endpoint_name: The name with which the device registers.
    """

    endpoint_name: str | None = None


class DeviceEvent(WireModel):
    """An event of a device's registration.

    Attributes:
        id: The id of the event. A later event has a greater id.
        device_id: The id of the device.
        date_time: When it happened.
        created_at: The same as ``date_time``.
        etag: The same as ``date_time``.
        event_type: ``registration``, ``reg_update``, ``deregistration`` or ``expired``. More may be added.
        event_type_description: Always ``INFO``.
        description: The event in words.
        state_change: Whether the event changed the device from unregistered to registered, or back.
        changes: Always empty, as in the public API.
        data: The device's ``endpoint_name``.
    """

    object: Literal["device-event"] = "device-event"
    id: str
    device_id: str | None = None
    date_time: Timestamp
    created_at: Timestamp | None = None
    etag: str | None = None
    event_type: str | None = None
    event_type_description: str | None = None
    description: str | None = None
    state_change: bool | None = None
    changes: dict[str, Any] = {}
    data: DeviceEventData | None = None


class DeviceEventPage(EntryPage):
    """One page of the device events; ``total_count`` only if it was requested."""

    data: list[DeviceEvent]
    total_count: int | None = None
