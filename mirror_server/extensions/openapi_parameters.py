"""Parts of the OpenAPI document that several extensions use."""

from __future__ import annotations

from mirror_sdk.wire.directory import DEFAULT_LIMIT, INCLUDED, MAX_LIMIT, MIN_LIMIT
from mirror_sdk.wire.routes import EXPIRES_AT_HEADER, REQUESTED_AT_HEADER
from mirror_server.views.description import INSTANT, TEXT, Parameter, Schema, header, integer, words
from mirror_server.views.requests import ORDERS

# The server also accepts `True` and `False`. Client generators turn the words into constants, whose names would clash.
FLAG = words("true", "false")
POSITION: Schema = {"oneOf": [integer(0), words("latest")]}
"""The schema for the position of a reader that stores its own position."""


def list_parameters(plural: str, singular: str, after: Schema = TEXT) -> tuple[Parameter, ...]:
    """Describe the parameters of :data:`PAGING` for a list.

    Args:
        plural: The name of several items, such as ``devices``.
        singular: The name of one item, such as ``device``.
        after: The schema of the parameter ``after``.
    """
    return (
        Parameter("limit", f"Maximum number of {plural}.", integer(MIN_LIMIT, MAX_LIMIT, DEFAULT_LIMIT)),
        Parameter("after", f"The id of the last {singular} of the previous page.", after),
        Parameter("order", "The order by id.", words(*ORDERS, default="ASC")),
        Parameter("include", f"Include the number of all {plural} that match.", words(*INCLUDED)),
    )


OF_ACCEPTED = (
    header(
        REQUESTED_AT_HEADER,
        "When the request was accepted, by the server's clock. For a repeated async-id this is the first time. For a"
        " write it is also `desired.requested_at`.",
        INSTANT,
    ),
    header(EXPIRES_AT_HEADER, "Until when the request can wait for the device, by the server's clock.", INSTANT),
)
"""The headers of a 202 response."""
