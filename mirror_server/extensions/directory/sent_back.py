"""What programs send back with what they change: they read a whole object, change a member, and send it all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import request

from mirror_server.core.errors import Refusal
from mirror_server.extensions.instants import read_instant
from mirror_server.views.requests import STALE

_TIMES = {"created_at", "updated_at", "etag", "bootstrapped_timestamp", "last_contact_at"}


def refuse_if_match() -> None:
    """Refuse a condition that is not read here: nothing is to be changed against it.

    Raises:
        Refusal: There is one (400).
    """
    if "If-Match" in request.headers:
        told = "it is not read here; send the `etag` that you read in the body: nothing is changed if it is another now"
        raise Refusal.of_field("If-Match", told)


def require_unchanged(sent: Mapping[str, Any], present: Mapping[str, Any], whose: Mapping[str, str]) -> None:
    """Let members that cannot be changed be sent as they are.

    Args:
        sent: What was sent of them; ``None`` is nothing.
        present: The object as it is now.
        whose: Of members that something else changes, who or what does.

    Raises:
        Refusal: One of them is another (400).
    """
    for name, value in sent.items():
        if value is not None and not _is_same(name, value, present[name]):
            raise Refusal.of_field(name, f"{whose[name]}; leave it out" if name in whose else STALE)


def _is_same(name: str, sent: Any, present: Any) -> bool:
    # Programs write times with more or fewer digits than they read.
    if name in _TIMES:
        return read_instant(name, sent) == read_instant(name, present)
    return bool(sent == present)
