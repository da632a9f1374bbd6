"""What an operator asks of a running server."""

from __future__ import annotations

from flask import Blueprint, Response

from mirror_server.views.answers import json_answer
from mirror_server.views.requests import requires


def blueprint() -> Blueprint:
    """The routes that need no key."""
    routes = Blueprint("operation", __name__)

    @routes.get("/healthz")
    @requires()
    def get_health() -> Response:
        return json_answer({"status": "ok"})

    return routes
