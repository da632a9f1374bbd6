"""What programs send back with what they change: they read a whole object, change a member, and send it all."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from flask import request
from pydantic import BaseModel

from mirror_server.core.errors import ApiError
from mirror_server.extensions.instants import read_instant
from mirror_server.views.requests import check_body, read_json

M = TypeVar("M", bound=BaseModel)

_STALE = "this is not what it has now; leave it out, or read the object again and send what is there"
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_TIMES = {"created_at", "updated_at", "etag", "bootstrapped_timestamp", "last_contact_at"}


def read_echoed(model: type[M], *, not_kept: Collection[str], unchanged: Mapping[str, Any] = MappingProxyType({})) -> M:
    """Return the request's body, which may have members that the model lacks.

    Args:
        model: What it has to be without these.
        not_kept: Members of the public API that have no value here; they may be sent without one.
        unchanged: Members with their present values; they may be sent with these, or without a value.

    Raises:
        ApiError: It is not JSON (400, 415), does not fit the model, or one of these members has another value (400).
    """
    content = read_json()
    if isinstance(content, dict):
        for name in not_kept:
            if content.pop(name, None) not in _EMPTY:
                raise ApiError.of_field(name, "not kept here, which is about what devices tell; leave it out")
        for name, value in unchanged.items():
            if content.pop(name, None) not in (None, value):
                raise ApiError.of_field(name, _STALE)
    return check_body(model, content)


def reject_if_match() -> None:
    """Refuse a condition that is not read here: nothing is to be changed against it.

    Raises:
        ApiError: There is one (400).
    """
    if "If-Match" in request.headers:
        told = "it is not read here; send the `etag` that you read in the body: nothing is changed if it is another now"
        raise ApiError.of_field("If-Match", told)


def require_unchanged(sent: Mapping[str, Any], present: Mapping[str, Any], whose: Mapping[str, str]) -> None:
    """Let members that cannot be changed be sent as they are.

    Args:
        sent: What was sent of them; ``None`` is nothing.
        present: The object as it is now.
        whose: Of members that something else changes, who or what does.

    Raises:
        ApiError: One of them is another (400).
    """
    for name, value in sent.items():
        if value is not None and not _is_same(name, value, present[name]):
            raise ApiError.of_field(name, f"{whose[name]}; leave it out" if name in whose else _STALE)


def _is_same(name: str, sent: Any, present: Any) -> bool:
    # Programs write times with more or fewer digits than they read.
    if name in _TIMES:
        return read_instant(name, sent) == read_instant(name, present)
    return bool(sent == present)
