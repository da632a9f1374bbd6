"""What an error is to a client. Every error of the service is shaped here, and only here. Source: wire.md 0."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from flask import Response
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.wsgi import get_path_info

from mirror_sdk.wire.errors import ERROR_TYPES, PATH_NOT_FOUND
from mirror_server.core.errors import Refusal
from mirror_server.store.backend import StorageFailed, TooMuchWaiting
from mirror_server.views.answers import json_answer
from mirror_server.views.requests import request_id

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_STORE_AGAIN_SECONDS = 5

_WHY_NOT = (
    ("POST", re.compile("/v3/devices"), ", since devices come by registering"),
    ("DELETE", re.compile("/v3/devices/[^/]+"), ", since the mirror keeps what it knows until an operator erases it"),
)
"""Methods that programs of the public API use, and why a mirror has them not."""

_log = logging.getLogger(__name__)


def answer_to(error: Exception, environ: WSGIEnvironment, *, max_body_bytes: int) -> Response:
    """The answer to a request that ended in an error, at once or while somebody waited for its answer.

    Args:
        error: Whatever it is; one that no request should cause goes into the log.
        environ: The request.
        max_body_bytes: How large a body may be.
    """
    refusal = _refusal_of(error, environ, max_body_bytes)
    body: dict[str, Any] = {
        "object": "error",
        "code": refusal.code,
        "type": "validation_error" if refusal.fields and refusal.code == 400 else ERROR_TYPES[refusal.code],
        "message": refusal.message,
        "fields": [{"name": name, "message": message} for name, message in refusal.fields],
        "request_id": request_id(environ),
    }
    if refusal.reason is not None:
        body["reason"] = refusal.reason
    body |= refusal.more
    response = json_answer(body, refusal.code)
    response.headers.update(refusal.headers)
    if refusal.code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if refusal.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(refusal.retry_after_seconds)
    return response


def _refusal_of(error: Exception, environ: WSGIEnvironment, max_body_bytes: int) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, StorageFailed):
        cure = "nothing was changed, so try again later; the operator finds the cause in the log"
        return Refusal(
            503, f"the server {error}; {cure}", reason="STORAGE_FAILED", retry_after_seconds=_STORE_AGAIN_SECONDS
        )
    if isinstance(error, TooMuchWaiting):
        message = f"{error}; nothing was changed, so try again in a moment"
        return Refusal(429, message, reason="TOO_MUCH_WAITING", retry_after_seconds=1)
    if isinstance(error, HTTPException):
        return _refusal_of_http(error, environ, max_body_bytes)
    _log.error("request failed", extra={"request_id": request_id(environ)}, exc_info=error)
    return Refusal(500, "the server failed; try again, and give the operator the request id if it fails again")


def _refusal_of_http(error: HTTPException, environ: WSGIEnvironment, max_body_bytes: int) -> Refusal:
    if error.code == 404:
        return Refusal(404, f"there is no {get_path_info(environ)} here; check the path", reason=PATH_NOT_FOUND)
    if isinstance(error, MethodNotAllowed):
        method, path = environ["REQUEST_METHOD"], get_path_info(environ)
        why = next((why for which, found, why in _WHY_NOT if which == method and found.fullmatch(path)), "")
        message, allow = f"{method} is not available for {path}{why}; see the header Allow", error.valid_methods or ()
        return Refusal(405, message, headers={"Allow": ", ".join(allow)})
    if error.code == 413:
        return Refusal(413, f"the body is larger than {max_body_bytes} bytes; send less at a time")
    code = error.code if error.code in ERROR_TYPES else 400
    return Refusal(code, error.description or error.name)
