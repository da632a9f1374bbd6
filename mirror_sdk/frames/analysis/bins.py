"""Time bins that follow the local clock of a time zone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.analysis.history_rows import Ints

_DAY = 86_400_000
_MONDAY = 4 * _DAY
"""Monday, January 5, 1970, from which bins of several days are counted."""
_MOST = 50_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Consecutive bins. Each bin extends from one edge to the next one."""

    edges: Ints

    def __len__(self) -> int:
        return len(self.edges) - 1

    @property
    def begins(self) -> Ints:
        """The start of each bin."""
        return self.edges[:-1]

    @property
    def lengths(self) -> Ints:
        """The length of each bin."""
        return self.edges[1:] - self.edges[:-1]

    def index(self, at: Ints) -> Ints:
        """Return the index of the bin of each time.

        The index is -1 before the first bin, and the number of bins after the last bin.
        """
        lengths = self.lengths
        # In the usual case, without clock changes, a division is faster than a search.
        if len(lengths) and (lengths == lengths[0]).all():
            positions: Ints = np.minimum(np.maximum((at - self.edges[0]) // lengths[0], -1), len(lengths))
            return positions
        return np.searchsorted(self.edges, at, side="right") - 1


def bins_of(span: int, begin: int, end: int, tz: str) -> Bins:
    """Return the bins that overlap the period from ``begin`` to ``end``.

    A bin begins when the local clock first shows a multiple of the span. If a day is a whole number of spans, multiples
    are counted from midnight, else from Monday, January 5, 1970. If the clock skips a multiple, the bin begins at the
    change of the clock. If the clock is put back by a whole bin or more, the bins of that time occur twice. If it is
    put back by less, one bin is longer.

    Args:
        span: The length of a bin, in milliseconds.
        begin: The start of the period, in milliseconds.
        end: The end of the period in milliseconds, exclusive.
        tz: The name of the time zone.

    Raises:
        InvalidValue: The zone does not exist, or there would be too many bins.
    """
    # Checked first, because the edges of too many bins would not fit into memory.
    check_count((end - begin) // span)
    # The first bin may begin before the period and the last bin may end after it. No bin is twice as long as the span.
    edges = _edges(span, begin - 2 * span, end + 2 * span, tz)
    first_edge = np.searchsorted(edges, begin, side="right") - 1
    last_edge = np.searchsorted(edges, max(end, begin + 1), side="left")
    return Bins(edges[first_edge : last_edge + 1])


def _edges(span: int, begin: int, end: int, tz: str) -> Ints:
    """Return the times at which bins begin in a period."""
    edges: list[Ints] = []
    instants, offsets = _offsets(tz, begin, end)
    for index, (at, until, offset) in enumerate(zip(instants, [*instants[1:], end], offsets, strict=True)):
        before, after = at + offsets[max(index - 1, 0)], at + offset
        local = _multiples(span, after, until + offset)
        # The clock skips a multiple, so the bin begins at the change.
        if before < after and len(_multiples(span, before, after)):
            edges.append(np.array([at]))
            local = local[local > after]
        elif before - after < span:
            # The clock has already shown earlier multiples.
            local = local[local >= before]
        edges.append(local - offset)
    return np.concatenate(edges)


def _multiples(span: int, begin: int, end: int) -> Ints:
    """Return the multiples of a span that a clock shows in a period."""
    # Rounded up to the first multiple at or after each time.
    first, last = (-((_MONDAY - local) // span) for local in (begin, end))
    return np.arange(first, last) * span + _MONDAY


def check_count(count: int) -> None:
    """Check that a table would not have too many rows.

    Raises:
        InvalidValue: There would be more than 50 million rows.
    """
    if count > _MOST:
        raise InvalidValue(
            f"the table would have {count:,} rows; the limit is {_MOST:,}. Pass a longer bin or fewer paths=[...]. If"
            " the clock of a device is wrong by years, pass begin= and end="
        )


def _offsets(tz: str, begin: int, end: int) -> tuple[list[int], list[int]]:
    """Return the times at which the UTC offset of a time zone changes, and the offset that applies from each of them.

    Raises:
        InvalidValue: The zone does not exist, or a time is outside the years 1 to 9999.
    """
    if tz == "UTC":
        return [begin], [0]
    try:
        zone = pd.Timestamp(0, tz=tz).tz
    except (KeyError, IndexError, TypeError, ValueError, OSError) as exc:
        raise InvalidValue(f"tz={tz!r} is not a time zone; write one like 'Europe/Berlin'") from exc

    def ahead(at: Ints) -> Ints:
        local = pd.DatetimeIndex(at.view("datetime64[ms]"), tz="UTC").tz_convert(zone).tz_localize(None)
        offsets: Ints = local.asi8 - at
        return offsets

    with _in_years_of_zones():
        # No time zone has ever changed twice within three days.
        # So there is at most one change between two of these times. Bisection finds it to the millisecond.
        days = np.append(np.arange(begin, end, 3 * _DAY), end)
        index = np.flatnonzero(np.diff(ahead(days)))
        low, high = days[index], days[index + 1]
        before = ahead(low)
        while (high - low > 1).any():
            middle = (low + high) // 2
            is_before = ahead(middle) == before
            low, high = np.where(is_before, middle, low), np.where(is_before, high, middle)
        instants = np.append(begin, high)
        return instants.tolist(), ahead(instants).tolist()


@contextmanager
def _in_years_of_zones() -> Iterator[None]:
    """Convert the errors that the time zone functions raise outside the years 1 to 9999 to ``InvalidValue``."""
    try:
        yield
    except (NotImplementedError, OverflowError) as exc:
        raise InvalidValue(
            f"a time is outside the range that time zones support ({exc}), probably because the clock of a device is"
            " wrong; pass begin= and end="
        ) from exc
