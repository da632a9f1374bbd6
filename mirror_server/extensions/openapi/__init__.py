"""The OpenAPI 3.1 document of the interface at ``GET /openapi.json``, generated from the views and their models.

``core`` describes the views of the core. The views of an extension use the decorator
:func:`mirror_server.views.description.described`, next to the decorator for scopes and query parameters. Start reading
at ``document``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_server.hooks import extends

if TYPE_CHECKING:
    from flask import Blueprint


@extends
def blueprints() -> list[Blueprint]:
    """Return the route ``GET /openapi.json``."""
    from mirror_server.extensions.openapi.views import routes

    return [routes]
