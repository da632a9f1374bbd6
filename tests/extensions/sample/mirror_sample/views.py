"""The route of the extension."""

from flask import Blueprint, Response

from mirror_sample.publisher import Publisher
from mirror_server.service.keys import Scope
from mirror_server.views.description import ResponseSpec, described, object_like
from mirror_server.views.requests import requires, services
from mirror_server.views.responses import json_response

routes = Blueprint("sample", __name__)


@routes.get("/v3/published-count")
@requires(Scope.READ)
@described("Sample", ResponseSpec(200, "The count.", object_like({"published": 3})), is_extension=True)
def get_published_count() -> Response:
    """Return the number of published values."""
    return json_response({"published": services().part(Publisher).count()})
