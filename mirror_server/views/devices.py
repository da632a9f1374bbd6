"""E1 and the directory. Source: wire.md 1 and 6."""

from __future__ import annotations

from flask import Blueprint, Response, g, request

from mirror_sdk.wire.directory import DEFAULT_LIMIT, MAX_LIMIT, MIN_LIMIT
from mirror_server.service.keys import Scope
from mirror_server.views import serialize
from mirror_server.views.answers import EncodedAnswer, empty_answer, json_answer
from mirror_server.views.filters import read_filters
from mirror_server.views.requests import app_id, query_choice, query_flag, query_integer, query_text, requires, services

_PAGING = {"limit", "after", "order", "include"}

routes = Blueprint("devices", __name__)


@routes.get("/v3/devices/<device_id>/echo")
@requires(Scope.READ)
def get_device_object(device_id: str) -> Response:
    """E1: what the mirror holds of a device. Source: wire.md 1."""
    parts = services()
    encoded = parts.devices.device_object(app_id(), device_id, serialize.device_content, g.version)
    # The headers are looked through only where there is something to find.
    if "HTTP_IF_NONE_MATCH" in request.environ and request.if_none_match.contains_weak(encoded.tag):
        answer = empty_answer(304)
    else:
        answer = EncodedAnswer(serialize.device_object(encoded.content, parts.clock.now()))
    answer.set_etag(encoded.tag, weak=True)
    return answer


@routes.get("/v3/devices")
@requires(Scope.READ, query=None)
def list_devices() -> Response:
    """A page of the directory."""
    limit = query_integer("limit", low=MIN_LIMIT, high=MAX_LIMIT) or DEFAULT_LIMIT
    order = query_choice("order", ("ASC", "DESC")) or "ASC"
    include = query_choice("include", ("total_count",))
    after = query_text("after")
    filters = [(name, value) for name, value in request.args.items(multi=True) if name not in _PAGING]
    rows, total = services().devices.page(
        read_filters(filters), after=after, descending=order == "DESC", limit=limit, count=include is not None
    )
    page = {
        "object": "list",
        "data": [serialize.device(row) for row in rows[:limit]],
        "has_more": len(rows) > limit,
        "limit": limit,
        "order": order,
        "after": after,
    }
    return json_answer(page if total is None else page | {"total_count": total})


@routes.get("/v3/devices/<device_id>")
@requires(Scope.READ)
def get_device(device_id: str) -> Response:
    """A device of the directory."""
    return json_answer(serialize.device(services().devices.device(device_id)))


@routes.get("/v3/devices/<device_id>/connection")
@requires(Scope.READ)
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
    announced = services().devices.announced(device_id)
    return json_answer([serialize.endpoint_resource(resource) for resource in announced])
