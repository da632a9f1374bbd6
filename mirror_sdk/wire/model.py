"""What all wire models share: how unknown members and timestamps are treated."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema

_OFFSET_WITHOUT_COLON = re.compile(r"([+-]\d{2})(\d{2})$")


class WireModel(BaseModel):
    """Base of every object of the interface.

    Reading is lenient: unknown members are kept, so that an older client survives a newer server. Where the server
    reads a request it validates with ``extra="forbid"`` and so names the unknown member.
    """

    # A validator is built when it is first used: no program uses all of them.
    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="allow", frozen=True, validate_by_name=True, validate_by_alias=True, defer_build=True
    )

    def to_wire(self) -> dict[str, Any]:
        """The JSON form: wire names, nothing that was not given."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


def read_timestamp(value: object) -> object:
    """Accept an offset without its colon (``+0000``), as some servers of the public API send it."""
    if isinstance(value, str) and not value.endswith("Z"):
        return _OFFSET_WITHOUT_COLON.sub(r"\1:\2", value)
    return value


def write_timestamp(instant: datetime) -> str:
    """RFC 3339 in UTC with milliseconds and ``Z``. Source: wire.md 0."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Timestamp = Annotated[
    AwareDatetime,
    BeforeValidator(read_timestamp),
    PlainSerializer(write_timestamp, return_type=str, when_used="json"),
]


def read_payload(value: object) -> object:
    """Decode base64 strictly: a character that is not base64 is an error, never skipped."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"not base64: {error}") from None


def write_payload(payload: bytes) -> str:
    """Base64 of the raw payload, as every payload travels. Source: wire.md 1, 2 and 5."""
    return base64.b64encode(payload).decode("ascii")


_BASE64: dict[str, Any] = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}
Payload = Annotated[
    bytes,
    BeforeValidator(read_payload),
    PlainSerializer(write_payload, return_type=str, when_used="json"),
    WithJsonSchema(_BASE64),
]

Order = Literal["ASC", "DESC"]
