"""The exceptions of operations; :class:`ApiError` becomes the error body of a response. Source: wire.md 0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

Field = tuple[str, str]
"""A field's name and what is wrong with it."""


class ApiError(Exception):
    """An error of a request, which has changed nothing.

    Attributes:
        code: HTTP status.
        message: What is wrong, and what to do next.
        reason: The error word of the public API, if it has one.
        fields: The fields that are wrong, and why.
        retry_after_seconds: When the same request may succeed, for the header ``Retry-After``.
        headers: Further headers of the response.
        more: Further members of the error body.
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
        404, f"no device with the id {device_id!r}; GET /v3/devices lists the known ones", reason="DEVICE_NOT_FOUND"
    )


class CannotServe(Exception):
    """The server cannot start with these settings; the message has the cure."""
