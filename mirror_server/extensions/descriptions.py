"""Parts of the description of the interface that several extensions have in common."""

from __future__ import annotations

from mirror_sdk.wire.directory import DEFAULT_LIMIT, INCLUDED, MAX_LIMIT, MIN_LIMIT
from mirror_sdk.wire.routes import EXPIRES_AT_HEADER, REQUESTED_AT_HEADER
from mirror_server.views.description import INSTANT, TEXT, Parameter, Schema, header, whole_number, words
from mirror_server.views.requests import ORDERS

# `True` and `False` are accepted too, but client generators make constants of the words, which would clash.
FLAG = words("true", "false")
POSITION: Schema = {"oneOf": [whole_number(0), words("latest")]}
"""A position of a reader that keeps its own."""


def list_parameters(what: str, one: str, after: Schema = TEXT) -> tuple[Parameter, ...]:
    """The parameters of :data:`PAGING` in the description of a list, whose items are named: ``devices``, ``device``."""
    return (
        Parameter("limit", f"How many {what} at most.", whole_number(MIN_LIMIT, MAX_LIMIT, DEFAULT_LIMIT)),
        Parameter("after", f"The id of the last {one} of the page before.", after),
        Parameter("order", "In which order of their ids.", words(*ORDERS, default="ASC")),
        Parameter("include", f"With the number of all {what} that match.", words(*INCLUDED)),
    )


OF_ACCEPTED = (
    header(
        REQUESTED_AT_HEADER,
        "When the request was accepted, by this service's clock: of a repeated async-id the first time. Of a write it"
        " is `desired.requested_at` too.",
        INSTANT,
    ),
    header(EXPIRES_AT_HEADER, "Until when the request may wait for the device, by this service's clock.", INSTANT),
)
"""What comes with the 202."""
