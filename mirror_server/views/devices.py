"""The views of E1, the device object, and of the directory. Source: wire.md 1 and 6."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from flask import Blueprint, Response, g, request
from werkzeug.datastructures import ETags

from mirror_server.clock import Clock
from mirror_server.service.devices import EncodedObject, TooManyResources
from mirror_server.service.keys import Scope
from mirror_server.store.resources import AnnouncedResource
from mirror_server.views import serialize
from mirror_server.views.requests import (
    PAGING,
    app_id,
    query_conditions,
    query_flag,
    query_paging,
    requires,
    services,
)
from mirror_server.views.responses import (
    EncodedResponse,
    empty_response,
    json_response,
    when_page_read,
    when_read,
)

_RESOURCES_AT_ONCE = 300
"""The maximum number of resources that are read and encoded on the event loop. This takes 3 ms on one slow core."""


routes = Blueprint("devices", __name__)


@routes.get("/v3/devices/<device_id>/echo")
@requires(Scope.READ)
def get_device_object(device_id: str) -> Response:
    """Get the device object: the last reported and the last desired value of every resource.

    No request is sent to the device. ``content_type`` and ``requested_at`` of a desired value, ``revision``, ``ETag``
    and ``If-None-Match`` are extensions of the specification.
    """
    server = services()
    # Parsing the header takes time, and most requests do not contain it.
    if_none_match = request.if_none_match if "HTTP_IF_NONE_MATCH" in request.environ else None
    read = partial(server.devices.device_object, app_id(), device_id, serialize.device_content, g.version)
    render = partial(_device_object, server.clock, if_none_match)
    try:
        return render(read(most=_RESOURCES_AT_ONCE))
    except TooManyResources:
        return when_read(read, render, is_long=True)


def _device_object(clock: Clock, if_none_match: ETags | None, encoded: EncodedObject) -> Response:
    if if_none_match is not None and if_none_match.contains_weak(encoded.tag):
        response = empty_response(304)
    else:
        response = EncodedResponse(serialize.device_object(encoded.content, clock.now()))
    response.set_etag(encoded.tag, weak=True)
    return response


@routes.get("/v3/devices")
@requires(Scope.READ, query=None)
def list_devices() -> Response:
    """List the devices, page by page."""
    paging = query_paging()
    conditions = query_conditions(PAGING)
    devices = services().devices
    return when_page_read(paging, conditions, devices.scanned_count(conditions), devices.page, serialize.device)


@routes.get("/v3/devices/<device_id>")
@requires(Scope.READ)
def get_device(device_id: str) -> Response:
    """Get the directory entry of a device."""
    return json_response(serialize.device(services().devices.described(device_id)))


@routes.get("/v2/endpoints/<device_id>")
@requires(Scope.READ, query=("cacheOnly", "noResp"))
def list_resources(device_id: str) -> Response:
    """List the resources that a device currently has."""
    query_flag("cacheOnly")
    query_flag("noResp")
    find = partial(services().devices.announced, device_id)
    try:
        return _endpoint_resources(find(most=_RESOURCES_AT_ONCE))
    except TooManyResources:
        return when_read(lambda: _endpoint_resources(find()), lambda response: response, is_long=True)


def _endpoint_resources(announced: Sequence[AnnouncedResource]) -> Response:
    return json_response([serialize.endpoint_resource(resource) for resource in announced])
