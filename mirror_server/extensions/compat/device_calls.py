"""Requests to devices as programs written for the first versions of the public API place them. Source: wire.md 9."""

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
from mirror_server.extensions.compat.held_requests import HeldRequests
from mirror_server.extensions.descriptions import OF_ACCEPTED
from mirror_server.hooks import Handling
from mirror_server.service.commands import CommandSubmission
from mirror_server.service.keys import Scope
from mirror_server.store import devices, resources
from mirror_server.store.commands import CommandContext
from mirror_server.store.session import Session
from mirror_server.views.description import TEXT, BodySpec, Parameter, ResponseSpec, described, json_of, text_of, words
from mirror_server.views.device_requests import place
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
        "With `true` nobody is told how the request ends, and the answer is 204; 409 for a device in queue mode.",
        words("true", "false", default="false"),
    ),
    Parameter("sync", "Whether to wait for the device: only without.", _ONLY_NO),
)
_FROM_CACHE = Parameter(
    "cacheOnly",
    "Have what the mirror holds for the answer, and ask the device for nothing.",
    words("true", "false", default="false"),
)
_NOT_FROM_CACHE = Parameter(
    "cacheOnly", "Whether the answer is to come from the cache: only when it is read.", _ONLY_NO
)
_RULES = tuple(
    Parameter(name, "A notification rule, in the place of a value.", TEXT | {"pattern": NUMBER_PATTERN})
    for name in NOTIFICATION_RULES
)
_NO_NOTIFICATION = ResponseSpec(204, "Accepted with `noResp`, and on disk; nobody is told how it ends.")
_VALUE = "A value as it is, in the format that `Content-Type` tells."


def _raw(example: str) -> BodySpec:
    """A body that is not looked into: in JSON it may be anything."""
    return BodySpec(media_type="*/*", schema={"description": _VALUE}, example=example)


routes = Blueprint("older_device_calls", __name__)


@routes.get("/v2/endpoints/<device_id>/<path:path>")
@requires(Scope.READ, query=_QUERY)
@without_head
@described(
    "Device requests",
    ResponseSpec(200, "What the mirror holds, with `cacheOnly`.", text_of("*/*", "21.5", _VALUE)),
    _ACCEPTED,
    _NO_NOTIFICATION,
    ResponseSpec(205, "With `cacheOnly`: the mirror holds no value, or none that is fresh."),
    parameters=(_FROM_CACHE, *_OLDER),
    errors=(409,),
)
def read_resource(device_id: str, path: str) -> Response:
    """Have a device read a resource, as older programs ask for it.

    As ``POST /v2/device-requests/{device_id}`` with ``GET``, and an async-id that the server makes. With ``cacheOnly``
    the answer is the value itself, in the format it has, as long as it is fresh by what the device said; without a word
    of the device it is fresh until the next one comes.
    """
    is_from_cache = query_flag("cacheOnly")
    _check_older()
    asked = CommandRequest("GET", read_path(path))
    if not is_from_cache:
        return _place(device_id, asked)
    if query_flag("noResp"):
        raise ApiError.of_field("noResp", "the answer comes from the cache, and at once; leave one of them out")
    return _cached(device_id, asked.path)


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
    """Have a device write a resource, as older programs ask for it.

    As ``POST /v2/device-requests/{device_id}`` with ``PUT``, and an async-id that the server makes. The body is the
    value as it is, ``text/plain`` where no ``Content-Type`` tells another format; one number, text or boolean in JSON
    is written as plain text. Without a body the parameters set notification rules.
    """
    _check_older(is_cacheable=False)
    rules = _read_rules()
    payload = read_raw_body()
    if rules and payload:
        raise ApiError.of_field("body", "notification rules in the query go without a value; leave one of them out")
    if rules:
        return _place(device_id, CommandRequest("PUT", read_path(path), query=rules))
    if not payload:
        message = "empty; a write needs the value to write. POST /v2/device-requests/{id} writes an empty one"
        raise ApiError.of_field("body", message)
    payload, content_type = _as_device_takes_it(payload, _read_content_type() or DEFAULT_CONTENT_TYPE)
    return _place(device_id, CommandRequest("PUT", read_path(path), payload=payload, content_type=content_type))


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
    """Have a device execute a resource, as older programs ask for it.

    As ``POST /v2/device-requests/{device_id}`` with ``POST``, and an async-id that the server makes. The body is the
    argument, if there is one.
    """
    _check_older(is_cacheable=False)
    payload = read_raw_body() or None
    content_type = None if payload is None else _read_content_type()
    return _place(device_id, CommandRequest("POST", read_path(path), payload=payload, content_type=content_type))


@routes.delete("/v2/endpoints/<device_id>/<path:path>")
@requires(Scope.WRITE, query=("noResp", "sync"))
@described("Device requests", parameters=_OLDER)
def delete_resource(device_id: str, path: str) -> Response:
    """Refused: nothing is deleted of a device."""
    # Source: specification 2.1.
    message = f"DELETE is not to be had of /{path} of the device {device_id!r}: nothing is deleted of a device"
    raise ApiError(400, f"{message}. Write it, execute it, or have the device remove it")


def _place(device_id: str, asked: CommandRequest) -> Response:
    """Queue a request as it is by default: the server makes its async-id, which nobody needs who wants no answer."""
    is_silent = query_flag("noResp")
    submission = CommandSubmission(app_id(), device_id, asked, uuid4().hex, is_silent=is_silent)
    if is_silent:
        return place(submission, Handling(_reject_queue_mode, _respond_empty))
    return place(submission, services().part(HeldRequests).hold(submission))


def _reject_queue_mode(_session: Session, context: CommandContext) -> None:
    if context.queue_mode:
        device = f"the device {context.device_id!r}"
        message = f"{device} is in queue mode, and what it takes later has to be answered; leave it out"
        raise ApiError(409, f"noResp: {message}", fields=[("noResp", message)])


def _respond_empty(stored: Future[Command], accepted: Callable[[Command], Response]) -> Response:
    def response(command: Command) -> Response:
        # The line in the log has the async-id.
        accepted(command)
        return empty_response()

    return when_stored(stored, response)


def _cached(device_id: str, path: str) -> Response:
    """The value that the mirror holds, while it is fresh.

    Raises:
        ApiError: There is no such device (404) or no such resource of it (400).
    """
    parts = services()
    with parts.database.read() as session:
        if devices.find(session, device_id) is None:
            raise unknown_device(device_id)
        found = resources.find(session, device_id, path)
        if found is None:
            parts.commands.check_instance(session, device_id, path)
    expires_at = None if found is None else found.reported_expires_at
    if found is None or found.reported_value is None or (expires_at is not None and expires_at <= parts.clock.now()):
        return empty_response(205)
    content_type = found.reported_content_type or DEFAULT_CONTENT_TYPE
    # What a device named may be no content type, and no header may have it.
    is_type = _MEDIA_TYPE.fullmatch(content_type)
    return Response(found.reported_value, content_type=content_type if is_type else _BYTES)


def _check_older(*, is_cacheable: bool = True) -> None:
    """Refuse what an older call may ask for and cannot have.

    Raises:
        ApiError: It is to be answered at once, or from a cache that does not hold what is asked for (400).
    """
    if query_flag("sync"):
        raise ApiError.of_field("sync", "a device is not waited for; leave it out, the answer comes as a notification")
    if not is_cacheable and query_flag("cacheOnly"):
        raise ApiError.of_field("cacheOnly", "only what is read can come from a cache; leave it out")


def _read_rules() -> str:
    """The notification rules in the query, as the device gets them; empty where there are none."""
    given = [(name, query_text(name)) for name in NOTIFICATION_RULES]
    for name, value in given:
        if value is not None and not _NUMBER.fullmatch(value):
            raise ApiError.of_field(name, f"{value!r} is no number; write a rule like {name}=5")
    return "&".join(f"{name}={value}" for name, value in given if value is not None)


def _read_content_type() -> str | None:
    """The content type of the body, ``None`` where it has none."""
    given = request.headers.get("Content-Type")
    if not given:
        return None
    if len(given) > MAX_MEDIA_TYPE or not _MEDIA_TYPE.fullmatch(given):
        message = f"{given[:MAX_MEDIA_TYPE]!r} is no content type of {MAX_MEDIA_TYPE} characters at most"
        raise ApiError.of_field("Content-Type", f"{message}; write it like text/plain")
    return given


def _as_device_takes_it(payload: bytes, content_type: str) -> tuple[bytes, str]:
    """A value and its content type; a text, number or boolean in JSON is plain text, since no device has it so.

    Some programs send every value as JSON, and some declare JSON for every text. A body that is not JSON is plain
    text; an object, a list or null stays as it is.
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
            return payload.strip(), DEFAULT_CONTENT_TYPE
        case _:
            return payload, content_type
