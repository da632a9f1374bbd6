"""The requests for the history of a service."""

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
        begin: From this instant on; ``None`` for everything that is stored.
        end: Before this instant; ``None`` means now.
        limit: The maximum number of rows, counted from the first; ``None`` for all.
        newest_first: Whether the order is reversed.
    """

    begin: datetime | None = None
    end: datetime | None = None
    limit: int | None = None
    newest_first: bool = False

    def requests(self) -> Iterator[HistoryRequest]:
        """Yield the same request for as many devices at a time as fit into a URL, in the order of their ids."""
        if (ids := self.selection.device_ids) is None:
            yield self
            return
        selection = replace(self.selection, filters=dict(self.selection.filters))
        # A URL can have this condition once, so both lists of devices become one.
        among = selection.filters.pop("id__in", None)  # type: ignore[attr-defined] # it is the dict of above
        selected = sorted(set(ids) if among is None else set(ids) & set(among.split(",")), reverse=self.newest_first)
        for first in range(0, len(selected), MAX_IDS_PER_URL):
            batch = tuple(selected[first : first + MAX_IDS_PER_URL])
            yield replace(self, selection=replace(selection, device_ids=batch))

    def operation(self, form: str, after: str | None, limit: int | None) -> Operation[None]:
        """Return the operation for a response of this media type.

        Args:
            form: The media type.
            after: The position after which it continues; ``None`` for the beginning.
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
    """Return the start and the end of an interval.

    Args:
        begin: The begin.
        end: The end.
        now: The instant from which a span counts back.

    Raises:
        InvalidValue: An argument is not a time or has no time zone, or the end is before the start.
    """
    first = None if begin is None else instant("begin", begin, now)
    last = None if end is None else instant("end", end, now)
    if first is not None and last is not None and last < first:
        raise InvalidValue(f"end={last} is before begin={first}; pass them in order")
    return first, last


def just_after(instant: datetime) -> datetime:
    """Return the first full millisecond after an instant."""
    return up_to_millisecond(instant.astimezone(UTC) + timedelta(microseconds=1))


def up_to_millisecond(instant: datetime) -> datetime:
    """Round an instant up to a full millisecond. The same events happened before both instants."""
    rounded = instant.astimezone(UTC)
    rounded = rounded.replace(microsecond=rounded.microsecond // 1000 * 1000)
    return rounded if rounded >= instant else rounded + MILLISECOND
