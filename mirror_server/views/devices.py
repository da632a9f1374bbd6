"""E1 and the directory. Source: wire.md 1 and 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flask import Blueprint, Response, g, request
from werkzeug.datastructures import ETags

from mirror_sdk.wire.device_object import DeviceObject
from mirror_sdk.wire.device_requests import AcknowledgementBody
from mirror_sdk.wire.directory import (
    NOT_KEPT,
    Device,
    DeviceConnection,
    DeviceContacts,
    DevicePage,
    DeviceUpdate,
    EndpointResource,
)
from mirror_server.clock import Clock
from mirror_server.description.parts import (
    ETAG,
    FLAG,
    NOT_CHANGED,
    UNLESS_CHANGED,
    Answer,
    Parameter,
    described,
    json_of,
)
from mirror_server.service.devices import Described, EncodedObject, TooManyResources
from mirror_server.service.keys import Scope
from mirror_server.store.descriptions import Description
from mirror_server.store.resources import AnnouncedResource
from mirror_server.views import serialize
from mirror_server.views.answers import EncodedAnswer, empty_answer, json_answer, when_read, when_stored
from mirror_server.views.filters import DEVICE_FILTERS, read_filters
from mirror_server.views.paging import PARAMETERS, list_parameters, page_answer, query_paging, when_page_read
from mirror_server.views.requests import app_id, query_flag, read_body, requires, services
from mirror_server.views.sent_back import refuse_if_match, require_unchanged

_DESCRIBES = {"name", "description", "custom_attributes"}
_WHOSE = {
    "id": "the id of a device stays what it is",
    "endpoint_name": "a device names itself when it registers",
    "endpoint_type": "a device says its type itself when it registers",
    "state": "a device registers and deregisters by itself",
    "queue_mode": "a device says so itself when it registers",
}

_RESOURCES_AT_ONCE = 300
"""How many resources of a device are read and encoded on the event loop: this takes 3 ms on one slow core."""

_LIST = (*list_parameters("devices", "device"), *DEVICE_FILTERS)
_DESCRIBED = Answer(200, "The device as it is now.", json_of(Device, "with what people say of it"))
_DESCRIPTION = json_of(DeviceUpdate, "what people say of it", "nothing any more", "a whole device sent back")
_OF_RESOURCES = tuple(
    Parameter(name, "For older programs: it changes nothing, the device is never asked.", FLAG)
    for name in ("cacheOnly", "noResp")
)

routes = Blueprint("devices", __name__)


@routes.get("/v3/devices/<device_id>/echo")
@requires(Scope.READ)
@described(
    "Mirror",
    Answer(
        200,
        "The device object.",
        json_of(
            DeviceObject,
            "a read value and a write that succeeded",
            "a pending write has no time of a status update",
            "empty values at first registration",
        ),
        headers=(ETAG,),
    ),
    NOT_CHANGED,
    parameters=(UNLESS_CHANGED,),
)
def get_device_object(device_id: str) -> Response:
    """The device object: the last reported and the last desired value of every resource.

    It never asks the device. ``content_type`` and ``requested_at`` of a desired value, ``revision``, ``ETag`` and
    ``If-None-Match`` are extensions.
    """
    parts = services()
    # The headers are looked through only where there is something to find.
    known = request.if_none_match if "HTTP_IF_NONE_MATCH" in request.environ else None
    read = partial(parts.devices.device_object, app_id(), device_id, serialize.device_content, g.version)
    render = partial(_device_object, parts.clock, known)
    try:
        return render(read(most=_RESOURCES_AT_ONCE))
    except TooManyResources:
        return when_read(read, render, is_long=True)


def _device_object(clock: Clock, known: ETags | None, encoded: EncodedObject) -> Response:
    if known is not None and known.contains_weak(encoded.tag):
        answer = empty_answer(304)
    else:
        answer = EncodedAnswer(serialize.device_object(encoded.content, clock.now()))
    answer.set_etag(encoded.tag, weak=True)
    return answer


@routes.post("/v3/devices/<device_id>/echo/acknowledgements")
@requires(Scope.WRITE)
@described(
    "Mirror",
    Answer(204, "It is acknowledged."),
    body=json_of(AcknowledgementBody, "with the name of the key", "for somebody else"),
    errors=(409,),
    is_extension=True,
)
def acknowledge_failed_write(device_id: str) -> Response:
    """Acknowledge a failed write, so that it does not count as failed any more.

    The desired value shows when and by whom until the next write. A write that was acknowledged before stays as it is.
    The reason ``NO_FAILED_WRITE`` (409) says that the last write has not failed, or is another one than that of
    ``revision``.
    """
    body = read_body(AcknowledgementBody)
    stored = services().commands.acknowledge(
        app_id(), device_id, body.resource_path, by=body.by, revision=body.revision
    )
    return when_stored(stored, lambda _: empty_answer())


@routes.get("/v3/devices")
@requires(Scope.READ, query=None)
@described("Directory", Answer(200, "A page.", json_of(DevicePage, "a later page")), parameters=_LIST)
def list_devices() -> Response:
    """The devices, page by page.

    A filter is a parameter of its own (``state__eq=registered`` or ``state=registered``) or stands in ``filter``;
    each may be there several times, and all have to hold. Any other parameter is taken for a filter, and refused when
    there is none of that name. ``custom_attributes__NAME`` filters by a custom attribute; a device without it has an
    empty one. Fields that the public API has of its other services (:data:`NOT_KEPT`) are taken, and empty of every
    device.
    """
    paging = query_paging()
    conditions = read_filters(paging.filters, own=PARAMETERS)
    parts = services()

    def read() -> Response:
        rows, total = parts.devices.page(
            conditions, after=paging.after, descending=paging.descending, limit=paging.limit, count=paging.count
        )
        return page_answer(paging, [serialize.device(row) for row in rows], total)

    rows = parts.devices.recent_count()
    return when_page_read(paging, conditions, rows, read)


@routes.get("/v3/devices/<device_id>")
@requires(Scope.READ)
@described("Directory", Answer(200, "The device.", json_of(Device, "registered")))
def get_device(device_id: str) -> Response:
    """A device as the directory lists it."""
    return json_answer(serialize.device(services().devices.described(device_id)))


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
    Answer(
        200,
        "The connection.",
        json_of(DeviceConnection, "a device that sleeps, asked for with a key for operators", "simulated"),
    ),
    is_extension=True,
)
def get_device_connection(device_id: str) -> Response:
    """How a device is connected.

    By which protocols, whether a request would reach it now, and when it was last heard. Where its messages come from
    is told to a key with the scope ``admin`` only.
    """
    found = services().connections.connection(device_id)
    return json_answer(serialize.device_connection(found, with_address=Scope.ADMIN in g.scopes))


@routes.get("/v3/devices/<device_id>/contacts")
@requires(Scope.READ)
@described("Directory", Answer(200, "The instants.", json_of(DeviceContacts, "four contacts")), is_extension=True)
def get_device_contacts(device_id: str) -> Response:
    """When a device was heard lately, as far as this application was told of it.

    Shortly before its last contact, out of what the application's notification log still holds. Nothing counts as read
    by it.
    """
    heard_at = services().devices.contacts(app_id(), device_id)
    return json_answer(serialize.device_contacts(device_id, heard_at))


@routes.get("/v2/endpoints/<device_id>")
@requires(Scope.READ, query=_OF_RESOURCES)
@described("Directory", Answer(200, "The resources.", json_of(EndpointResource, "observable", is_list=True)))
def list_resources(device_id: str) -> Response:
    """The resources a device has now."""
    query_flag("cacheOnly")
    query_flag("noResp")
    find = partial(services().devices.announced, device_id)
    try:
        return _endpoint_resources(find(most=_RESOURCES_AT_ONCE))
    except TooManyResources:
        return when_read(lambda: _endpoint_resources(find()), lambda answer: answer, is_long=True)


def _endpoint_resources(announced: Sequence[AnnouncedResource]) -> Response:
    return json_answer([serialize.endpoint_resource(resource) for resource in announced])


def _describe(device_id: str) -> Response:
    refuse_if_match()
    sent = read_body(DeviceUpdate, not_kept=NOT_KEPT).model_dump(exclude_unset=True)
    stored = services().devices.describe(device_id, lambda found: _changed(found, sent))
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
