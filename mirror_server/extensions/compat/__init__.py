"""Older calls of the public API, for programs that were written for its first versions."""

# Start reading with ``device_calls``.

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirror_sdk.wire.routes import NEWEST_CONNECT, is_unversioned, unversioned
from mirror_server.hooks import extends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flask import Blueprint, Response

    from mirror_server.server import Services

_UNVERSIONED = "mirror.unversioned"
"""Key of the WSGI environment of a request whose path had no version."""


@extends
def build(services: Services) -> Sequence[object]:
    """Return the service that delays requests until their programs know the async-id."""
    from mirror_server.extensions.compat.delayed_requests import DelayedRequests

    return [DelayedRequests(services)]


@extends
def blueprints() -> list[Blueprint]:
    """Return the routes of the older calls."""
    from mirror_server.extensions.compat import device_calls, views

    return [views.routes, device_calls.routes]


@extends
def extend_openapi(document: dict[str, Any]) -> None:
    """Add the paths without a version to the OpenAPI document."""
    document["info"]["description"] += "\n`x-unversioned` is another name of the same path, for older programs.\n"
    for path, operations in document["paths"].items():
        if (other_name := unversioned(path)) is not None:
            for operation in operations.values():
                operation["x-unversioned"] = other_name


@extends
def rewrite_path(environ: dict[str, Any], path: str) -> str | None:
    """Add the newest version to a path that has none."""
    if not is_unversioned(path):
        return None
    environ[_UNVERSIONED] = True
    return f"{NEWEST_CONNECT}{path}"


@extends(tryfirst=True)
def response_ready(
    environ: dict[str, Any],
    response: Response,
    route: tuple[str, str],
    seconds: float,  # noqa: ARG001 - the signature of the hook
) -> None:
    """Respond with 204 to rules at the path without a version.

    Programs that use this path accept no other success code.
    """
    if response.status_code == 202 and route == ("PUT", "/v2/subscriptions") and _UNVERSIONED in environ:
        response.status_code = 204
