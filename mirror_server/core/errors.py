"""How an operation is refused: the one exception that becomes the error body of wire.md 0."""

from __future__ import annotations

from collections.abc import Sequence

Field = tuple[str, str]
"""A field's name and what is wrong with it."""


class Refusal(Exception):
    """The request is refused and nothing was changed.

    Attributes:
        code: HTTP status.
        message: What is wrong and what to do next.
        reason: The public API's error word, where it has one.
        fields: What is wrong with which field.
        retry_after_seconds: When the same request may succeed, for the header ``Retry-After``.
    """

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str | None = None,
        fields: Sequence[Field] = (),
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.fields = tuple(fields)
        self.retry_after_seconds = retry_after_seconds

    @classmethod
    def of_field(cls, name: str, message: str, *, reason: str | None = None) -> Refusal:
        """A 400 about one field."""
        return cls(400, f"{name}: {message}", reason=reason, fields=[(name, message)])


def unknown_device(device_id: str) -> Refusal:
    """The 404 of every route with a device id."""
    return Refusal(
        404, f"no device with the id {device_id!r}; GET /v3/devices lists the known ones", reason="DEVICE_NOT_FOUND"
    )


def other_channel(existing: str, cure: str) -> Refusal:
    """The 400 of a key that has a channel of the other type."""
    message = f"this key has {existing}, and only one type of channel at a time; end it with {cure} first"
    return Refusal(400, message, reason="OTHER_CHANNEL")
