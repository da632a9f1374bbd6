"""Parsing of timestamps in queries and filters."""

from __future__ import annotations

import re

from pydantic import ConfigDict, TypeAdapter, ValidationError

from mirror_sdk.wire.model import Timestamp
from mirror_server.core.errors import ApiError
from mirror_server.core.timestamps import Instant, from_datetime
from mirror_server.views.requests import query_text

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]", re.ASCII)
_TIMESTAMP: TypeAdapter[Timestamp] = TypeAdapter(Timestamp, config=ConfigDict(defer_build=True))


def query_instant(name: str) -> Instant | None:
    """Return the value of a query parameter as a timestamp, or ``None`` if it is absent.

    Raises:
        ApiError: The parameter is not a timestamp, or is repeated (400).
    """
    text = query_text(name)
    return None if text is None else read_instant(name, text)


def read_instant(name: str, text: str) -> Instant:
    """Parse an RFC 3339 timestamp.

    Raises:
        ApiError: The string is not a timestamp, or has no time zone (400).
    """
    try:
        # A bare number is rejected, because it could be seconds or milliseconds.
        return from_datetime(_TIMESTAMP.validate_python(text if _DATE.match(text) else None))
    except ValidationError as error:
        fault = "has no time zone" if error.errors()[0]["type"] == "timezone_aware" else "is not a time"
        raise ApiError.of_field(name, f"{text!r} {fault}; write it like 2026-11-20T12:37:55.576Z") from None
