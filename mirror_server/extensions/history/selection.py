"""Selections of history rows, and the cursor with which a request continues. Source: wire.md 10.

A cursor contains all data that is needed to continue, so it is valid after restarts and in every process.
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

# These limits are beyond all real timestamps, and so small that differences do not overflow.
_Instant = Annotated[Instant, Field(ge=-(2**53), le=2**53)]


def _checked(path: str) -> str:
    parse_path(path)
    return path


class Position(NamedTuple):
    """The position of a row in the order of all rows. ``None`` comes before every string."""

    # Not every database supports strings with a zero byte.
    device_id: Annotated[str, Field(pattern=r"^[^\x00]*$")] | None
    path: Annotated[str, AfterValidator(_checked)] | None
    changed_at: _Instant
    revision: Revision

    @property
    def key(self) -> tuple[str, str, Instant, int]:
        """The key for comparing positions."""
        return self.device_id or "", self.path or "", self.changed_at, self.revision


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySelection:
    """A selection of history rows.

    Attributes:
        conditions: The conditions that a device must meet. Gaps belong to all devices, so they are always included.
        patterns: The paths of the selected resources. A path that ends with ``*`` selects all paths with the prefix
            before the ``*``. All resources are selected if there are no patterns. Rows without a resource, such as
            registrations and gaps, are always included. Without them, a value that did not change would look the same
            as a value that could not be received.
        begin: The first time of an event. A gap is included if it ends after this time.
        end: The time before which all events must be.
        after: The position after which the rows start, in the order of the response.
        descending: Whether the last row comes first.
        revision: The largest revision of a row. Rows that were stored later are not included.
    """

    conditions: tuple[Condition, ...] = ()
    patterns: tuple[str, ...] = ()
    begin: Instant | None = None
    end: Instant | None = None
    after: Position | None = None
    descending: bool = False
    revision: int | None = None


class TooOld(ValueError):
    """The request needs data from before the start of the history.

    Attributes:
        oldest_at: The oldest time that can be requested.
    """

    def __init__(self, oldest_at: Instant) -> None:
        super().__init__(f"the history starts at {write_timestamp(to_datetime(oldest_at))}; request a later time")
        self.oldest_at = oldest_at


class PagedRequest(NamedTuple):
    """The properties that all pages of a request have in common.

    Attributes:
        request: The digest that identifies the request.
        taken_at: The time at which the first page was started.
        revision: The number of the mirror's last change at that time. No page has rows that were stored later.
    """

    request: str
    taken_at: _Instant
    revision: Revision


_CURSOR: TypeAdapter[tuple[PagedRequest, Position]] = TypeAdapter(tuple[PagedRequest, Position])


def request_of(selection: HistorySelection) -> str:
    """Return a digest of a request. All pages of the request have the same digest."""
    all_pages = replace(selection, after=None, revision=None)
    return hashlib.blake2b(repr(all_pages).encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


def write_cursor(pages: PagedRequest, position: Position) -> str:
    """Return the cursor that continues after a position."""
    return base64.urlsafe_b64encode(_CURSOR.dump_json((pages, position))).decode("ascii").rstrip("=")


def read_cursor(text: str, selection: HistorySelection) -> tuple[PagedRequest, Position]:
    """Return the values that :func:`write_cursor` encoded for an earlier page of the same request.

    Raises:
        ApiError: The text is not a valid cursor, or it belongs to another request (400).
    """
    try:
        decoded = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        pages, position = _CURSOR.validate_json(decoded, strict=True)
    except (binascii.Error, ValueError):
        raise ApiError.of_field("after", f"this is not a cursor; {_CURE}") from None
    if pages.request != request_of(selection):
        raise ApiError.of_field("after", f"this cursor belongs to a request with other parameters; {_CURE}")
    return pages, position
