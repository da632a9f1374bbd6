"""Names, descriptions, attributes, connections and contacts of devices. Source: wire.md 6."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import orjson
from flask import Blueprint, Response, g

from mirror_sdk.wire.directory import NOT_KEPT, Device, DeviceConnection, DeviceContacts, DeviceUpdate
from mirror_server.extensions.directory.echoed_fields import read_echoed, reject_if_match, require_unchanged
from mirror_server.extensions.directory.service import DirectoryDevice as Found
from mirror_server.extensions.directory.service import DirectoryService
from mirror_server.extensions.directory.store.descriptions import Description
from mirror_server.service.devices import DirectoryEntry
from mirror_server.service.keys import Scope
from mirror_server.views.description import ResponseSpec, described, json_of
from mirror_server.views.requests import app_id, leader_only, requires, services
from mirror_server.views.responses import json_response, when_stored
from mirror_server.views.serialize import device, timestamp

_DESCRIBES = {"name", "description", "custom_attributes"}
_WHOSE = {
    "id": "the id of a device stays what it is",
    "endpoint_name": "a device names itself when it registers",
    "endpoint_type": "a device says its type itself when it registers",
    "state": "a device registers and deregisters by itself",
    "queue_mode": "a device says so itself when it registers",
}
_DESCRIBED = ResponseSpec(200, "The device as it is now.", json_of(Device, "with what people say of it"))
_DESCRIPTION = json_of(DeviceUpdate, "what people say of it", "nothing any more", "a whole device sent back")

routes = Blueprint("device_directory", __name__)


@routes.put("/v3/devices/<device_id>")
@requires(Scope.WRITE)
@described("Directory", _DESCRIBED, body=_DESCRIPTION)
def put_device(device_id: str) -> Response:
    """Say something of a device: a name, a description, custom attributes.

    What is not given stays. An empty name or description takes away the one that was set; custom attributes replace all
    there are. What the device or the service tells may be sent back as it is, and is refused when it is another.
    :data:`NOT_KEPT` may be there without a value. All applications share what is said.
    """
    return _describe(device_id)


@routes.patch("/v3/devices/<device_id>")
@requires(Scope.WRITE)
@described("Directory", _DESCRIBED, body=_DESCRIPTION)
def patch_device(device_id: str) -> Response:
    """The same as PUT."""
    return _describe(device_id)


@routes.get("/v3/devices/<device_id>/connection")
@requires(Scope.READ)
@described(
    "Directory",
    ResponseSpec(
        200,
        "The connection.",
        json_of(DeviceConnection, "a device that sleeps, asked for with a key for operators", "simulated"),
    ),
    is_extension=True,
)
@leader_only()
def get_device_connection(device_id: str) -> Response:
    """How a device is connected.

    By which protocols, whether a request would reach it now, and when it was last heard. Where its messages come from
    is told to a key with the scope ``admin`` only.
    """
    found = services().part(DirectoryService).connection(device_id)
    return json_response(connection_content(found, with_address=Scope.ADMIN in g.scopes))


@routes.get("/v3/devices/<device_id>/contacts")
@requires(Scope.READ)
@described("Directory", ResponseSpec(200, "The instants.", json_of(DeviceContacts, "four contacts")), is_extension=True)
def get_device_contacts(device_id: str) -> Response:
    """When a device was heard lately, as far as this application was told of it.

    Shortly before its last contact, out of what the application's notification log still holds. Nothing counts as read
    by it.
    """
    heard_at = services().part(DirectoryService).contacts(app_id(), device_id)
    told = {"object": "device-contacts", "device_id": device_id, "heard_at": [timestamp(at) for at in heard_at]}
    return json_response(told)


def connection_content(found: Found, *, with_address: bool) -> dict[str, Any]:
    """How a device is connected, as far as that is known; its address where asked for."""
    told: dict[str, Any] = {"object": "device-connection", "device_id": found.device.device_id}
    if found.connection is not None:
        members = asdict(found.connection)
        if not with_address:
            del members["address"]
        told |= {name: value for name, value in members.items() if value is not None}
    told |= {"reachable": found.is_reachable, "lifetime_seconds": found.device.lifetime_seconds}
    if found.device.registered:
        told["registration_expires_at"] = timestamp(found.device.registration_expires_at)
    return told | {"last_contact_at": timestamp(found.device.last_contact_at)}


def _describe(device_id: str) -> Response:
    reject_if_match()
    present = orjson.loads(orjson.dumps(services().devices.described(device_id).members))
    of_others = {name: value for name, value in present.items() if name not in DeviceUpdate.model_fields}
    sent = read_echoed(DeviceUpdate, not_kept=NOT_KEPT, unchanged=of_others).model_dump(exclude_unset=True)
    stored = services().part(DirectoryService).describe(device_id, lambda found, told: _changed(found, told, sent))
    return when_stored(stored, lambda found: json_response(device(found)))


def _changed(found: DirectoryEntry, told: Description, sent: Mapping[str, Any]) -> Description:
    """What is said of a device from now on.

    Raises:
        ApiError: What was sent besides is not what the device has (400).
    """
    others = {name: value for name, value in sent.items() if name not in _DESCRIBES}
    require_unchanged(others, device(found), _WHOSE)
    if "name" in sent:
        # It is what the device is called without a name of its own, and what it goes on to be called by.
        own = sent["name"] not in {None, "", found.device.endpoint_name}
        told = replace(told, name=sent["name"] if own else None)
    if "description" in sent:
        told = replace(told, description=sent["description"] or None)
    if "custom_attributes" in sent:
        told = replace(told, attributes=sent["custom_attributes"] or {})
    return told
