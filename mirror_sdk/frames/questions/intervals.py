"""Intervals of time in which nothing is known of a device: a gap, or the device's own silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from mirror_sdk.frames.questions.rows import DOWN, GAP, NEVER, NO_TIME, UP, VALUE, Flags, Ints, Rows, order_by
from mirror_sdk.tables.history import HISTORY_EVENTS

REASONS = ("gap", "deregistration", "expired", "silent")
"""Why nothing is known."""

_SILENT = REASONS.index("silent")


class Intervals(NamedTuple):
    """Intervals from ``begin`` up to ``end``, which is ``NEVER`` where no end of it was seen, in order of both.

    ``device`` is -1 where it is of all devices, ``reason`` one of ``REASONS``, ``order`` that of the row that told its
    end: what came behind that has a larger one.
    """

    device: Ints
    begin: Ints
    end: Ints
    reason: Ints
    order: Ints

    def first_from(self, device: Ints, at: Ints) -> Ints:
        """When the first interval of a device, or of all, begins at an instant or behind it; ``NEVER`` for none."""
        first = np.full(len(at), NEVER)
        for place, is_of in self._places(device, at):
            found = np.minimum(place, len(self.device) - 1)
            is_found = (place < len(self.device)) & is_of(self.device[found])
            first = np.where(is_found, np.minimum(first, self.begin[found]), first)
        return first

    def are_behind(self, device: Ints, at: Ints, order: Ints) -> Flags:
        """Which instants lie in no interval of a device or of all, and are of what came behind all until then."""
        behind = np.ones(len(at), dtype=bool)
        end, last = _greatest_until(self.device, self.end), _greatest_until(self.device, self.order)
        # What begins at the instant, too: the first millisecond behind it.
        for place, is_of in self._places(device, at + 1):
            found = np.maximum(place - 1, 0)
            is_found = (place > 0) & is_of(self.device[found])
            behind &= ~is_found | ((end[found] <= at) & (last[found] < order))
        return behind

    def _places(self, device: Ints, at: Ints) -> Iterator[tuple[Ints, Callable[[Ints], Flags]]]:
        """Of all devices and of the device, where the first interval stands that begins at an instant or behind it.

        Beside it what tells whether an interval is of these.
        """
        # Ranks in the place of instants, so that a device and an instant are one number.
        ranked = np.unique(self.begin)
        keys = (self.device + 1) * (len(ranked) + 1) + np.searchsorted(ranked, self.begin)
        rank = np.searchsorted(ranked, at) if len(ranked) else np.zeros(len(at), dtype=np.int64)
        for whom, is_there in ((-1, (self.device < 0).any()), (device, (self.device >= 0).any())):
            if is_there:
                yield np.searchsorted(keys, (whom + 1) * (len(ranked) + 1) + rank), partial(np.equal, whom)


def intervals_of(rows: Rows, silence_limit: int | None) -> Intervals:
    """All intervals of a table in which something is not known; an empty one is none.

    Args:
        rows: The rows.
        silence_limit: How long a device may be silent, in milliseconds; a longer silence is an interval behind that.
    """
    parts = [_gaps(rows), _absences(rows)]
    if silence_limit is not None:
        parts.append(_silences(rows, silence_limit))
    found = Intervals(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    places = np.lexsort((found.end, found.begin, found.device))
    places = places[found.end[places] > found.begin[places]]
    return Intervals(*(column[places] for column in found))


def signs_of_life(rows: Rows) -> tuple[Ints, Ints]:
    """Which devices were heard, and when: at the times that they told, and when that came to the service."""
    is_sign = np.isin(rows.what, (VALUE, *UP)) & (rows.device >= 0)
    # Only a history has the receipt by the service's clock; where that is the device's time, one of the two is enough.
    is_later = is_sign & (rows.came == rows.received) & (rows.came != rows.at) & (rows.came > NO_TIME)
    if not is_later.any():
        return (rows.device, rows.at) if is_sign.all() else (rows.device[is_sign], rows.at[is_sign])
    device = np.concatenate([rows.device[is_sign], rows.device[is_later]])
    return device, np.concatenate([rows.at[is_sign], rows.came[is_later]])


def _gaps(rows: Rows) -> Intervals:
    gaps = rows.take(rows.what == GAP)
    return Intervals(gaps.device, gaps.at, gaps.until, np.full(len(gaps), REASONS.index("gap")), gaps.order)


def _absences(rows: Rows) -> Intervals:
    """From each deregistration and end of a registration until the next registration."""
    seen = rows.take(np.isin(rows.what, (*UP, *DOWN)) & (rows.device >= 0))
    seen = seen.take(order_by(seen.device, seen.at, seen.order))
    is_up = np.isin(seen.what, UP)
    # The first place of a registration from each place on.
    places = np.where(is_up, np.arange(len(seen)), len(seen))
    following = np.minimum.accumulate(places[::-1])[::-1] if len(seen) else places
    found = np.minimum(following, len(seen) - 1)
    is_found = (following < len(seen)) & (seen.device[found] == seen.device)
    end = np.where(is_found, seen.at[found], NEVER)
    reason = np.array([REASONS.index(word) if word in REASONS else 0 for word in HISTORY_EVENTS])[seen.what]
    order = np.where(is_found, seen.order[found], seen.order)
    return Intervals(seen.device[~is_up], seen.at[~is_up], end[~is_up], reason[~is_up], order[~is_up])


def _silences(rows: Rows, limit: int) -> Intervals:
    """Where a device was not heard for longer than the limit, from the end of that on until it was heard again."""
    device, at = signs_of_life(rows)
    order = order_by(device, at)
    device, at = device[order], at[order]
    is_last = np.append(device[1:] != device[:-1], True)[: len(at)]
    end = np.where(is_last, NEVER, np.append(at[1:], NEVER)[: len(at)])
    is_long = end - at > limit
    count = is_long.sum()
    # What ends it may come at once with others, in any order: the times alone tell what is behind it.
    reason, came = np.full(count, _SILENT), np.full(count, NO_TIME)
    return Intervals(device[is_long], at[is_long] + limit, end[is_long], reason, came)


def _greatest_until(device: Ints, values: Ints) -> Ints:
    """The greatest of the values of a device up to each place; the devices stand in order."""
    ranked, rank = np.unique(values, return_inverse=True)
    width = max(len(ranked), 1)
    # A device behind has greater numbers, whatever its values.
    greatest: Ints = ranked[np.maximum.accumulate(device * width + rank) % width]
    return greatest
