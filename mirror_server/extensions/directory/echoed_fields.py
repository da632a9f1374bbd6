"""Read-only fields that clients send back unchanged.

A client may read an object, change one member, and send the complete object.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from flask import request
from pydantic import BaseModel

from mirror_server.core.errors import ApiError
from mirror_server.extensions.time_parameters import read_instant
from mirror_server.views.requests import check_body, read_json

M = TypeVar("M", bound=BaseModel)

_STALE = "not the current value; remove this member, or read the object again and send the current value"
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_TIMES = {"created_at", "updated_at", "etag", "bootstrapped_timestamp", "last_contact_at"}


def read_echoed(
    model: type[M], *, unsupported: Collection[str], unchanged: Mapping[str, Any] = MappingProxyType({})
) -> M:
    """Return the body of the request, which may have members that the model lacks.

    Args:
        model: The model of the body without these members.
        unsupported: Members of the public API that have no value on this server. They may be sent without a value.
        unchanged: Read-only members with their current values. They may be sent with these values, or without a value.

    Raises:
        ApiError: The body is not JSON (400, 415). It does not match the model, or one of these members has another
            value (400).
    """
    content = read_json()
    if isinstance(content, dict):
        for name in unsupported:
            if content.pop(name, None) not in _EMPTY:
                raise ApiError.of_field(name, "not supported, because this server has no such data; remove this member")
        for name, value in unchanged.items():
            if content.pop(name, None) not in (None, value):
                raise ApiError.of_field(name, _STALE)
    return check_body(model, content)


def reject_if_match() -> None:
    """Reject ``If-Match``, which is not supported here.

    Ignoring the header could overwrite a change by another client.

    Raises:
        ApiError: The request has this header (400).
    """
    if "If-Match" in request.headers:
        message = (
            "If-Match is not supported here; put the object's `etag` into the body instead. If the object has changed"
            " since you read it, the request is rejected and changes nothing"
        )
        raise ApiError.of_field("If-Match", message)


def require_unchanged(sent: Mapping[str, Any], current: Mapping[str, Any], reasons: Mapping[str, str]) -> None:
    """Check that read-only members have their current values.

    Args:
        sent: The read-only members in the body. ``None`` counts as absent.
        current: The current object.
        reasons: The reason why a member is read-only, for members where this is not obvious.

    Raises:
        ApiError: A member differs from its current value (400).
    """
    for name, value in sent.items():
        if value is not None and not _is_same(name, value, current[name]):
            raise ApiError.of_field(name, f"{reasons[name]}; remove this member" if name in reasons else _STALE)


def _is_same(name: str, sent: Any, current: Any) -> bool:
    # Clients may write times with more or fewer digits than they read.
    if name in _TIMES:
        return read_instant(name, sent) == read_instant(name, current)
    return bool(sent == current)
