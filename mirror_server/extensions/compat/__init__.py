"""The older calls of the public API: what programs written for its first versions may ask, and what they are told.

Each is another spelling of something above it, kept so that such programs run as they are. A program of today has
better ones: those calls do not page, filter, tell when a request expires, or say which of two values is newer.

- ``GET /v2/endpoints`` (``?type=``) lists the registered devices, all in one answer: ``name`` is the device id, ``q``
  says whether it is in queue mode, and ``status`` is always ``ACTIVE``. ``GET /v3/devices`` has pages and filters.
- ``GET``, ``PUT`` and ``POST`` of ``/v2/endpoints/{device-id}/3303/0/5700`` read, write and execute: requests like
  those of ``POST /v2/device-requests``, in the same queues, with the same scopes, expiry and answers, under an async-id
  that the server makes. The device gets the request 50 ms after the 202 that tells the id, so that a program knows it
  when the answer comes; ``POST /v2/device-requests`` takes an ``async-id`` of the program's own, and does not wait for
  that. The body is the raw value, in the format its ``Content-Type`` tells (``text/plain`` without; ``curl -d`` sends
  another one, which devices refuse, unless ``-H 'Content-Type: text/plain'`` is there). One number, text or boolean in
  JSON is written as plain text (``"on"`` as ``on``, ``true`` as ``1``): some programs send every value so, and devices
  do not know it. A body that is declared as JSON but is not JSON is plain text, too. ``PUT`` without a body and with
  ``?pmin=5&pmax=120`` sets notification rules.
- ``?cacheOnly=true`` answers such a read with what the mirror holds and asks the device for nothing; 205 where there
  is no value, or none that is fresh by what the device said. With ``?noResp=true`` nobody is told how the request ends:
  204, and 409 for a device in queue mode. It waits and is delivered as any other, and what it brings is in the mirror.
  ``sync=true`` and ``pri`` are refused by name with 400, and so is ``DELETE``, since nothing is deleted of a device.
- ``GET /v2/limits`` has a number that is never reached for both quotas, since there are none. Its counts are the
  entries in the notification log of the key, which goes back a day, and the devices that are registered.
- ``GET /rest-versions`` lists what may stand in front of a path, the newest last.
- ``/subscriptions...`` and ``/notification/...`` without a version mean the same with ``/v2`` in front, with the same
  keys, scopes and limits. One answer differs, because those programs take no other for a success: rules put to
  ``/subscriptions`` are accepted with 204, and with 202 where the version stands in front.

Source: wire.md 9.
"""

# To read it begin with ``device_calls``.

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
    """What those programs are told."""
    return {"older-calls": __name__, "programs": f"{__name__}.programs"}


@extends
def build(services: Services) -> Sequence[object]:
    """What holds back requests whose programs do not know their async-id yet."""
    from mirror_server.extensions.compat.held_requests import HeldRequests

    return [HeldRequests(services)]


@extends
def blueprints() -> list[Blueprint]:
    """The older calls."""
    from mirror_server.extensions.compat import device_calls, views

    return [views.routes, device_calls.routes]


@extends
def interface_described(document: dict[str, Any]) -> None:
    """Tell the other names of paths."""
    document["info"]["description"] += "\n`x-unversioned` means the same path, which older programs ask for.\n"
    for path, operations in document["paths"].items():
        if (other_name := unversioned(path)) is not None:
            for operation in operations.values():
                operation["x-unversioned"] = other_name


@extends
def rewrite_path(environ: dict[str, Any], path: str) -> str | None:
    """Put the newest version in front of a path that has none."""
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
    """Answer rules that were put without a version with the one code for a success that those programs take."""
    if response.status_code == 202 and route == ("PUT", "/v2/subscriptions") and _UNVERSIONED in environ:
        response.status_code = 204
