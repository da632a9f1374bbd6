"""The error body of every response from 400 on. Source: wire.md 0."""

from __future__ import annotations

from typing import Literal

from mirror_sdk.wire.model import WireModel


class FieldError(WireModel):
    """The error of one field.

    Attributes:
        name: The name of the parameter or member. A nested member has a name with dots, such as ``serialization.type``.
        message: The error, and how to correct it.
    """

    name: str
    message: str


class ErrorBody(WireModel):
    """An error of the service.

    Attributes:
        code: The status of the response.
        type: A word for the kind of error, by status: :data:`ERROR_TYPES`. A 400 that names a field is a
            ``validation_error``.
        message: The error, and what to do next.
        fields: The errors of fields.
        request_id: Identifies the request in the server's log.
        reason: The public API's word for the error, if it has one.
    """

    object: Literal["error"] = "error"
    code: int
    type: str
    message: str
    fields: list[FieldError] = []
    request_id: str | None = None
    reason: str | None = None


PATH_NOT_FOUND = "PATH_NOT_FOUND"
"""The ``reason`` of a 404 for a path that the interface does not have, as with a wrong ``base_url``; an extension."""

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
"""The ``type`` of an error with this code; a 400 about a field is ``validation_error``."""
