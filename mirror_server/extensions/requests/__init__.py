"""More about device requests: conditional writes, waiting for the response, the waiting ones, acknowledged failures.

- ``If-Match`` with a write: nothing is queued where the desired value is not the one that the writer saw.
- ``Prefer: wait=SECONDS`` (RFC 7240): the 202 is sent when the request has ended, and has the response in it.
- ``GET /v2/device-requests`` lists the requests of the application that have not ended.
- ``POST /v3/devices/{id}/echo/acknowledgements`` notes that someone saw that a write failed.

Without it ``Prefer`` changes nothing and ``If-Match`` is refused. Begin with ``waits``. Source: wire.md 1 and 2.
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
    """What reads the two headers of a device request."""
    from mirror_server.extensions.requests.conditional import ConditionalWrites
    from mirror_server.extensions.requests.waits import PendingResponses

    return [ConditionalWrites(), PendingResponses(services)]


@extends
def blueprints() -> list[Blueprint]:
    """Its routes."""
    from mirror_server.extensions.requests import views

    return [views.routes]


@extends
def described_besides() -> dict[str, tuple[Sequence[ResponseSpec], Sequence[Parameter]]]:
    """A device request takes the two headers."""
    from mirror_server.extensions.requests import conditional, waits

    return {"place_device_request": ([waits.ENDED, conditional.CHANGED], [conditional.IF_MATCH, waits.PREFER])}
