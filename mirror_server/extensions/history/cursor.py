"""The cursor of the history: where an answer ended, of which request, and what was known when its first page began.

It is a text that tells all of it, so that it survives restarts and any process takes it. Source: wire.md 10.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import replace
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field, TypeAdapter

from mirror_sdk.wire.device_object import Revision
from mirror_sdk.wire.paths import parse_path
from mirror_server.core.errors import Refusal
from mirror_server.core.instants import Instant
from mirror_server.extensions.history.selection import HistorySelection, Position

_CURE = "give what the answer before told, or leave it out"

# Well beyond what there is of either, and so that one less the other is a number too.
_Instant = Annotated[Instant, Field(ge=-(2**53), le=2**53)]


def _checked(path: str) -> str:
    parse_path(path)
    return path


class Reading(NamedTuple):
    """What the pages of a request have in common.

    Attributes:
        request: Which request it is.
        taken_at: When the first page was begun.
        revision: Number of the mirror's last change then: what was stored later is in none of them.
    """

    request: str
    taken_at: _Instant
    revision: Revision


class _Place(NamedTuple):
    # Not every database has texts with a zero byte in them.
    device_id: Annotated[str, Field(pattern=r"^[^\x00]*$")] | None
    path: Annotated[str, AfterValidator(_checked)] | None
    changed_at: _Instant
    revision: Revision


_CURSOR: TypeAdapter[tuple[Reading, _Place]] = TypeAdapter(tuple[Reading, _Place])


def request_of(selection: HistorySelection) -> str:
    """What tells a request from another one, whatever its pages."""
    asked = replace(selection, after=None, limit=None, revision=None)
    return hashlib.blake2b(repr(asked).encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


def write_cursor(reading: Reading, position: Position) -> str:
    """What goes on behind a position."""
    return base64.urlsafe_b64encode(_CURSOR.dump_json((reading, _Place(*position)))).decode("ascii").rstrip("=")


def read_cursor(text: str, selection: HistorySelection) -> tuple[Reading, Position]:
    """What an answer to the same request told: what its pages have in common, and where the last row stood.

    Raises:
        Refusal: It is no cursor, or that of another request (400).
    """
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        reading, place = _CURSOR.validate_json(decoded, strict=True)
    except (binascii.Error, ValueError):
        raise Refusal.of_field("after", f"that is no cursor; {_CURE}") from None
    if reading.request != request_of(selection):
        raise Refusal.of_field("after", f"that is the cursor of a request with other parameters; {_CURE}")
    return reading, Position(*place)
