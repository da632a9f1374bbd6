"""The members of a device of the directory that people say."""

from __future__ import annotations

from typing import Any

from mirror_server.extensions.directory.store.descriptions import Description
from mirror_server.store.devices import DeviceRow
from mirror_server.views import serialize


def members(device: DeviceRow, told: Description) -> dict[str, Any]:
    """The members of a device that are other than without what was said of it."""
    found: dict[str, Any] = {"custom_attributes": told.attributes}
    if told.name is not None:
        found["name"] = told.name
    if told.description is not None:
        found["description"] = told.description
    if told.updated_at is not None and told.updated_at > device.updated_at:
        found["etag"] = serialize.timestamp(told.updated_at)
    return found
