"""The views for health and readiness of the server, and for the access key of a request. Source: wire.md 0."""

from __future__ import annotations

from flask import Blueprint, Response, g

from mirror_sdk.wire.health import OK, SERVICE
from mirror_server.core.errors import ApiError
from mirror_server.service.keys import Scope
from mirror_server.views import serialize
from mirror_server.views.deferred_responses import DeferredResponse
from mirror_server.views.requests import app_id, requires, services
from mirror_server.views.responses import json_response

_HEALTH = {"status": OK, "service": SERVICE}
_READY = {"status": "ready"}
_READY_TIMEOUT_SECONDS = 5
_RETRY_SECONDS = 5

routes = Blueprint("operation", __name__)


@routes.get("/healthz")
@requires()
def get_health() -> Response:
    """Check that the server responds, and list its extensions."""
    return json_response(_HEALTH | {"extensions": services().extensions.names})


@routes.get("/readyz")
@requires()
def get_readiness() -> Response:
    """Check that the server can store data."""
    probe = services().probe()
    return DeferredResponse(probe, _READY_TIMEOUT_SECONDS, render=lambda _: json_response(_READY), expired=_not_ready)


@routes.get("/v3/api-keys/me")
@requires(*Scope)
def get_own_access_key() -> Response:
    """Get the scopes of the access key of this request."""
    return json_response(serialize.access_key(app_id(), g.scopes))


def _not_ready() -> Response:
    message = f"nothing could be stored for {_READY_TIMEOUT_SECONDS} s; check the server's disk and its log"
    raise ApiError(503, message, retry_after_seconds=_RETRY_SECONDS)
