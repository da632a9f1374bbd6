"""The description of the interface. Source: wire.md 0-8."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain
from typing import Any

import orjson
from flask import Blueprint, Flask, Response, current_app

from mirror_server.description.parts import Answer, Operation, Route, described, object_like
from mirror_server.views.answers import make_conditional
from mirror_server.views.notifications import DELIVERY
from mirror_server.views.requests import requires, services

_METHODS_OF_EVERY_ROUTE = {"HEAD", "OPTIONS"}

routes = Blueprint("description", __name__)


@routes.get("/openapi.json")
@requires()
@described("Operation", Answer(200, "An OpenAPI document.", object_like({"openapi": "3.1.0"})), is_extension=True)
def get_description() -> Response:
    """This description."""
    hooks = services().extensions
    absent = tuple(chain(*hooks.hook.undescribed(settings=services().settings)))
    there = (route for route in each_route(current_app) if not route.path.startswith(absent))
    content = _document(tuple(there), hooks.collected("describe_operation"), hooks.collected("interface_described"))
    answer = Response(content, content_type="application/json")
    make_conditional(answer)
    return answer


@lru_cache(maxsize=2)
def _document(
    described: tuple[Route, ...],
    changes: tuple[Callable[[Operation], Operation], ...],
    complete: tuple[Callable[[dict[str, Any]], None], ...],
) -> bytes:
    # Made when it is first asked for: this takes longer than starting the server should.
    from mirror_server.description.document import describe  # noqa: PLC0415

    document = describe(described, DELIVERY, changes)
    for add in complete:
        add(document)
    return orjson.dumps(document)


def each_route(app: Flask) -> Iterator[Route]:
    """Everything the app answers to, but views that are not described, as another package may have them."""
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        if "operation" not in view.__dict__:
            continue
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
        for method in sorted((rule.methods or set()) - _METHODS_OF_EVERY_ROUTE):
            yield Route(method.lower(), path, view)
