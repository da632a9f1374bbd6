"""The part of the fleet that a query selects: devices and paths."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from flask import request

from mirror_sdk.wire.paths import TEXT_PATTERN, check_pattern
from mirror_sdk.wire.snapshot import MAX_PATTERNS
from mirror_server.core.errors import Refusal
from mirror_server.store.conditions import Condition
from mirror_server.views.description import TEXT, Parameter
from mirror_server.views.requests import check_query, services

PATTERNS = Parameter(
    "path",
    "Only resources of this path, or whose path begins with what stands before a `*` at its end; may be given several"
    " times.",
    {"type": "array", "items": TEXT | {"pattern": TEXT_PATTERN}, "maxItems": MAX_PATTERNS},
    is_repeated=True,
)


def query_conditions(own: Collection[str]) -> tuple[Condition, ...]:
    """The conditions on devices in the query of the request, which are in the parameters that are not in ``own``.

    Raises:
        Refusal: A parameter is none, or its value cannot be one (400).
    """
    given = [(name, value) for name, value in request.args.items(multi=True) if name not in own]
    if not given:
        return ()
    found: Sequence[Condition] | None = services().extensions.hook.device_conditions(given=given, own=own)
    if found is None:
        check_query(own)
    return tuple(found or ())


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
