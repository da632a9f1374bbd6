"""E1 and the directory. Source: wire.md 1 and 6."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from flask import Blueprint, Response, g, request
from werkzeug.datastructures import ETags

from mirror_sdk.wire.device_requests import AcknowledgementBody
from mirror_sdk.wire.directory import NOT_KEPT, DeviceUpdate
from mirror_server.clock import Clock
from mirror_server.service.devices import Described, EncodedObject, TooManyResources
from mirror_server.service.keys import Scope
from mirror_server.store.descriptions import Description
from mirror_server.store.resources import AnnouncedResource
from mirror_server.views import serialize
from mirror_server.views.answers import EncodedAnswer, empty_answer, json_answer, when_read, when_stored
from mirror_server.views.filters import read_filters
from mirror_server.views.paging import PARAMETERS, page_answer, query_paging, when_page_read
from mirror_server.views.requests import app_id, leader_only, query_flag, read_body, requires, services
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

routes = Blueprint("devices", __name__)


@routes.get("/v3/devices/<device_id>/echo")
@requires(Scope.READ)
def get_device_object(device_id: str) -> Response:
    """E1: what the mirror holds of a device. Source: wire.md 1."""
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
def acknowledge_failed_write(device_id: str) -> Response:
    """Acknowledge a failed write, so that it does not count as failed any more."""
    body = read_body(AcknowledgementBody)
    stored = services().commands.acknowledge(
        app_id(), device_id, body.resource_path, by=body.by, revision=body.revision
    )
    return when_stored(stored, lambda _: empty_answer())


@routes.get("/v3/devices")
@requires(Scope.READ, query=None)
def list_devices() -> Response:
    """A page of the directory."""
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
def get_device(device_id: str) -> Response:
    """A device of the directory."""
    return json_answer(serialize.device(services().devices.described(device_id)))


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
@leader_only()
def get_device_connection(device_id: str) -> Response:
    """How a device is connected; where its messages come from is for operators."""
    found = services().connections.connection(device_id)
    return json_answer(serialize.device_connection(found, with_address=Scope.ADMIN in g.scopes))


@routes.get("/v3/devices/<device_id>/contacts")
@requires(Scope.READ)
def get_device_contacts(device_id: str) -> Response:
    """When a device was heard lately."""
    heard_at = services().devices.contacts(app_id(), device_id)
    return json_answer(serialize.device_contacts(device_id, heard_at))


@routes.get("/v2/endpoints/<device_id>")
@requires(Scope.READ, query=("cacheOnly", "noResp"))
def list_endpoint_resources(device_id: str) -> Response:
    """The resources that a device announced; the device is not asked, whatever older programs say of that."""
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
