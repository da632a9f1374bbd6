"""Lists page by page, as the public API has them. Source: wire.md 6."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flask import Response, request

from mirror_sdk.wire.directory import DEFAULT_LIMIT, INCLUDED, MAX_LIMIT, MIN_LIMIT
from mirror_server.service.long_reads import takes_long
from mirror_server.store.conditions import Condition
from mirror_server.views.answers import json_answer, when_read
from mirror_server.views.description import TEXT, Parameter, Schema, whole_number, words
from mirror_server.views.requests import query_choice, query_integer, query_text

PARAMETERS = ("limit", "after", "order", "include")
"""Of every list; the others are filters."""
_ORDERS = ("ASC", "DESC")


def list_parameters(what: str, one: str, after: Schema = TEXT) -> tuple[Parameter, ...]:
    """The same in the description of a list of so many: ``devices``, ``device``."""
    return (
        Parameter("limit", f"How many {what} at most.", whole_number(MIN_LIMIT, MAX_LIMIT, DEFAULT_LIMIT)),
        Parameter("after", f"The id of the last {one} of the page before.", after),
        Parameter("order", "In which order of their ids.", words(*_ORDERS, default="ASC")),
        Parameter("include", f"With the number of all {what} that match.", words(*INCLUDED)),
    )


@dataclass(frozen=True, slots=True)
class Paging:
    """Which page is asked for.

    Attributes:
        after: The id the page begins behind.
        descending: Whether it goes from greater ids to lesser ones.
        limit: How many entries it has at most.
        count: Whether to tell how many there are in all.
        filters: The other parameters of the query, each a filter.
    """

    after: str | None
    descending: bool
    limit: int
    count: bool
    filters: Sequence[tuple[str, str]]


def query_paging() -> Paging:
    """Which page the query of the request asks for.

    Raises:
        Refusal: A parameter is none (400).
    """
    limit = query_integer("limit", low=MIN_LIMIT, high=MAX_LIMIT) or DEFAULT_LIMIT
    order = query_choice("order", _ORDERS)
    include = query_choice("include", INCLUDED)
    filters = [(name, value) for name, value in request.args.items(multi=True) if name not in PARAMETERS]
    return Paging(query_text("after"), order == "DESC", limit, include is not None, filters)


def when_page_read(
    paging: Paging, conditions: Sequence[Condition], rows: int, read: Callable[[], Response]
) -> Response:
    """The page that ``read`` makes of a list of so many rows, made on another thread where that takes long."""
    is_long = takes_long(conditions, rows=rows, returned=paging.limit, counts=paging.count)
    return when_read(read, lambda page: page, is_long=is_long)


def page_answer(paging: Paging, entries: Sequence[Any], total: int | None) -> Response:
    """The page, of up to ``limit + 1`` entries: one more tells that there is more."""
    page = {
        "object": "list",
        "data": entries[: paging.limit],
        "has_more": len(entries) > paging.limit,
        "limit": paging.limit,
        "order": "DESC" if paging.descending else "ASC",
        "after": paging.after,
    }
    return json_answer(page if total is None else page | {"total_count": total})
