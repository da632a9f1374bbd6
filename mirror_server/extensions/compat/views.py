"""The calls of the first versions of the public API. Source: wire.md 9."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

import orjson
from flask import Blueprint, Response, g

from mirror_sdk.wire.older_calls import REST_VERSIONS, Endpoint, Limits
from mirror_server.description.parts import TEXT, Answer, Content, Parameter, described, json_of
from mirror_server.service.keys import Scope
from mirror_server.service.long_reads import takes_long
from mirror_server.service.snapshots import Selection, Snapshot
from mirror_server.store.conditions import Condition
from mirror_server.views import serialize
from mirror_server.views.answers import json_answer, when_read
from mirror_server.views.download import Download
from mirror_server.views.requests import app_id, query_text, requires, services, without_head

_REGISTERED = Condition("registered", "IN", (1,))

_TYPE = Parameter("type", "Only devices that register with this type.", TEXT)

routes = Blueprint("older_calls", __name__)


@routes.get("/rest-versions")
@requires(*Scope)
@described(
    "Operation",
    Answer(
        200,
        "The versions, the newest last.",
        Content(schema={"type": "array", "items": TEXT}, example=list(REST_VERSIONS)),
    ),
)
def list_rest_versions() -> Response:
    """The versions that stand in front of paths."""
    return json_answer(REST_VERSIONS)


@routes.get("/v2/limits")
@requires(Scope.READ, Scope.WRITE, Scope.SUBSCRIBE)
@described("Operation", Answer(200, "Quotas and counts.", json_of(Limits, "no quotas")))
def get_limits() -> Response:
    """The quotas of an application, of which there are none."""
    parts = services()
    application = app_id()

    def read() -> Response:
        return json_answer(serialize.limits(parts.log.count(application), parts.devices.count([_REGISTERED])))

    return when_read(read, lambda limits: limits, is_long=True)


@routes.get("/v2/endpoints")
@requires(Scope.READ, query=(_TYPE,))
@without_head
@described(
    "Directory",
    Answer(200, "The devices, by id.", json_of(Endpoint, "registered", "in queue mode", is_list=True)),
)
def list_endpoints() -> Response:
    """The registered devices, in one list.

    An older call: ``GET /v3/devices`` has pages, filters, and devices that are not registered.
    """
    endpoint_type = query_text("type")
    conditions = [_REGISTERED]
    if endpoint_type is not None:
        conditions.append(Condition("endpoint_type", "IN", (endpoint_type,)))
    parts, is_admitted = services(), g.still_admits
    opening = partial(parts.snapshots.open, app_id(), Selection(conditions=tuple(conditions)))

    def answer(snapshot: Snapshot) -> Response:
        return Download(
            _endpoints(snapshot),
            is_admitted=is_admitted,
            release=snapshot.close,
            content_type="application/json",
            headers={},
        )

    is_long = takes_long(conditions, rows=parts.devices.recent_count(), counts=True)
    return when_read(opening, answer, is_long=is_long, discard=Snapshot.close)


def _endpoints(snapshot: Snapshot) -> Generator[bytes]:
    """A page of devices a chunk; without its last bracket the list has broken off."""
    before = b"["
    for page in snapshot.pages():
        listed = orjson.dumps([serialize.endpoint(device) for device in snapshot.devices(page)])
        yield before + listed[1:-1]
        before = b","
    yield b"[]" if before == b"[" else b"]"
