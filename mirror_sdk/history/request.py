"""What a service is asked for of its history. Source: wire.md 10."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from mirror_sdk._arguments import InstantLike, instant
from mirror_sdk._protocol.operation import Operation
from mirror_sdk._protocol.operations import nothing
from mirror_sdk.config import is_loopback
from mirror_sdk.errors import InvalidValue
from mirror_sdk.snapshot.selection import Selection
from mirror_sdk.wire import routes
from mirror_sdk.wire.history import MAX_ROWS
from mirror_sdk.wire.model import write_timestamp
from mirror_sdk.wire.snapshot import ARROW, Compression

MILLISECOND = timedelta(milliseconds=1)
"""What the service tells time in."""

_IDS_AT_A_TIME = 100
"""How many device ids fit into a URL that everything on the way takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRequest:
    """A selection and an interval of time, and where it is asked for.

    Attributes:
        selection: Which devices and resources.
        server: Address of the service.
        begin: From this instant on; ``None`` for all that is kept.
        end: Up to before this instant; ``None`` for the present.
        limit: How many rows at most, the first ones; ``None`` for all.
        newest_first: Whether all comes in the opposite order.
        compression: How an Arrow stream is compressed; ``None`` goes by whether the service is on this machine.
        max_retries: How often it may be sent again while the service is busy or out of reach; ``None`` goes by the
            client.
    """

    selection: Selection
    server: str
    begin: datetime | None = None
    end: datetime | None = None
    limit: int | None = None
    newest_first: bool = False
    compression: Compression | None = None
    max_retries: int | None = None

    def parts(self) -> Iterator[HistoryRequest]:
        """The same in requests of as many devices as a URL takes, in the order of their ids."""
        if (ids := self.selection.device_ids) is None:
            yield self
            return
        selection = replace(self.selection, filters=dict(self.selection.filters))
        among = selection.filters.pop("id__in", None)  # type: ignore[attr-defined] # it is the dict of above
        wanted = sorted(set(ids) if among is None else set(ids) & set(among.split(",")), reverse=self.newest_first)
        for first in range(0, len(wanted), _IDS_AT_A_TIME):
            some = tuple(wanted[first : first + _IDS_AT_A_TIME])
            yield replace(self, selection=replace(selection, device_ids=some))

    def operation(self, form: str, after: str | None, limit: int | None) -> Operation[None]:
        """What to send for an answer of this media type, which is to be read as it arrives.

        Args:
            form: The media type.
            after: Behind which place it goes on; ``None`` for the beginning.
            limit: How many rows at most.
        """
        told = {
            "from": None if self.begin is None else write_timestamp(up_to_millisecond(self.begin)),
            "to": None if self.end is None else write_timestamp(up_to_millisecond(self.end)),
            "limit": None if limit is None else min(limit, MAX_ROWS),
            "after": after,
            "order": "DESC" if self.newest_first else None,
        }
        headers = {"Accept": form}
        if form == ARROW:
            told["compression"] = self.compression or ("none" if is_loopback(self.server) else "lz4")
            # It is compressed in itself.
            headers["Accept-Encoding"] = "identity"
        params: dict[str, str | int | Sequence[str]] = {
            **self.selection.sent_filters,
            "path": list(self.selection.paths or ()),
            **{name: one for name, one in told.items() if one is not None},
        }
        return Operation("GET", routes.HISTORY, nothing, params=params, headers=headers, max_retries=self.max_retries)


def check_interval(
    begin: InstantLike | None, end: InstantLike | None, now: Callable[[], datetime]
) -> tuple[datetime | None, datetime | None]:
    """The instants that a caller means, in their order.

    Args:
        begin: The first one.
        end: The second one.
        now: From which instant a span counts back.

    Raises:
        InvalidValue: One is no time or naive, or the end lies before the beginning.
    """
    first = None if begin is None else instant("begin", begin, now)
    last = None if end is None else instant("end", end, now)
    if first is not None and last is not None and last < first:
        raise InvalidValue(f"end={last} lies before begin={first}; give them in their order")
    return first, last


def behind(instant: datetime) -> datetime:
    """The first whole millisecond behind an instant."""
    return up_to_millisecond(instant.astimezone(UTC) + timedelta(microseconds=1))


def up_to_millisecond(instant: datetime) -> datetime:
    """The first whole millisecond that is not before an instant: what happened before either is the same."""
    whole = instant.astimezone(UTC)
    whole = whole.replace(microsecond=whole.microsecond // 1000 * 1000)
    return whole if whole >= instant else whole + MILLISECOND
