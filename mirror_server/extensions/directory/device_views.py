"""The views for names, descriptions, attributes, connections and contacts of devices. Source: wire.md 6."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import orjson
from flask import Blueprint, Response, g

from mirror_sdk.wire.directory import UNSUPPORTED_FIELDS, Device, DeviceConnection, DeviceContacts, DeviceUpdate
from mirror_server.extensions.directory.echoed_fields import read_echoed, reject_if_match, require_unchanged
from mirror_server.extensions.directory.service import DirectoryDevice, DirectoryService
from mirror_server.extensions.directory.store.descriptions import Description
from mirror_server.service.devices import DirectoryEntry
from mirror_server.service.keys import Scope
from mirror_server.views.description import ResponseSpec, described, json_of
from mirror_server.views.requests import app_id, leader_only, requires, services
from mirror_server.views.responses import json_response, when_stored
from mirror_server.views.serialize import device, timestamp

_DESCRIBES = {"name", "description", "custom_attributes"}
_READ_ONLY_BECAUSE = {
    "id": "the id of a device cannot change",
    "endpoint_name": "a device sets its endpoint name itself when it registers",
    "endpoint_type": "a device sets its type itself when it registers",
    "state": "a device registers and deregisters itself",
    "queue_mode": "a device sets its queue mode itself when it registers",
}
_DESCRIBED = ResponseSpec(200, "The device as it is now.", json_of(Device, "with its description and attributes"))
_DESCRIPTION = json_of(
    DeviceUpdate,
    "a description and attributes",
    "without description and attributes",
    "a complete device, as it was read",
)

routes = Blueprint("device_directory", __name__)


@routes.put("/v3/devices/<device_id>")
@requires(Scope.WRITE)
@described("Directory", _DESCRIBED, body=_DESCRIPTION)
def put_device(device_id: str) -> Response:
    """Set the name, description and custom attributes of a device.

    Absent members do not change. An empty name or description removes the one that was set. Custom attributes replace
    all existing ones. Read-only members can be sent with their current value, and are rejected with another one.
    :data:`UNSUPPORTED_FIELDS` can be sent without a value. All applications share these descriptions.
    """
    return _describe(device_id)


@routes.patch("/v3/devices/<device_id>")
@requires(Scope.WRITE)
@described("Directory", _DESCRIBED, body=_DESCRIPTION)
def patch_device(device_id: str) -> Response:
    """Set the name, description and custom attributes of a device, same as PUT."""
    return _describe(device_id)


@routes.get("/v3/devices/<device_id>/connection")
@requires(Scope.READ)
@described(
    "Directory",
    ResponseSpec(
        200,
        "The connection.",
        json_of(DeviceConnection, "a sleeping device, read with a key for operators", "simulated"),
    ),
    is_extension=True,
)
@leader_only()
def get_device_connection(device_id: str) -> Response:
    """Get the connection of a device.

    The response contains its protocols, whether it is reachable now, and its last contact. Only a key with the scope
    ``admin`` gets the address of the device.
    """
    directory_device = services().part(DirectoryService).connection(device_id)
    return json_response(connection_content(directory_device, with_address=Scope.ADMIN in g.scopes))


@routes.get("/v3/devices/<device_id>/contacts")
@requires(Scope.READ)
@described("Directory", ResponseSpec(200, "The instants.", json_of(DeviceContacts, "four contacts")), is_extension=True)
def get_device_contacts(device_id: str) -> Response:
    """Get the recent contacts of a device that this application was notified of.

    The times are shortly before the last contact of the device. They come from the notification log of the application.
    This request does not mark any entry as read.
    """
    contacts = services().part(DirectoryService).contacts(app_id(), device_id)
    content = {"object": "device-contacts", "device_id": device_id, "heard_at": [timestamp(at) for at in contacts]}
    return json_response(content)


def connection_content(directory_device: DirectoryDevice, *, with_address: bool) -> dict[str, Any]:
    """Return the connection of a device as JSON. Unknown members are left out."""
    device_row = directory_device.device
    content: dict[str, Any] = {"object": "device-connection", "device_id": device_row.device_id}
    if directory_device.connection is not None:
        members = asdict(directory_device.connection)
        if not with_address:
            del members["address"]
        content |= {name: value for name, value in members.items() if value is not None}
    content |= {"reachable": directory_device.is_reachable, "lifetime_seconds": device_row.lifetime_seconds}
    if device_row.registered:
        content["registration_expires_at"] = timestamp(device_row.registration_expires_at)
    return content | {"last_contact_at": timestamp(device_row.last_contact_at)}


def _describe(device_id: str) -> Response:
    reject_if_match()
    # Converted to JSON values, to compare them with the values that clients send back.
    present = orjson.loads(orjson.dumps(services().devices.described(device_id).members))
    of_others = {name: value for name, value in present.items() if name not in DeviceUpdate.model_fields}
    sent = read_echoed(DeviceUpdate, unsupported=UNSUPPORTED_FIELDS, unchanged=of_others).model_dump(exclude_unset=True)
    stored = services().part(DirectoryService).describe(device_id, lambda found, before: _changed(found, before, sent))
    return when_stored(stored, lambda found: json_response(device(found)))


def _changed(found: DirectoryEntry, description: Description, sent: Mapping[str, Any]) -> Description:
    """Return the changed description of a device.

    Raises:
        ApiError: A read-only member differs from the current value (400).
    """
    others = {name: value for name, value in sent.items() if name not in _DESCRIBES}
    require_unchanged(others, device(found), _READ_ONLY_BECAUSE)
    if "name" in sent:
        # The endpoint name is the default name, so setting it removes the custom name.
        own = sent["name"] not in {None, "", found.device.endpoint_name}
        description = replace(description, name=sent["name"] if own else None)
    if "description" in sent:
        description = replace(description, description=sent["description"] or None)
    if "custom_attributes" in sent:
        description = replace(description, attributes=sent["custom_attributes"] or {})
    return description
