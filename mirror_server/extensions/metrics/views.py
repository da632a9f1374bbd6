"""The route of the metrics."""

from __future__ import annotations

from flask import Blueprint, Response

from mirror_server.extensions.metrics.metrics import CONTENT_TYPE, Metrics
from mirror_server.service.keys import Scope
from mirror_server.views.description import ResponseSpec, described, text_of
from mirror_server.views.requests import requires, services
from mirror_server.views.responses import when_read

routes = Blueprint("metrics", __name__)


@routes.get("/metrics")
@requires(Scope.ADMIN)
@described(
    "Operation",
    ResponseSpec(
        200,
        "In Prometheus' text format.",
        text_of("text/plain", "# TYPE mirror_open_polls gauge\nmirror_open_polls 2.0\n"),
    ),
    is_extension=True,
)
def get_metrics() -> Response:
    """Get the metrics for Prometheus."""
    # Run in another thread, because it counts devices, requests and rows, of which there may be many.
    read = services().part(Metrics).exposition
    return when_read(read, lambda text: Response(text, content_type=CONTENT_TYPE), is_long=True)
