"""The calls of the first versions of the public API. Source: wire.md 9."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import orjson
from flask import Blueprint, Response, g

from mirror_sdk.wire.legacy_calls import ALWAYS_ACTIVE, NO_QUOTA, REST_VERSIONS, Endpoint, Limits
from mirror_sdk.wire.log_entries import NUMBERS_LEFT_OUT
from mirror_server.extensions.downloads import Download
from mirror_server.service.keys import Scope
from mirror_server.store import devices, logs
from mirror_server.store.conditions import Condition
from mirror_server.store.devices import DeviceRow
from mirror_server.store.session import Session
from mirror_server.views.description import TEXT, BodySpec, Parameter, ResponseSpec, described, json_of
from mirror_server.views.requests import app_id, query_text, requires, services, without_head
from mirror_server.views.responses import json_response, when_read

_REGISTERED = Condition("registered", "IN", (1,))
_DEVICES_AT_A_TIME = 1000

_TYPE = Parameter("type", "Only devices that register with this type.", TEXT)

routes = Blueprint("older_calls", __name__)


@routes.get("/rest-versions")
@requires(*Scope)
@described(
    "Operation",
    ResponseSpec(
        200,
        "The versions, the newest last.",
        BodySpec(schema={"type": "array", "items": TEXT}, example=list(REST_VERSIONS)),
    ),
)
def list_rest_versions() -> Response:
    """List the version prefixes of paths."""
    return json_response(REST_VERSIONS)


@routes.get("/v2/limits")
@requires(Scope.READ, Scope.WRITE, Scope.SUBSCRIBE)
@described("Operation", ResponseSpec(200, "Quotas and counts.", json_of(Limits, "no quotas")))
def get_limits() -> Response:
    """Get the quotas of an application. No application reaches them, because this server has none."""
    database, application = services().database, app_id()

    def read() -> Response:
        with database.read() as session:
            counts = {
                "transaction-count": _count_entries(session, application),
                "endpoint-count": devices.count(session, [_REGISTERED]),
            }
        return json_response({"transaction-quota": NO_QUOTA, "endpoint-quota": NO_QUOTA, **counts})

    return when_read(read, lambda limits: limits, is_long=True)


@routes.get("/v2/endpoints")
@requires(Scope.READ, query=("type",))
@without_head
@described(
    "Directory",
    ResponseSpec(200, "The devices, by id.", json_of(Endpoint, "registered", "in queue mode", is_list=True)),
    parameters=(_TYPE,),
)
def list_endpoints() -> Response:
    """List the registered devices in one response.

    This is an older call. ``GET /v3/devices`` has pages and filters, and includes devices that are not registered.
    """
    endpoint_type = query_text("type")
    conditions = [_REGISTERED]
    if endpoint_type is not None:
        conditions.append(Condition("endpoint_type", "IN", (endpoint_type,)))
    server, is_admitted, application = services(), g.still_admits, app_id()
    api_error = server.download_slots.acquire(application)
    if api_error is not None:
        raise api_error
    with ExitStack() as stack:
        stack.callback(partial(server.download_slots.release, application))
        chunks = _endpoints(stack.enter_context(server.database.read()), conditions)
        release = stack.pop_all().close
    return Download(chunks, is_admitted=is_admitted, release=release, content_type="application/json", headers={})


def _endpoints(session: Session, conditions: Sequence[Condition]) -> Generator[bytes]:
    """Yield the list of devices in chunks, in its state at one time.

    A list without a closing bracket was aborted.
    """
    before, after = b"[", None
    while page := devices.page(session, conditions, after=after, descending=False, limit=_DEVICES_AT_A_TIME):
        listed = orjson.dumps([_endpoint(device) for device in page])
        yield before + listed[1:-1]
        before, after = b",", page[-1].device_id
    yield b"[]" if before == b"[" else b"]"


def _endpoint(device: DeviceRow) -> dict[str, Any]:
    return {
        "name": device.device_id,
        "type": device.endpoint_type,
        "status": ALWAYS_ACTIVE,
        "q": bool(device.queue_mode),
    }


def _count_entries(session: Session, app_id: str) -> int:
    """Return the number of entries in the log of an application. Their numbers have no gaps, except after a restore."""
    found = logs.state(session, app_id)
    first_seq = session.scalar("SELECT min(seq) FROM notifications WHERE app_id = :app_id", app_id=app_id)
    return 0 if found is None or first_seq is None else (found.last_seq - int(first_seq) + 1) % NUMBERS_LEFT_OUT
