"""Device requests in the format of the first versions of the public API. Source: wire.md 9."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future
from uuid import uuid4

import orjson
from flask import Blueprint, Response, request

from mirror_sdk.wire.device_requests import (
    DEFAULT_CONTENT_TYPE,
    MAX_MEDIA_TYPE,
    MEDIA_TYPE_PATTERN,
    DeviceRequestAccepted,
)
from mirror_sdk.wire.legacy_calls import NOTIFICATION_RULES, NUMBER_PATTERN
from mirror_server.core.commands import Command, CommandRequest
from mirror_server.core.errors import ApiError, unknown_device
from mirror_server.extensions.compat.delayed_requests import DelayedRequests
from mirror_server.extensions.openapi_parameters import OF_ACCEPTED
from mirror_server.hooks import Handling
from mirror_server.service.commands import CommandSubmission
from mirror_server.service.keys import Scope
from mirror_server.store import devices, resources
from mirror_server.store.commands import CommandContext
from mirror_server.store.session import Session
from mirror_server.views.description import TEXT, BodySpec, Parameter, ResponseSpec, described, json_of, text_of, words
from mirror_server.views.device_requests import submit
from mirror_server.views.requests import (
    app_id,
    query_flag,
    query_text,
    read_path,
    read_raw_body,
    requires,
    services,
    without_head,
)
from mirror_server.views.responses import empty_response, when_stored

_MEDIA_TYPE = re.compile(MEDIA_TYPE_PATTERN.replace("$", r"\Z"))
_NUMBER = re.compile(NUMBER_PATTERN.replace("$", r"\Z"))
_BYTES = "application/octet-stream"

_QUERY = ("cacheOnly", "noResp", "sync")
_ACCEPTED = ResponseSpec(202, "Accepted, and on disk.", json_of(DeviceRequestAccepted, "202"), headers=OF_ACCEPTED)
_ONLY_NO = words("false", default="false")
_OLDER = (
    Parameter(
        "noResp",
        "With `true` the result of the request is not reported to anyone, and the response is 204; 409 for a device in"
        " queue mode.",
        words("true", "false", default="false"),
    ),
    Parameter("sync", "Wait for the device. Not supported: only `false` is accepted.", _ONLY_NO),
)
_FROM_CACHE = Parameter(
    "cacheOnly",
    "With `true` the response is the value stored in the mirror, and nothing is sent to the device.",
    words("true", "false", default="false"),
)
_NOT_FROM_CACHE = Parameter(
    "cacheOnly", "Use the stored value. Only reads support this, so only `false` is accepted.", _ONLY_NO
)
_RULES = tuple(
    Parameter(name, "A notification rule, instead of a value.", TEXT | {"pattern": NUMBER_PATTERN})
    for name in NOTIFICATION_RULES
)
_NO_NOTIFICATION = ResponseSpec(204, "Accepted with `noResp`, and on disk; the result is not reported.")
_VALUE = "The raw value, in the format of `Content-Type`."


def _raw(example: str) -> BodySpec:
    """Describe a body that is not validated. It can contain anything, even if it is JSON."""
    return BodySpec(media_type="*/*", schema={"description": _VALUE}, example=example)


routes = Blueprint("older_device_calls", __name__)


@routes.get("/v2/endpoints/<device_id>/<path:path>")
@requires(Scope.READ, query=_QUERY)
@without_head
@described(
    "Device requests",
    ResponseSpec(200, "With `cacheOnly`: the stored value.", text_of("*/*", "21.5", _VALUE)),
    _ACCEPTED,
    _NO_NOTIFICATION,
    ResponseSpec(205, "With `cacheOnly`: there is no stored value, or none that is fresh."),
    parameters=(_FROM_CACHE, *_OLDER),
    errors=(409,),
)
def read_resource(device_id: str, path: str) -> Response:
    """Read a resource from a device (an older call).

    Same as ``POST /v2/device-requests/{device_id}`` with ``GET`` and a generated async-id. With ``cacheOnly`` the
    response is the stored value itself, in its own format, while it is fresh by the max-age of the device. Without a
    max-age it is fresh until the next value arrives.
    """
    is_from_cache = query_flag("cacheOnly")
    _check_older()
    command_request = CommandRequest("GET", read_path(path))
    if not is_from_cache:
        return _submit(device_id, command_request)
    if query_flag("noResp"):
        raise ApiError.of_field("noResp", "cannot be combined with cacheOnly; remove one of the two")
    return _cached(device_id, command_request.path)


@routes.put("/v2/endpoints/<device_id>/<path:path>")
@requires(Scope.WRITE, query=(*_QUERY, *NOTIFICATION_RULES))
@described(
    "Device requests",
    _ACCEPTED,
    _NO_NOTIFICATION,
    body=_raw("1"),
    is_body_optional=True,
    parameters=(_NOT_FROM_CACHE, *_OLDER, *_RULES),
    errors=(409,),
)
def write_resource(device_id: str, path: str) -> Response:
    """Write a resource on a device (an older call).

    Same as ``POST /v2/device-requests/{device_id}`` with ``PUT`` and a generated async-id. The body is the raw value in
    the format of ``Content-Type``, by default ``text/plain``. A single number, text or boolean in JSON is written as
    plain text. Without a body the parameters set notification rules.
    """
    _check_older(is_cacheable=False)
    rules = _read_rules()
    payload = read_raw_body()
    if rules and payload:
        raise ApiError.of_field(
            "body", "cannot be combined with notification rules in the query; remove one of the two"
        )
    if rules:
        return _submit(device_id, CommandRequest("PUT", read_path(path), query=rules))
    if not payload:
        message = "empty; send the value to write. To write an empty value, use POST /v2/device-requests/{id}"
        raise ApiError.of_field("body", message)
    payload, content_type = _json_to_plain_text(payload, _read_content_type() or DEFAULT_CONTENT_TYPE)
    return _submit(device_id, CommandRequest("PUT", read_path(path), payload=payload, content_type=content_type))


@routes.post("/v2/endpoints/<device_id>/<path:path>")
@requires(Scope.WRITE, query=_QUERY)
@described(
    "Device requests",
    _ACCEPTED,
    _NO_NOTIFICATION,
    body=_raw("0='1'"),
    is_body_optional=True,
    parameters=(_NOT_FROM_CACHE, *_OLDER),
    errors=(409,),
)
def execute_resource(device_id: str, path: str) -> Response:
    """Execute a resource on a device (an older call).

    Same as ``POST /v2/device-requests/{device_id}`` with ``POST`` and a generated async-id. The body is the optional
    argument.
    """
    _check_older(is_cacheable=False)
    payload = read_raw_body() or None
    content_type = None if payload is None else _read_content_type()
    return _submit(device_id, CommandRequest("POST", read_path(path), payload=payload, content_type=content_type))


@routes.delete("/v2/endpoints/<device_id>/<path:path>")
@requires(Scope.WRITE, query=("noResp", "sync"))
@described("Device requests", parameters=_OLDER)
def delete_resource(device_id: str, path: str) -> Response:
    """Always fails: nothing on a device can be deleted."""
    # Source: specification 2.1.
    message = f"DELETE is not supported for /{path} of the device {device_id!r}: nothing on a device can be deleted"
    raise ApiError(400, f"{message}. Write or execute the resource, or delete it on the device itself")


def _submit(device_id: str, command_request: CommandRequest) -> Response:
    """Queue a request with the default options and a generated async-id. With ``noResp``, the id is not returned."""
    is_silent = query_flag("noResp")
    submission = CommandSubmission(app_id(), device_id, command_request, uuid4().hex, is_silent=is_silent)
    if is_silent:
        return submit(submission, Handling(_reject_queue_mode, _respond_empty))
    return submit(submission, services().part(DelayedRequests).delay(submission))


def _reject_queue_mode(_session: Session, context: CommandContext) -> None:
    if context.queue_mode:
        device = f"the device {context.device_id!r}"
        message = f"{device} is in queue mode, so only a notification can contain its result; remove noResp"
        raise ApiError(409, f"noResp: {message}", fields=[("noResp", message)])


def _respond_empty(stored: Future[Command], accepted: Callable[[Command], Response]) -> Response:
    def response(command: Command) -> Response:
        # Only called to add the async-id to the log line of this request.
        accepted(command)
        return empty_response()

    return when_stored(stored, response)


def _cached(device_id: str, path: str) -> Response:
    """Respond with the stored value if it is fresh, and with 205 otherwise.

    Raises:
        ApiError: The device (404) or its resource (400) is unknown.
    """
    server = services()
    with server.database.read() as session:
        if devices.find(session, device_id) is None:
            raise unknown_device(device_id)
        resource = resources.find(session, device_id, path)
        if resource is None:
            server.commands.check_instance(session, device_id, path)
    expires_at = None if resource is None else resource.reported_expires_at
    is_expired = expires_at is not None and expires_at <= server.clock.now()
    if resource is None or resource.reported_value is None or is_expired:
        return empty_response(205)
    content_type = resource.reported_content_type or DEFAULT_CONTENT_TYPE
    # A device can report any string as its content type, which must not get into a header unchecked.
    is_type = _MEDIA_TYPE.fullmatch(content_type)
    return Response(resource.reported_value, content_type=content_type if is_type else _BYTES)


def _check_older(*, is_cacheable: bool = True) -> None:
    """Reject options of older calls that are not supported.

    Raises:
        ApiError: The request has ``sync``, or it has ``cacheOnly`` and is not a read (400).
    """
    if query_flag("sync"):
        message = "sync=true is not supported; remove the parameter. The response arrives as a notification"
        raise ApiError.of_field("sync", message)
    if not is_cacheable and query_flag("cacheOnly"):
        raise ApiError.of_field("cacheOnly", "cacheOnly applies only to reads; remove the parameter")


def _read_rules() -> str:
    """Return the notification rules in the query in the format for the device, or an empty string if there are none."""
    rules = [(name, query_text(name)) for name in NOTIFICATION_RULES]
    for name, value in rules:
        if value is not None and not _NUMBER.fullmatch(value):
            raise ApiError.of_field(name, f"{value!r} is not a number; write a rule like {name}=5")
    return "&".join(f"{name}={value}" for name, value in rules if value is not None)


def _read_content_type() -> str | None:
    content_type = request.headers.get("Content-Type")
    if not content_type:
        return None
    if len(content_type) > MAX_MEDIA_TYPE or not _MEDIA_TYPE.fullmatch(content_type):
        message = f"{content_type[:MAX_MEDIA_TYPE]!r} is not a content type of at most {MAX_MEDIA_TYPE} characters"
        raise ApiError.of_field("Content-Type", f"{message}; write it like text/plain")
    return content_type


def _json_to_plain_text(payload: bytes, content_type: str) -> tuple[bytes, str]:
    """Convert a string, number or boolean in JSON to plain text, because devices do not support JSON for such values.

    Some programs send every value as JSON, and some programs declare every text as JSON. Therefore a body that is not
    valid JSON is treated as plain text. An object, a list or null is not converted.
    """
    if request.mimetype != "application/json":
        return payload, content_type
    try:
        value = orjson.loads(payload)
    except orjson.JSONDecodeError:
        return payload, DEFAULT_CONTENT_TYPE
    match value:
        case bool():
            return str(int(value)).encode(), DEFAULT_CONTENT_TYPE
        case str():
            return value.encode(), DEFAULT_CONTENT_TYPE
        case int() | float():
            # Keeps the digits that the program sent, because Python may format a float differently.
            return payload.strip(), DEFAULT_CONTENT_TYPE
        case _:
            return payload, content_type
