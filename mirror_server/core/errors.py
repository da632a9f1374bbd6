"""The exceptions of operations. :class:`ApiError` becomes the error body of a response. Source: wire.md 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

Field = tuple[str, str]
"""The name of an invalid field, and the reason why it is invalid."""


class ApiError(Exception):
    """An error to send in response to a request. The request has changed nothing.

    Attributes:
        code: The HTTP status code.
        message: The description of the error, and a suggested fix.
        reason: The error code of the public API, if the API defines one for this error.
        fields: The invalid fields, each with the reason.
        retry_after_seconds: The time in seconds after which the same request may succeed, for the header
            ``Retry-After``.
        headers: Additional headers of the response.
        more: Additional members of the error body.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str | None = None,
        fields: Sequence[Field] = (),
        retry_after_seconds: int | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        more: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.fields = tuple(fields)
        self.retry_after_seconds = retry_after_seconds
        self.headers = headers
        self.more = more

    @classmethod
    def of_field(cls, name: str, message: str, *, reason: str | None = None) -> ApiError:
        """Return an error with status 400 for one field."""
        return cls(400, f"{name}: {message}", reason=reason, fields=[(name, message)])


def unknown_device(device_id: str) -> ApiError:
    """Return the error with status 404 for an unknown device id, which all routes share."""
    return ApiError(
        404, f"no device with the id {device_id!r}; GET /v3/devices lists all devices", reason="DEVICE_NOT_FOUND"
    )


class CannotServe(Exception):
    """The server cannot start with these settings. The message contains a suggested fix."""
