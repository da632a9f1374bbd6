"""The body of all error responses, which have a status of 400 or more. Source: wire.md 0."""

from __future__ import annotations

from typing import Literal

from mirror_sdk.wire.model import WireModel


class FieldError(WireModel):
    """The error of one field.

    Attributes:
        name: The name of the parameter or member. The name of a nested member contains dots, such as
            ``serialization.type``.
        message: A description of the error and of how to correct it.
    """

    name: str
    message: str


class ErrorBody(WireModel):
    """An error of the service.

    Attributes:
        code: The HTTP status of the response.
        type: The kind of the error in one word, which depends on the status; see :data:`ERROR_TYPES`. If a 400 response
            lists a field, the type is ``validation_error``.
        message: A description of the error and of the next step.
        fields: The errors of single fields.
        request_id: The id of the request in the server's log.
        reason: The error code of the public API, if there is one.
    """

    object: Literal["error"] = "error"
    code: int
    type: str
    message: str
    fields: list[FieldError] = []
    request_id: str | None = None
    reason: str | None = None


PATH_NOT_FOUND = "PATH_NOT_FOUND"
"""The ``reason`` of a 404 response to a path that the interface does not have. An extension of the specification."""

ERROR_TYPES: dict[int, str] = {
    400: "bad_request",
    401: "invalid_auth",
    403: "access_denied",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    408: "request_timeout",
    409: "conflict",
    410: "gone",
    412: "precondition_failed",
    413: "too_large",
    414: "too_large",
    415: "unsupported_media_type",
    426: "upgrade_required",
    429: "limit_exceeded",
    431: "too_large",
    500: "internal",
    503: "unavailable",
}
"""The ``type`` of an error with each status. If a 400 response lists a field, the type is ``validation_error``."""
