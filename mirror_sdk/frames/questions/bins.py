"""Bins of time, as the clock of a time zone has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mirror_sdk.errors import ValueRefused
from mirror_sdk.frames.questions.rows import Ints

_DAY = 86_400_000
_MONDAY = 4 * _DAY
"""1970-01-05, from which bins of several days are counted."""
_MOST = 50_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """Bins that follow one another: each from an edge up to the next one."""

    edges: Ints

    def __len__(self) -> int:
        return len(self.edges) - 1

    @property
    def begins(self) -> Ints:
        """When each begins."""
        return self.edges[:-1]

    @property
    def lengths(self) -> Ints:
        """How long each is."""
        return self.edges[1:] - self.edges[:-1]

    def place(self, at: Ints) -> Ints:
        """In which bin an instant lies; -1 or the number of bins for what lies before or behind all."""
        lengths = self.lengths
        if len(lengths) and (lengths == lengths[0]).all():
            places: Ints = np.minimum(np.maximum((at - self.edges[0]) // lengths[0], -1), len(lengths))
            return places
        return np.searchsorted(self.edges, at, side="right") - 1


def bins_of(span: int, begin: int, end: int, tz: str) -> Bins:
    """The bins that have something of the time from ``begin`` up to ``end``.

    A bin begins whenever the clock of the zone shows a multiple of the span: since midnight where whole spans are a
    day, and since Monday, 5 January 1970, where not. A time that the clock shows twice begins two bins; one that it
    leaves out begins one when it leaves it out.

    Args:
        span: How long a bin is, in milliseconds.
        begin: From when on.
        end: Up to when.
        tz: The time zone.

    Raises:
        ValueRefused: There is no such zone, or there would be too many bins.
    """
    check_count((end - begin) // span)
    zone = _Zone(tz)
    first, last = zone.wall(begin - _DAY), zone.wall(end + _DAY)
    grid = np.arange((first - _MONDAY) // span, (last - _MONDAY) // span + 3) * span + _MONDAY
    edges = zone.instants(grid)
    first_place = np.searchsorted(edges, begin, side="right") - 1
    last_place = np.searchsorted(edges, max(end, begin + 1), side="left")
    return Bins(edges[first_place : last_place + 1])


def check_count(count: int) -> None:
    """See that a table would not have too many rows.

    Raises:
        ValueRefused: It would.
    """
    if count > _MOST:
        raise ValueRefused(
            f"these would be {count:,} rows, and {_MOST:,} are the most; give a longer bin, fewer paths=[...], or"
            " begin= and end= (a device whose clock is wrong may have told of another century)"
        )


class _Zone:
    """The clock of a zone, in milliseconds as if it were UTC."""

    def __init__(self, tz: str) -> None:
        try:
            self._tz = pd.Timestamp(0, tz=tz).tz
        except (KeyError, IndexError, TypeError, ValueError, OSError) as exc:
            raise ValueRefused(f"tz={tz!r} is no time zone ({exc}); write one like 'Europe/Berlin'") from exc
        self._is_utc = tz == "UTC"

    def wall(self, at: int) -> int:
        """What the clock shows at an instant."""
        with _in_years_of_zones():
            shown = pd.DatetimeIndex(np.array([at], dtype="datetime64[ms]"), tz="UTC").tz_convert(self._tz)
            return int(shown.tz_localize(None).asi8[0])

    def instants(self, shown: Ints) -> Ints:
        """When the clock shows these times, each time it does."""
        if self._is_utc:
            return shown
        wall = pd.DatetimeIndex(shown.view("datetime64[ms]"))
        with _in_years_of_zones():
            both = [
                wall.tz_localize(self._tz, ambiguous=np.full(len(wall), is_summer), nonexistent="shift_forward")
                for is_summer in (True, False)
            ]
        return np.unique(np.concatenate([times.as_unit("ms").asi8 for times in both]))


@contextmanager
def _in_years_of_zones() -> Iterator[None]:
    """Where a zone is asked for times: it knows those of the years 1 to 9999.

    Raises:
        ValueRefused: It does not know one.
    """
    try:
        yield
    except (NotImplementedError, OverflowError) as exc:
        raise ValueRefused(
            f"there is a time of which no zone knows ({exc}); give begin= and end= (a device whose clock is wrong may"
            " have told of another century)"
        ) from exc
