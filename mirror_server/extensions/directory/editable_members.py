"""The members of a device that users can set."""

from __future__ import annotations

from typing import Any

from mirror_server.extensions.directory.store.descriptions import Description
from mirror_server.store.devices import DeviceRow
from mirror_server.views import serialize


def members(device: DeviceRow, description: Description) -> dict[str, Any]:
    """Return the members of a device that its description sets or changes."""
    changed: dict[str, Any] = {"custom_attributes": description.attributes}
    if description.name is not None:
        changed["name"] = description.name
    if description.description is not None:
        changed["description"] = description.description
    if description.updated_at is not None and description.updated_at > device.updated_at:
        changed["etag"] = serialize.timestamp(description.updated_at)
    return changed
