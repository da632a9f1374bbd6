"""The requests for the history of devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from mirror_sdk._arguments import InstantLike, instant
from mirror_sdk._protocol.operation_base import Operation
from mirror_sdk.errors import InvalidValue
from mirror_sdk.snapshot.device_selection import MAX_IDS_PER_URL
from mirror_sdk.snapshot.snapshot_request import StreamRequest
from mirror_sdk.wire import routes
from mirror_sdk.wire.history import MAX_ROWS
from mirror_sdk.wire.model import write_timestamp

MILLISECOND = timedelta(milliseconds=1)
"""The resolution of the service's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRequest(StreamRequest):
    """A request for a history.

    Attributes:
        begin: The start of the interval, or ``None`` for the whole stored history.
        end: The end of the interval, which is exclusive, or ``None`` for the current time.
        limit: The maximum number of rows, or ``None`` for all rows. The first rows in the requested order are returned.
        newest_first: Whether the rows are in reverse order.
    """

    begin: datetime | None = None
    end: datetime | None = None
    limit: int | None = None
    newest_first: bool = False

    def requests(self) -> Iterator[HistoryRequest]:
        """Yield requests that each contain as many devices as fit into a URL, in the order of their ids."""
        if (ids := self.selection.device_ids) is None:
            yield self
            return
        selection = replace(self.selection, filters=dict(self.selection.filters))
        # A URL can contain this condition only once, so both lists of devices are combined.
        among = selection.filters.pop("id__in", None)  # type: ignore[attr-defined] # it is the dict from above
        selected = sorted(set(ids) if among is None else set(ids) & set(among.split(",")), reverse=self.newest_first)
        for first in range(0, len(selected), MAX_IDS_PER_URL):
            batch = tuple(selected[first : first + MAX_IDS_PER_URL])
            yield replace(self, selection=replace(selection, device_ids=batch))

    def operation(self, form: str, after: str | None, limit: int | None) -> Operation[None]:
        """Return the operation that requests a response in a format.

        Args:
            form: The media type of the format.
            after: The position after which the response starts, or ``None`` for the beginning.
            limit: The maximum number of rows.
        """
        params = {
            "path": list(self.selection.paths or ()),
            "from": None if self.begin is None else write_timestamp(up_to_millisecond(self.begin)),
            "to": None if self.end is None else write_timestamp(up_to_millisecond(self.end)),
            "limit": None if limit is None else min(limit, MAX_ROWS),
            "after": after,
            "order": "DESC" if self.newest_first else None,
        }
        return self.streamed(routes.HISTORY, form, params)


def check_interval(
    begin: InstantLike | None, end: InstantLike | None, now: Callable[[], datetime]
) -> tuple[datetime | None, datetime | None]:
    """Return the start and the end of an interval, after checking them.

    Args:
        begin: The start, in any form of a point in time.
        end: The end, in any form of a point in time.
        now: A function that returns the time from which a duration is subtracted.

    Raises:
        InvalidValue: An argument is not a time or has no time zone, or the end is before the start.
    """
    first = None if begin is None else instant("begin", begin, now)
    last = None if end is None else instant("end", end, now)
    if first is not None and last is not None and last < first:
        raise InvalidValue(f"end={last} is before begin={first}; pass them in order")
    return first, last


def just_after(instant: datetime) -> datetime:
    """Return the first full millisecond after a time."""
    return up_to_millisecond(instant.astimezone(UTC) + timedelta(microseconds=1))


def up_to_millisecond(instant: datetime) -> datetime:
    """Round a time up to a full millisecond. The same events are before it, as they have full milliseconds."""
    rounded = instant.astimezone(UTC)
    rounded = rounded.replace(microsecond=rounded.microsecond // 1000 * 1000)
    return rounded if rounded >= instant else rounded + MILLISECOND
