"""The description of the interface. Source: wire.md 0-8."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import orjson
from flask import Blueprint, Flask, Response, current_app

from mirror_server.views.answers import make_conditional
from mirror_server.views.bench import PREFIX as BENCH_PREFIX
from mirror_server.views.requests import requires, services

Route = tuple[str, str, frozenset[str]]
"""Method and path, as the description writes them, and scopes."""

_METHODS_OF_EVERY_ROUTE = {"HEAD", "OPTIONS"}

routes = Blueprint("description", __name__)


@routes.get("/openapi.json")
@requires()
def get_description() -> Response:
    """The OpenAPI document of this server; without a key."""
    has_bench = services().bench is not None
    described = (route for route in each_route(current_app) if has_bench or not route[1].startswith(BENCH_PREFIX))
    answer = Response(_document(frozenset(described)), content_type="application/json")
    make_conditional(answer)
    return answer


@lru_cache(maxsize=2)
def _document(described: frozenset[Route]) -> bytes:
    # Made when it is first asked for: this takes longer than starting the server should.
    from mirror_server.description.document import describe  # noqa: PLC0415

    return orjson.dumps(describe({(method, path): scopes for method, path, scopes in described}))


def each_route(app: Flask) -> Iterator[Route]:
    """Everything the app answers to."""
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
        for method in (rule.methods or set()) - _METHODS_OF_EVERY_ROUTE:
            yield method.lower(), path, app.view_functions[rule.endpoint].__dict__["required_scopes"]
