"""The description of the interface in OpenAPI 3.1, at ``GET /openapi.json``: made from the views and their models.

``core`` describes the views of the core; those of an extension have the decorator
:func:`mirror_server.views.description.described` beside that for their scopes and the parameters of their query.
Begin with ``document``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_server.hooks import extends

if TYPE_CHECKING:
    from flask import Blueprint


@extends
def blueprints() -> list[Blueprint]:
    """``GET /openapi.json``."""
    from mirror_server.extensions.openapi.views import routes

    return [routes]
