"""The exceptions of operations; :class:`ApiError` becomes the error body of a response. Source: wire.md 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

Field = tuple[str, str]
"""The name of an invalid field, and the reason."""


class ApiError(Exception):
    """An error of a request. The request has changed nothing.

    Attributes:
        code: The HTTP status.
        message: The error, and what to do next.
        reason: The error word of the public API, if it has one.
        fields: The invalid fields, each with the reason.
        retry_after_seconds: When the same request may succeed, for the header ``Retry-After``.
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
        """Return a 400 about one field."""
        return cls(400, f"{name}: {message}", reason=reason, fields=[(name, message)])


def unknown_device(device_id: str) -> ApiError:
    """Return the 404 of all routes with a device id."""
    return ApiError(
        404, f"no device with the id {device_id!r}; GET /v3/devices lists all devices", reason="DEVICE_NOT_FOUND"
    )


class CannotServe(Exception):
    """The server cannot start with these settings. The message says what to do."""
