"""The description of the interface. Source: wire.md 0-8."""

from __future__ import annotations

import re
from collections.abc import Iterator

import orjson
from flask import Blueprint, Flask, Response, current_app, request

from mirror_server.views.bench import PREFIX as BENCH_PREFIX
from mirror_server.views.requests import requires

_METHODS_OF_EVERY_ROUTE = {"HEAD", "OPTIONS"}


def blueprint(*, has_bench: bool) -> Blueprint:
    """The route of the description; the bench is described where there is one."""
    routes = Blueprint("description", __name__)
    made: list[Response] = []

    @routes.get("/openapi.json")
    @requires()
    def get_description() -> Response:
        # Made when it is first asked for, which costs more than starting the server should.
        if not made:
            from mirror_server.description.document import describe  # noqa: PLC0415

            there = {
                (method, path): scopes
                for method, path, scopes in each_route(current_app)
                if has_bench or not path.startswith(BENCH_PREFIX)
            }
            document = describe(there)
            made.append(Response(orjson.dumps(document), content_type="application/json"))
            made[0].add_etag()
        # A copy: what is added to the headers of an answer would be in every later one.
        answer = Response(made[0].data, headers=made[0].headers.copy())
        answer.make_conditional(request)
        return answer

    return routes


def each_route(app: Flask) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Method, path and scopes of everything the app answers to, as the description writes them."""
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
        for method in (rule.methods or set()) - _METHODS_OF_EVERY_ROUTE:
            yield method.lower(), path, app.view_functions[rule.endpoint].__dict__["required_scopes"]
