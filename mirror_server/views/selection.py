"""The part of the fleet that a query selects: devices and paths."""

from __future__ import annotations

from collections.abc import Collection

from flask import request

from mirror_sdk.wire.paths import check_pattern
from mirror_sdk.wire.snapshot import MAX_PATTERNS
from mirror_server.core.errors import Refusal
from mirror_server.store.conditions import Condition
from mirror_server.views.filters import read_filters


def query_conditions(own: Collection[str]) -> tuple[Condition, ...]:
    """The conditions in the query of the request; every parameter that is not in ``own`` is taken for a filter.

    Raises:
        Refusal: See :func:`mirror_server.views.filters.read_filters`.
    """
    given = [(name, value) for name, value in request.args.items(multi=True) if name not in own]
    return tuple(read_filters(given, own=own))


def query_patterns() -> tuple[str, ...]:
    """The patterns of paths in the query of the request.

    Raises:
        Refusal: One of them is none, or there are too many (400).
    """
    patterns = request.args.getlist("path")
    if len(patterns) > MAX_PATTERNS:
        raise Refusal.of_field("path", f"given {len(patterns)} times; {MAX_PATTERNS} is the limit")
    try:
        return tuple(map(check_pattern, patterns))
    except ValueError as error:
        raise Refusal.of_field("path", str(error)) from None
