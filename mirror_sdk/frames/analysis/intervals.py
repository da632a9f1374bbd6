"""Intervals in which the values of a device are unknown: gaps, absences and silences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mirror_sdk.arrow_tables.history import HISTORY_EVENTS
from mirror_sdk.frames.analysis.history_rows import (
    DOWN,
    GAP,
    NEVER,
    NO_TIME,
    UP,
    VALUE,
    Flags,
    Ints,
    Rows,
    following,
    is_end,
    order_by,
)

REASONS = ("gap", "deregistration", "expired", "silent")
"""The reasons why the values of a device are unknown during an interval."""

_SILENT = REASONS.index("silent")


class Intervals(NamedTuple):
    """Intervals from ``begin`` to ``end``, sorted by both.

    ``end`` is ``NEVER`` if it is unknown. ``device`` is -1 for an interval that affects all devices, and ``reason`` is
    an index into ``REASONS``. Rows that arrived after the end of an interval have a larger ``order``.
    """

    device: Ints
    begin: Ints
    end: Ints
    reason: Ints
    order: Ints

    def take(self, positions: Ints | Flags) -> Intervals:
        """Select intervals."""
        return Intervals(*(column[positions] for column in self))

    def first_from(self, device: Ints, at: Ints) -> Ints:
        """Return the start of the first interval at or after each time.

        Only intervals that affect the device itself or all devices count. The result is ``NEVER`` if there is no such
        interval.

        Args:
            device: The device of each instant.
            at: The times.
        """
        first = np.full(len(at), NEVER)
        for position, owner in self._positions(device, at):
            found = np.minimum(position, len(self.device) - 1)
            is_found = (position < len(self.device)) & (self.device[found] == owner)
            first = np.where(is_found, np.minimum(first, self.begin[found]), first)
        return first

    def are_over(self, device: Ints, at: Ints, order: Ints) -> Flags:
        """Return which rows have a time outside all intervals.

        They must also have arrived after the intervals that had started.
        """
        are_over = np.ones(len(at), dtype=bool)
        end, last = _greatest_until(self.device, self.end), _greatest_until(self.device, self.order)
        # Search from the next millisecond, so that intervals that begin at the time itself are included.
        for position, owner in self._positions(device, at + 1):
            found = np.maximum(position - 1, 0)
            is_found = (position > 0) & (self.device[found] == owner)
            are_over &= ~is_found | ((end[found] <= at) & (last[found] < order))
        return are_over

    def _positions(self, device: Ints, at: Ints) -> Iterator[tuple[Ints, Ints | int]]:
        """Find the first interval that begins at or after each time.

        Yield first the intervals of all devices, then those of the device itself.
        """
        # Ranks replace times, so that the device and the time fit into one number.
        ranked = np.unique(self.begin)
        keys = (self.device + 1) * (len(ranked) + 1) + np.searchsorted(ranked, self.begin)
        rank = np.searchsorted(ranked, at)
        for owner, is_there in ((-1, (self.device < 0).any()), (device, (self.device >= 0).any())):
            if is_there:
                yield np.searchsorted(keys, (owner + 1) * (len(ranked) + 1) + rank), owner


def intervals_of(rows: Rows, silence_limit: int | None) -> Intervals:
    """Return all intervals of a table in which values are unknown, except empty intervals.

    Args:
        rows: The rows.
        silence_limit: The number of milliseconds without contact after which the values of a device are unknown.
            ``None`` means no limit.
    """
    found_by_kind = [_gaps(rows), _absences(rows)]
    if silence_limit is not None:
        found_by_kind.append(_silences(rows, silence_limit))
    found = Intervals(*(np.concatenate(columns) for columns in zip(*found_by_kind, strict=True)))
    positions = np.lexsort((found.end, found.begin, found.device))
    return found.take(positions[found.end[positions] > found.begin[positions]])


def contacts(rows: Rows) -> tuple[Ints, Ints]:
    """Return the devices and times of all contacts: by the device's own time, and by the time of receipt."""
    is_contact = np.isin(rows.event, (VALUE, *UP)) & (rows.device >= 0)
    # Only a history has the time of receipt by the clock of the service. It adds nothing if it equals the device's
    # time.
    is_later = is_contact & (rows.arrived == rows.received) & (rows.arrived != rows.at) & (rows.arrived > NO_TIME)
    device = np.concatenate([rows.device[is_contact], rows.device[is_later]])
    return device, np.concatenate([rows.at[is_contact], rows.arrived[is_later]])


def _gaps(rows: Rows) -> Intervals:
    gaps = rows.take(rows.event == GAP)
    return Intervals(gaps.device, gaps.at, gaps.until, np.full(len(gaps), REASONS.index("gap")), gaps.order)


def _absences(rows: Rows) -> Intervals:
    """Return the intervals from each deregistration or expiry to the next registration."""
    events = rows.take(np.isin(rows.event, (*UP, *DOWN)) & (rows.device >= 0))
    events = events.take(order_by(events.device, events.at, events.order))
    is_up = np.isin(events.event, UP)
    down, up = np.flatnonzero(~is_up), np.flatnonzero(is_up)
    # The added element stands for a missing registration.
    up = np.append(up, -1)[np.searchsorted(up, down)]
    is_found = (up >= 0) & (events.device[up] == events.device[down])
    end = np.where(is_found, events.at[up], NEVER)
    reason = np.array([REASONS.index(word) if word in REASONS else 0 for word in HISTORY_EVENTS])[events.event[down]]
    order = events.order[np.where(is_found, up, down)]
    return Intervals(events.device[down], events.at[down], end, reason, order)


def _silences(rows: Rows, limit: int) -> Intervals:
    """Return the intervals in which a device has been silent for longer than the limit.

    An interval ends at the next contact.
    """
    device, at = contacts(rows)
    order = order_by(device, at)
    device, at = device[order], at[order]
    end = np.where(is_end(device), NEVER, following(at))
    is_long = end - at > limit
    count = is_long.sum()
    # The contact that ends a silence may arrive in any order with others. So only times decide which rows are later.
    reason, order = np.full(count, _SILENT), np.full(count, NO_TIME)
    return Intervals(device[is_long], at[is_long] + limit, end[is_long], reason, order)


def _greatest_until(device: Ints, values: Ints) -> Ints:
    """Return the running maximum per device. The rows must be sorted by device."""
    ranked, rank = np.unique(values, return_inverse=True)
    width = max(len(ranked), 1)
    # All numbers of a device are larger than those of earlier devices.
    greatest: Ints = ranked[np.maximum.accumulate(device * width + rank) % width]
    return greatest
