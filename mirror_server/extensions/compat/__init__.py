"""Older calls of the public API, for programs that were written for its first versions.

List lights, and read a stored value::

    curl -H "Authorization: Bearer $API_KEY" "$API_HOST/v2/endpoints?type=Light"
    curl -H "Authorization: Bearer $API_KEY" "$API_HOST/v2/endpoints/$DEVICE_ID/3303/0/5700?cacheOnly=true"

Each call is another spelling of a call of the current interface, so that such programs run unmodified. Use the current
calls in new programs: the older ones have no pages or filters, and do not show when a request expires or which of two
values is newer.

Devices and limits
------------------

- ``GET /v2/endpoints`` (``?type=``) lists the registered devices in one response. ``name`` is the device id, ``q`` is
  true in queue mode, and ``status`` is always ``ACTIVE``. ``GET /v3/devices`` has pages and filters.
- ``GET /v2/limits`` returns a number that is never reached for both quotas, because there are none. Its counts are the
  entries in the notification log of the key, which covers a day, and the registered devices.
- ``GET /rest-versions`` lists the version prefixes of paths, the newest last.

Device requests
---------------

``GET``, ``PUT`` and ``POST`` of ``/v2/endpoints/{device-id}/3303/0/5700`` read, write and execute. They use the queues,
scopes, expiry and responses of ``POST /v2/device-requests``.

- The server generates the async-id. The device gets the request 50 ms after the 202 with that id, so that a program
  knows the id when the response arrives. ``POST /v2/device-requests`` accepts an ``async-id`` from the program, and has
  no such delay.
- The body is the raw value in the format of its ``Content-Type``, by default ``text/plain``. ``curl -d`` sends another
  type, which devices reject: add ``-H 'Content-Type: text/plain'``.
- A single number, text or boolean in JSON is written as plain text (``"on"`` as ``on``, ``true`` as ``1``). Some
  programs send every value as JSON, which devices do not support. A body that is declared as JSON but is not JSON is
  plain text too.
- ``PUT`` without a body and with ``?pmin=5&pmax=120`` sets notification rules.
- ``?cacheOnly=true`` returns the stored value and sends nothing to the device. The response is 205 if there is no
  value, or none that is fresh by the device's max-age.
- With ``?noResp=true`` the response is 204, and no one gets the result. The request is queued and delivered as usual,
  and its value is stored in the mirror. For a device in queue mode, it is rejected with 409.
- ``sync=true`` and ``pri`` are rejected by name with 400. ``DELETE`` is rejected too, because nothing on a device can
  be deleted.

Paths without a version
-----------------------

``/subscriptions...`` and ``/notification/...`` without a version mean the same as with ``/v2`` in front, with the same
keys, scopes and limits. One response differs, because these programs accept no other success: setting rules at
``/subscriptions`` returns 204, and 202 with the version in front.
"""

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
def help_topics() -> dict[str, str]:
    """Add the topics about older calls and third-party programs."""
    return {"older-calls": __name__, "programs": f"{__name__}.programs"}


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
    """Respond with 204 to rules at the path without a version: those programs accept no other success code."""
    if response.status_code == 202 and route == ("PUT", "/v2/subscriptions") and _UNVERSIONED in environ:
        response.status_code = 204
