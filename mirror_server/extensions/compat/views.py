"""The calls of the first versions of the public API. Source: wire.md 9."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial

import orjson
from flask import Blueprint, Response, g

from mirror_sdk.wire.older_calls import REST_VERSIONS
from mirror_server.service.keys import Scope
from mirror_server.service.long_reads import takes_long
from mirror_server.service.snapshots import Selection, Snapshot
from mirror_server.store.conditions import Condition
from mirror_server.views import serialize
from mirror_server.views.answers import json_answer, when_read
from mirror_server.views.download import Download
from mirror_server.views.requests import app_id, query_text, requires, services, without_head

_REGISTERED = Condition("registered", "IN", (1,))

routes = Blueprint("older_calls", __name__)


@routes.get("/rest-versions")
@requires(*Scope)
def list_rest_versions() -> Response:
    """The versions that stand in front of paths, the newest last."""
    return json_answer(REST_VERSIONS)


@routes.get("/v2/limits")
@requires(Scope.READ, Scope.WRITE, Scope.SUBSCRIBE)
def get_limits() -> Response:
    """Quotas, of which there are none, and what would count against them."""
    parts = services()
    application = app_id()

    def read() -> Response:
        return json_answer(serialize.limits(parts.log.count(application), parts.devices.count([_REGISTERED])))

    return when_read(read, lambda limits: limits, is_long=True)


@routes.get("/v2/endpoints")
@requires(Scope.READ, query=("type",))
@without_head
def list_endpoints() -> Response:
    """The registered devices, in one list."""
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
