"""The views that list pending device requests and acknowledge failed writes. Source: wire.md 1 and 2."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from mirror_sdk.wire.device_object import DesiredStatus
from mirror_sdk.wire.device_requests import NO_FAILED_WRITE, AcknowledgementBody, WaitingRequestPage
from mirror_sdk.wire.directory import DEFAULT_LIMIT, MAX_LIMIT, MIN_LIMIT
from mirror_server.core.commands import Command
from mirror_server.core.errors import ApiError
from mirror_server.extensions.requests import store
from mirror_server.extensions.requests.conditional_writes import desired_revision_of
from mirror_server.service.devices import require_device
from mirror_server.service.keys import Scope
from mirror_server.store import commands, keys, resources
from mirror_server.store.resources import ResourceRow
from mirror_server.store.session import Session
from mirror_server.views import serialize
from mirror_server.views.description import TEXT, Parameter, ResponseSpec, described, integer, json_of
from mirror_server.views.requests import (
    app_id,
    leader_only,
    query_paging,
    read_body,
    requires,
    services,
)
from mirror_server.views.responses import empty_response, page_response, when_stored

_PAGING = (
    Parameter("limit", "Maximum number of requests.", integer(MIN_LIMIT, MAX_LIMIT, DEFAULT_LIMIT)),
    Parameter("after", "The async-id of the last request of the previous page.", TEXT),
)
_WAITING_PAGE = ResponseSpec(
    200,
    "A page, without the values of writes.",
    json_of(WaitingRequestPage, "one that is queued, and one that was sent to the device"),
)

routes = Blueprint("more_device_requests", __name__)


@routes.get("/v2/device-requests")
@requires(Scope.READ, Scope.WRITE, query=("limit", "after"))
@described("Device requests", _WAITING_PAGE, parameters=_PAGING, is_extension=True)
@leader_only()
def list_waiting_requests() -> Response:
    """List the pending requests of this application, oldest first."""
    return _waiting(None)


@routes.get("/v2/device-requests/<device_id>")
@requires(Scope.READ, Scope.WRITE, query=("limit", "after"))
@described("Device requests", _WAITING_PAGE, parameters=_PAGING, is_extension=True)
@leader_only()
def list_waiting_requests_of_device(device_id: str) -> Response:
    """List the pending requests of this application to one device, oldest first."""
    return _waiting(device_id)


@routes.post("/v3/devices/<device_id>/echo/acknowledgements")
@requires(Scope.WRITE)
@described(
    "Mirror",
    ResponseSpec(204, "The failed write is acknowledged."),
    body=json_of(AcknowledgementBody, "with the name of the key", "for another person"),
    errors=(409,),
    is_extension=True,
)
def acknowledge_failed_write(device_id: str) -> Response:
    """Acknowledge a failed write, so that it no longer counts as failed.

    Until the next write, the desired value contains the time of the acknowledgement and who made it. Acknowledging a
    write again changes nothing. The ``reason`` of the 409 is ``NO_FAILED_WRITE``: the last write has not failed, or its
    revision is not ``revision``.
    """
    body = read_body(AcknowledgementBody)
    clock, application, path = services().clock, app_id(), body.resource_path

    def work(session: Session) -> None:
        if _failed(session, device_id, path, body.revision).acknowledged_at is None:
            key = keys.find(session, application)
            by = body.by or (key.name if key else application)
            store.acknowledge(session, device_id, path, by=by, at=clock.now())

    return when_stored(services().database.submit(work), lambda _: empty_response())


def _waiting(device_id: str | None) -> Response:
    paging = query_paging()
    with services().database.read() as session:
        if device_id is not None:
            require_device(session, device_id)
        last = commands.find(session, app_id(), paging.after) if paging.after is not None else None
        if paging.after is not None and last is None:
            raise ApiError.of_field(
                "after",
                f"{paging.after!r} is not the async-id of a request of this key; list again without after=",
            )
        number = last.command_id if last else 0
        # The extra command shows that there is another page.
        commands_found = store.waiting(session, app_id(), device_id=device_id, after=number, limit=paging.limit + 1)
    in_flight = services().dispatcher.in_flight()
    waiting = [_waiting_request(each, with_device=each.command_id in in_flight) for each in commands_found]
    return page_response(paging, waiting, None)


def _waiting_request(command: Command, *, with_device: bool) -> dict[str, Any]:
    """Return a pending device request as JSON, without the value that it writes."""
    request = command.request
    return {
        "object": "device-request",
        "async_response_id": command.async_id,
        "device_id": command.device_id,
        "method": request.method,
        "uri": request.path if request.query is None else f"{request.path}?{request.query}",
        "state": "with_device" if with_device else "waiting",
        "placed_at": serialize.timestamp(command.requested_at),
        "expires_at": serialize.timestamp(command.expires_at),
        "attempts": command.attempts,
    }


def _failed(session: Session, device_id: str, path: str, revision: int | None) -> ResourceRow:
    """Return the resource, if its last write has failed.

    Raises:
        ApiError: The device (404) or the resource (400) is unknown. The last write has not failed, or has another
            revision (409).
    """
    require_device(session, device_id)
    resource = resources.find(session, device_id, path)
    if resource is None:
        message = f"the device has no resource {path}; GET /v2/endpoints/{device_id} lists its resources"
        raise ApiError.of_field("resource_path", message, reason="RESOURCE_NOT_FOUND")
    if resource.desired_status != DesiredStatus.FAILURE:
        if resource.desired_status is None:
            message = f"{path} was never written, so there is no failed write to acknowledge"
        else:
            status = DesiredStatus(resource.desired_status).name.lower()
            message = f"the status of the last write of {path} is {status}, so there is no failure to acknowledge"
        raise ApiError(409, message, reason=NO_FAILED_WRITE, fields=[("resource_path", message)])
    if revision not in (None, resource.desired_revision):
        message = f"{desired_revision_of(resource)}, not {revision}; read the resource again before you acknowledge it"
        raise ApiError(409, message, reason=NO_FAILED_WRITE, fields=[("revision", message)])
    return resource
