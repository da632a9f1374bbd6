"""The models of device registration events. Source: wire.md 9; the public API's Device Directory."""

from __future__ import annotations

from typing import Any, Literal

from mirror_sdk.wire.model import EntryPage, Timestamp, WireModel

EVENT_TYPES = ("registration", "reg_update", "deregistration", "expired")
"""The types of events, which are the same in the history and in tables."""
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
        date_time: The time of the event.
        created_at: The same time as ``date_time``.
        etag: The same time as ``date_time``.
        event_type: The type of the event: ``registration``, ``reg_update``, ``deregistration`` or ``expired``. More
            types may be added.
        event_type_description: Always ``INFO``.
        description: A description of the event.
        state_change: Whether the event changed the device from unregistered to registered, or from registered to
            unregistered.
        changes: Always empty, as in the public API.
        data: The additional data, which contains the device's ``endpoint_name``.
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
    """One page of the device events. It contains ``total_count`` only if that was requested."""

    data: list[DeviceEvent]
    total_count: int | None = None
