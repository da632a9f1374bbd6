"""E1 and the directory. Source: wire.md 1 and 6."""

from __future__ import annotations

from flask import Blueprint, Response, g, request

from mirror_sdk.wire.directory import DEFAULT_LIMIT, MAX_LIMIT, MIN_LIMIT
from mirror_server import present
from mirror_server.clock import Clock
from mirror_server.keys import Scope
from mirror_server.service.devices import DeviceService
from mirror_server.views.answers import EncodedAnswer, empty_answer, json_answer
from mirror_server.views.filters import read_filters
from mirror_server.views.requests import app_id, query_choice, query_integer, query_text, requires

_PAGING = {"limit", "after", "order", "include"}


def blueprint(devices: DeviceService, clock: Clock) -> Blueprint:
    """The routes that read the mirror and the directory."""
    routes = Blueprint("devices", __name__)

    @routes.get("/v3/devices/<device_id>/echo")
    @requires(Scope.READ)
    def get_device_object(device_id: str) -> Response:
        encoded = devices.device_object(app_id(), device_id, present.device_content, g.version)
        # The headers are looked through only where there is something to find.
        if "HTTP_IF_NONE_MATCH" in request.environ and request.if_none_match.contains_weak(encoded.tag):
            answer = empty_answer(304)
        else:
            body = present.device_object(encoded.content, clock.now())
            answer = EncodedAnswer(body)
        answer.set_etag(encoded.tag, weak=True)
        return answer

    @routes.get("/v3/devices")
    @requires(Scope.READ, query=None)
    def list_devices() -> Response:
        limit = query_integer("limit", low=MIN_LIMIT, high=MAX_LIMIT) or DEFAULT_LIMIT
        order = query_choice("order", ("ASC", "DESC")) or "ASC"
        include = query_choice("include", ("total_count",))
        after = query_text("after")
        filters = [(name, value) for name, value in request.args.items(multi=True) if name not in _PAGING]
        rows, total = devices.page(
            read_filters(filters), after=after, descending=order == "DESC", limit=limit, count=include is not None
        )
        page = {
            "object": "list",
            "data": [present.device(row) for row in rows[:limit]],
            "has_more": len(rows) > limit,
            "limit": limit,
            "order": order,
            "after": after,
        }
        return json_answer(page if total is None else page | {"total_count": total})

    @routes.get("/v3/devices/<device_id>")
    @requires(Scope.READ)
    def get_device(device_id: str) -> Response:
        return json_answer(present.device(devices.device(device_id)))

    @routes.get("/v3/devices/<device_id>/contacts")
    @requires(Scope.READ)
    def get_device_contacts(device_id: str) -> Response:
        return json_answer(present.device_contacts(device_id, devices.contacts(app_id(), device_id)))

    @routes.get("/v2/endpoints/<device_id>")
    @requires(Scope.READ)
    def list_endpoint_resources(device_id: str) -> Response:
        return json_answer([present.endpoint_resource(resource) for resource in devices.announced(device_id)])

    return routes
