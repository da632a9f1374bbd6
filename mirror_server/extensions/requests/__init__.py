"""Conditional writes, waiting for responses, the list of pending requests, and acknowledged failures.

- ``If-Match`` with a write queues nothing if the desired value has changed since the writer read it.
- ``Prefer: wait=SECONDS`` (RFC 7240) delays the 202 response until the request has ended, and includes the result.
- ``GET /v2/device-requests`` lists the pending requests of the application.
- ``POST /v3/devices/{id}/echo/acknowledgements`` records that someone has seen a failed write.

Without this extension, ``Prefer`` has no effect and ``If-Match`` is rejected. Read ``prefer_wait`` first.
Source: wire.md 1 and 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_server.hooks import extends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flask import Blueprint

    from mirror_server.server import Services
    from mirror_server.views.description import Parameter, ResponseSpec


@extends
def build(services: Services) -> Sequence[object]:
    """Build the services that evaluate the two headers of a device request."""
    from mirror_server.extensions.requests.conditional_writes import ConditionalWrites
    from mirror_server.extensions.requests.prefer_wait import PendingResponses

    return [ConditionalWrites(), PendingResponses(services)]


@extends
def blueprints() -> list[Blueprint]:
    """Return the routes of this extension."""
    from mirror_server.extensions.requests import views

    return [views.routes]


@extends
def openapi_additions() -> dict[str, tuple[Sequence[ResponseSpec], Sequence[Parameter]]]:
    """Add the two headers to the description of a device request."""
    from mirror_server.extensions.requests import conditional_writes, prefer_wait

    return {
        "submit_device_request": (
            [prefer_wait.ENDED, conditional_writes.CHANGED],
            [conditional_writes.IF_MATCH, prefer_wait.PREFER],
        )
    }
