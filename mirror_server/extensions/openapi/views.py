"""The route of the OpenAPI document. Source: wire.md 0-8."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import orjson
from flask import Blueprint, Flask, Response, current_app

from mirror_server.extensions.openapi import core_operations  # noqa: F401 - describes the views of the core
from mirror_server.views.description import Parameter, ResponseSpec, described, object_like
from mirror_server.views.requests import requires, services
from mirror_server.views.responses import make_conditional

_METHODS_OF_EVERY_ROUTE = {"HEAD", "OPTIONS"}

routes = Blueprint("description", __name__)


Additions: TypeAlias = Mapping[str, tuple[Sequence[ResponseSpec], Sequence[Parameter]]]
"""The responses and parameters that an extension adds, by the name of the view.

See :func:`mirror_server.hooks.openapi_additions`.
"""


class Route(NamedTuple):
    """A method of a path and its view, such as ``get`` of ``/v3/devices/{device_id}``."""

    method: str
    path: str
    view: Callable[..., Any]


@routes.get("/openapi.json")
@requires()
@described("Operation", ResponseSpec(200, "An OpenAPI document.", object_like({"openapi": "3.1.0"})), is_extension=True)
def get_description() -> Response:
    """Return this document."""
    hooks = services().extensions
    undescribed_prefixes = tuple(chain(*hooks.hook.openapi_exclusions(settings=services().settings)))
    described_routes = (route for route in each_route(current_app) if not route.path.startswith(undescribed_prefixes))
    content = _document(
        tuple(described_routes),
        hooks.implementations("device_filters"),
        hooks.implementations("openapi_additions"),
        hooks.implementations("extend_openapi"),
    )
    response = Response(content, content_type="application/json")
    make_conditional(response)
    return response


@lru_cache(maxsize=2)
def _document(
    described: tuple[Route, ...],
    device_filters: tuple[Callable[[], Sequence[Parameter]], ...],
    additions: tuple[Callable[[], Additions], ...],
    completions: tuple[Callable[[dict[str, Any]], None], ...],
) -> bytes:
    # The document is built at the first request, because building it would delay the start of the server.
    from mirror_server.extensions.openapi.document import describe  # noqa: PLC0415

    document = describe(
        described, [one for filters in device_filters for one in filters()], [added() for added in additions]
    )
    for complete in completions:
        complete(document)
    return orjson.dumps(document)


def each_route(app: Flask) -> Iterator[Route]:
    """Yield the routes of all described views. Extensions from other packages may have views without a description."""
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        if "described" not in view.__dict__:
            continue
        path = re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule)
        for method in sorted((rule.methods or set()) - _METHODS_OF_EVERY_ROUTE):
            yield Route(method.lower(), path, view)
