"""What an operator asks of a running server."""

from __future__ import annotations

from flask import Blueprint, Response

from mirror_sdk.wire.health import OK, SERVICE
from mirror_server.core.errors import Refusal
from mirror_server.views.answers import json_answer
from mirror_server.views.deferred import Deferred
from mirror_server.views.requests import requires, services

_READY_TIMEOUT_SECONDS = 5
_LOOK_AGAIN_SECONDS = 5

routes = Blueprint("operation", __name__)


@routes.get("/healthz")
@requires()
def get_health() -> Response:
    """Whether the process lives, and which extensions it has; without a key."""
    return json_answer({"status": OK, "service": SERVICE, "extensions": services().extensions.names})


@routes.get("/readyz")
@requires()
def get_readiness() -> Response:
    """Whether changes can be stored; without a key."""
    probe = services().readiness.probe()
    return Deferred(
        probe, _READY_TIMEOUT_SECONDS, render=lambda _: json_answer({"status": "ready"}), expired=_not_ready
    )


def _not_ready() -> Response:
    message = f"nothing could be stored for {_READY_TIMEOUT_SECONDS} s; look at the server's disk and its log"
    raise Refusal(503, message, retry_after_seconds=_LOOK_AGAIN_SECONDS)
