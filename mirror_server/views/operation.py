"""What an operator asks of a running server."""

from __future__ import annotations

from concurrent.futures import Future

from flask import Blueprint, Response

from mirror_sdk.wire.health import OK, SERVICE
from mirror_server import metrics as prometheus
from mirror_server.core.errors import Refusal
from mirror_server.keys import Scope
from mirror_server.metrics import Metrics
from mirror_server.store import settings
from mirror_server.store.database import Database
from mirror_server.views.answers import json_answer
from mirror_server.views.deferred import Deferred
from mirror_server.views.requests import requires

_READY_TIMEOUT_SECONDS = 5
_LOOK_AGAIN_SECONDS = 5


def blueprint(database: Database, metrics: Metrics) -> Blueprint:
    """The routes of an operator; whether it lives and is ready is told without a key."""
    routes = Blueprint("operation", __name__)
    probes: list[Future[None]] = []

    @routes.get("/healthz")
    @requires()
    def get_health() -> Response:
        return json_answer({"status": OK, "service": SERVICE})

    @routes.get("/readyz")
    @requires()
    def get_readiness() -> Response:
        # One write at a time tells all who ask: they need no key for it.
        if not probes or probes[0].done():
            probes[:] = [database.submit(settings.probe)]
        return Deferred(
            probes[0], _READY_TIMEOUT_SECONDS, render=lambda _: json_answer({"status": "ready"}), expired=_not_ready
        )

    @routes.get("/metrics")
    @requires(Scope.ADMIN)
    def get_metrics() -> Response:
        return Response(metrics.exposition(), content_type=prometheus.CONTENT_TYPE)

    return routes


def _not_ready() -> Response:
    message = f"nothing could be stored for {_READY_TIMEOUT_SECONDS} s; look at the server's disk and its log"
    raise Refusal(503, message, retry_after_seconds=_LOOK_AGAIN_SECONDS)
