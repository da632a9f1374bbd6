"""What the access key of a request may be used for. Source: wire.md 0."""

from __future__ import annotations

from flask import Blueprint, Response, g

from mirror_sdk.wire.access_key import AccessKey
from mirror_server.service.keys import Scope
from mirror_server.views import serialize
from mirror_server.views.answers import json_answer
from mirror_server.views.description import Answer, described, json_of
from mirror_server.views.requests import app_id, requires

routes = Blueprint("access_keys", __name__)


@routes.get("/v3/api-keys/me")
@requires(*Scope)
@described("Operation", Answer(200, "The key, without its secret.", json_of(AccessKey, "one of an application")))
def get_own_access_key() -> Response:
    """What the access key of this request may be used for."""
    return json_answer(serialize.access_key(app_id(), g.scopes))
