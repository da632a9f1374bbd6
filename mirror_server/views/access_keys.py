"""What the access key of a request may be used for. Source: wire.md 0."""

from __future__ import annotations

from flask import Blueprint, Response, g

from mirror_server.service.keys import Scope
from mirror_server.views import serialize
from mirror_server.views.answers import json_answer
from mirror_server.views.requests import app_id, requires

routes = Blueprint("access_keys", __name__)


@routes.get("/v3/api-keys/me")
@requires(*Scope)
def get_own_access_key() -> Response:
    """The key this is asked with."""
    return json_answer(serialize.access_key(app_id(), g.scopes))
