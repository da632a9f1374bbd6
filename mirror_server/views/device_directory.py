"""Names, descriptions, attributes, connections and contacts of devices. Source: wire.md 6."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from flask import Blueprint, Response, g

from mirror_sdk.wire.directory import NOT_KEPT, DeviceUpdate
from mirror_server.service.connections import DeviceConnection
from mirror_server.service.devices import Described
from mirror_server.service.keys import Scope
from mirror_server.store.descriptions import Description
from mirror_server.views import serialize
from mirror_server.views.answers import json_answer, when_stored
from mirror_server.views.requests import app_id, read_body, requires, services
from mirror_server.views.sent_back import refuse_if_match, require_unchanged
from mirror_server.views.serialize import timestamp

_DESCRIBES = {"name", "description", "custom_attributes"}
_WHOSE = {
    "id": "the id of a device stays what it is",
    "endpoint_name": "a device names itself when it registers",
    "endpoint_type": "a device says its type itself when it registers",
    "state": "a device registers and deregisters by itself",
    "queue_mode": "a device says so itself when it registers",
}

routes = Blueprint("device_directory", __name__)


@routes.put("/v3/devices/<device_id>")
@requires(Scope.WRITE)
def put_device(device_id: str) -> Response:
    """Change what is said of a device; what is not given stays."""
    return _describe(device_id)


@routes.patch("/v3/devices/<device_id>")
@requires(Scope.WRITE)
def patch_device(device_id: str) -> Response:
    """The same as PUT, which leaves out nothing either."""
    return _describe(device_id)


@routes.get("/v3/devices/<device_id>/connection")
@requires(Scope.READ)
def get_device_connection(device_id: str) -> Response:
    """How a device is connected; where its messages come from is for operators."""
    found = services().connections.connection(device_id)
    return json_answer(connection_content(found, with_address=Scope.ADMIN in g.scopes))


@routes.get("/v3/devices/<device_id>/contacts")
@requires(Scope.READ)
def get_device_contacts(device_id: str) -> Response:
    """When a device was heard lately."""
    heard_at = services().directory.contacts(app_id(), device_id)
    told = {"object": "device-contacts", "device_id": device_id, "heard_at": [timestamp(at) for at in heard_at]}
    return json_answer(told)


def connection_content(found: DeviceConnection, *, with_address: bool) -> dict[str, Any]:
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
    refuse_if_match()
    sent = read_body(DeviceUpdate, not_kept=NOT_KEPT).model_dump(exclude_unset=True)
    stored = services().directory.describe(device_id, lambda found: _changed(found, sent))
    return when_stored(stored, lambda found: json_answer(serialize.device(found)))


def _changed(found: Described, sent: Mapping[str, Any]) -> Description:
    """What is said of a device from now on.

    Raises:
        Refusal: What was sent besides is not what the device has (400).
    """
    others = {name: value for name, value in sent.items() if name not in _DESCRIBES}
    require_unchanged(others, serialize.device(found), _WHOSE)
    told = found.description
    if "name" in sent:
        # It is what the device is called without a name of its own, and what it goes on to be called by.
        own = sent["name"] not in {None, "", found.device.endpoint_name}
        told = replace(told, name=sent["name"] if own else None)
    if "description" in sent:
        told = replace(told, description=sent["description"] or None)
    if "custom_attributes" in sent:
        told = replace(told, attributes=sent["custom_attributes"] or {})
    return told
