"""Selections of rows of the history, and the cursor that continues a request. Source: wire.md 10.

A cursor contains all data that is needed to continue, so it survives restarts and is valid in every process.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, Field, TypeAdapter

from mirror_sdk.wire.device_object import Revision
from mirror_sdk.wire.model import write_timestamp
from mirror_sdk.wire.paths import parse_path
from mirror_server.core.errors import ApiError
from mirror_server.core.timestamps import Instant, to_datetime
from mirror_server.store.conditions import Condition

_CURE = "send the cursor of the previous response, or omit after="

# Beyond all real instants, and so small that differences do not overflow.
_Instant = Annotated[Instant, Field(ge=-(2**53), le=2**53)]


def _checked(path: str) -> str:
    parse_path(path)
    return path


class Position(NamedTuple):
    """The position of a row in the order of all rows. ``None`` comes before every text."""

    # Not every database supports texts with a zero byte.
    device_id: Annotated[str, Field(pattern=r"^[^\x00]*$")] | None
    path: Annotated[str, AfterValidator(_checked)] | None
    changed_at: _Instant
    revision: Revision

    @property
    def key(self) -> tuple[str, str, Instant, int]:
        """The key by which positions are compared."""
        return self.device_id or "", self.path or "", self.changed_at, self.revision


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySelection:
    """Rows of the history.

    Attributes:
        conditions: Only rows of devices that meet every condition; gaps of the service belong to all devices.
        patterns: Only resources whose path is one of these, or begins with what precedes a final ``*``; all if empty.
            Rows without a resource, such as registrations and gaps, are always included. Without them, a value that
            did not change looks the same as one that could not be received.
        begin: Only events at this instant or later, and gaps that ended later.
        end: Only earlier events.
        after: Only rows after this position, in the order of the response.
        descending: Whether the last row comes first.
        revision: Only rows that were stored up to this revision.
    """

    conditions: tuple[Condition, ...] = ()
    patterns: tuple[str, ...] = ()
    begin: Instant | None = None
    end: Instant | None = None
    after: Position | None = None
    descending: bool = False
    revision: int | None = None


class TooOld(ValueError):
    """The request is about an instant before the history.

    Attributes:
        oldest_at: The oldest instant that can be requested.
    """

    def __init__(self, oldest_at: Instant) -> None:
        super().__init__(f"the history starts at {write_timestamp(to_datetime(oldest_at))}; request a later time")
        self.oldest_at = oldest_at


class PagedRequest(NamedTuple):
    """Properties that all pages of a request share.

    Attributes:
        request: Identifies the request.
        taken_at: When the first page was started.
        revision: Number of the mirror's last change at that time. No page has rows that were stored later.
    """

    request: str
    taken_at: _Instant
    revision: Revision


_CURSOR: TypeAdapter[tuple[PagedRequest, Position]] = TypeAdapter(tuple[PagedRequest, Position])


def request_of(selection: HistorySelection) -> str:
    """Return a digest of a request that is the same for all of its pages."""
    all_pages = replace(selection, after=None, revision=None)
    return hashlib.blake2b(repr(all_pages).encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


def write_cursor(pages: PagedRequest, position: Position) -> str:
    """Return the cursor that continues after a position."""
    return base64.urlsafe_b64encode(_CURSOR.dump_json((pages, position))).decode("ascii").rstrip("=")


def read_cursor(text: str, selection: HistorySelection) -> tuple[PagedRequest, Position]:
    """Return the values that :func:`write_cursor` wrote for an earlier page of the same request.

    Raises:
        ApiError: The text is not a cursor, or the cursor of another request (400).
    """
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        pages, position = _CURSOR.validate_json(decoded, strict=True)
    except (binascii.Error, ValueError):
        raise ApiError.of_field("after", f"this is not a cursor; {_CURE}") from None
    if pages.request != request_of(selection):
        raise ApiError.of_field("after", f"this cursor belongs to a request with other parameters; {_CURE}")
    return pages, position
