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

from __future__ import annotations

from collections.abc import Generator
from functools import partial

import orjson
from flask import Blueprint, Response, g

from mirror_sdk.wire.older_calls import REST_VERSIONS, Endpoint, Limits
from mirror_server.description.parts import TEXT, Answer, Content, Parameter, described, json_of
from mirror_server.service.keys import Scope
from mirror_server.service.long_reads import takes_long
from mirror_server.service.snapshots import Selection, Snapshot
from mirror_server.store.conditions import Condition
from mirror_server.views import serialize
from mirror_server.views.answers import json_answer, when_read
from mirror_server.views.download import Download
from mirror_server.views.requests import app_id, query_text, requires, services, without_head

_REGISTERED = Condition("registered", "IN", (1,))

_TYPE = Parameter("type", "Only devices that register with this type.", TEXT)

routes = Blueprint("older_calls", __name__)


@routes.get("/rest-versions")
@requires(*Scope)
@described(
    "Operation",
    Answer(
        200,
        "The versions, the newest last.",
        Content(schema={"type": "array", "items": TEXT}, example=list(REST_VERSIONS)),
    ),
)
def list_rest_versions() -> Response:
    """The versions that stand in front of paths."""
    return json_answer(REST_VERSIONS)


@routes.get("/v2/limits")
@requires(Scope.READ, Scope.WRITE, Scope.SUBSCRIBE)
@described("Operation", Answer(200, "Quotas and counts.", json_of(Limits, "no quotas")))
def get_limits() -> Response:
    """The quotas of an application, of which there are none."""
    parts = services()
    application = app_id()

    def read() -> Response:
        return json_answer(serialize.limits(parts.log.count(application), parts.devices.count([_REGISTERED])))

    return when_read(read, lambda limits: limits, is_long=True)


@routes.get("/v2/endpoints")
@requires(Scope.READ, query=(_TYPE,))
@without_head
@described(
    "Directory",
    Answer(200, "The devices, by id.", json_of(Endpoint, "registered", "in queue mode", is_list=True)),
)
def list_endpoints() -> Response:
    """The registered devices, in one list.

    An older call: ``GET /v3/devices`` has pages, filters, and devices that are not registered.
    """
    endpoint_type = query_text("type")
    conditions = [_REGISTERED]
    if endpoint_type is not None:
        conditions.append(Condition("endpoint_type", "IN", (endpoint_type,)))
    parts, is_admitted = services(), g.still_admits
    opening = partial(parts.snapshots.open, app_id(), Selection(conditions=tuple(conditions)))

    def answer(snapshot: Snapshot) -> Response:
        return Download(
            _endpoints(snapshot),
            is_admitted=is_admitted,
            release=snapshot.close,
            content_type="application/json",
            headers={},
        )

    is_long = takes_long(conditions, rows=parts.devices.recent_count(), counts=True)
    return when_read(opening, answer, is_long=is_long, discard=Snapshot.close)


def _endpoints(snapshot: Snapshot) -> Generator[bytes]:
    """A page of devices a chunk; without its last bracket the list has broken off."""
    before = b"["
    for page in snapshot.pages():
        listed = orjson.dumps([serialize.endpoint(device) for device in snapshot.devices(page)])
        yield before + listed[1:-1]
        before = b","
    yield b"[]" if before == b"[" else b"]"
