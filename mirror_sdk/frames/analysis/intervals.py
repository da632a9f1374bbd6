"""Intervals in which nothing is known of a device: a gap, or the device's own silence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from mirror_sdk.frames.analysis.rows import (
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
from mirror_sdk.tables.history import HISTORY_EVENTS

REASONS = ("gap", "deregistration", "expired", "silent")
"""Why nothing is known."""

_SILENT = REASONS.index("silent")


class Intervals(NamedTuple):
    """Intervals from ``begin`` up to ``end``, in order of both; ``end`` is ``NEVER`` if none is known.

    ``device`` is -1 for an interval of all devices, and ``reason`` an index into ``REASONS``. Rows that arrived after
    the end have a larger ``order``.
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
        """Return when the first interval of each device, or of all, begins at its instant or later; ``NEVER`` if none.

        Args:
            device: Device of each question.
            at: Instant of each question.
        """
        first = np.full(len(at), NEVER)
        for position, owner in self._positions(device, at):
            found = np.minimum(position, len(self.device) - 1)
            is_found = (position < len(self.device)) & (self.device[found] == owner)
            first = np.where(is_found, np.minimum(first, self.begin[found]), first)
        return first

    def are_over(self, device: Ints, at: Ints, order: Ints) -> Flags:
        """Return which instants lie in no interval and arrived after every interval that began until then."""
        are_over = np.ones(len(at), dtype=bool)
        end, last = _greatest_until(self.device, self.end), _greatest_until(self.device, self.order)
        # Include intervals that begin at the instant: look up the next millisecond.
        for position, owner in self._positions(device, at + 1):
            found = np.maximum(position - 1, 0)
            is_found = (position > 0) & (self.device[found] == owner)
            are_over &= ~is_found | ((end[found] <= at) & (last[found] < order))
        return are_over

    def _positions(self, device: Ints, at: Ints) -> Iterator[tuple[Ints, Ints | int]]:
        """Find the first interval that begins at each instant or later: of all devices, then of the device itself."""
        # Ranks replace instants, so that device and instant fit into one number.
        ranked = np.unique(self.begin)
        keys = (self.device + 1) * (len(ranked) + 1) + np.searchsorted(ranked, self.begin)
        rank = np.searchsorted(ranked, at)
        for owner, is_there in ((-1, (self.device < 0).any()), (device, (self.device >= 0).any())):
            if is_there:
                yield np.searchsorted(keys, (owner + 1) * (len(ranked) + 1) + rank), owner


def intervals_of(rows: Rows, silence_limit: int | None) -> Intervals:
    """Return all intervals of a table in which something is unknown, without empty ones.

    Args:
        rows: The rows.
        silence_limit: After how many milliseconds without contact the values of a device are unknown; ``None`` for
            never.
    """
    parts = [_gaps(rows), _absences(rows)]
    if silence_limit is not None:
        parts.append(_silences(rows, silence_limit))
    found = Intervals(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    positions = np.lexsort((found.end, found.begin, found.device))
    return found.take(positions[found.end[positions] > found.begin[positions]])


def contacts(rows: Rows) -> tuple[Ints, Ints]:
    """Return devices and times of their contacts: by the device's own time, and when the row reached the service."""
    is_contact = np.isin(rows.event, (VALUE, *UP)) & (rows.device >= 0)
    # Only a history has the receipt by the service's clock. It adds nothing where it equals the device's time.
    is_later = is_contact & (rows.arrived == rows.received) & (rows.arrived != rows.at) & (rows.arrived > NO_TIME)
    device = np.concatenate([rows.device[is_contact], rows.device[is_later]])
    return device, np.concatenate([rows.at[is_contact], rows.arrived[is_later]])


def _gaps(rows: Rows) -> Intervals:
    gaps = rows.take(rows.event == GAP)
    return Intervals(gaps.device, gaps.at, gaps.until, np.full(len(gaps), REASONS.index("gap")), gaps.order)


def _absences(rows: Rows) -> Intervals:
    """Return the intervals from each deregistration or expiry until the next registration."""
    seen = rows.take(np.isin(rows.event, (*UP, *DOWN)) & (rows.device >= 0))
    seen = seen.take(order_by(seen.device, seen.at, seen.order))
    is_up = np.isin(seen.event, UP)
    down, up = np.flatnonzero(~is_up), np.flatnonzero(is_up)
    # One more registration, of no device, for those that have none.
    up = np.append(up, -1)[np.searchsorted(up, down)]
    is_found = (up >= 0) & (seen.device[up] == seen.device[down])
    end = np.where(is_found, seen.at[up], NEVER)
    reason = np.array([REASONS.index(word) if word in REASONS else 0 for word in HISTORY_EVENTS])[seen.event[down]]
    order = seen.order[np.where(is_found, up, down)]
    return Intervals(seen.device[down], seen.at[down], end, reason, order)


def _silences(rows: Rows, limit: int) -> Intervals:
    """Return the intervals in which a device has been silent for longer than the limit, up to its next contact."""
    device, at = contacts(rows)
    order = order_by(device, at)
    device, at = device[order], at[order]
    end = np.where(is_end(device), NEVER, following(at))
    is_long = end - at > limit
    count = is_long.sum()
    # The contact that ends a silence may arrive with others in any order, so only times decide what is after it.
    reason, order = np.full(count, _SILENT), np.full(count, NO_TIME)
    return Intervals(device[is_long], at[is_long] + limit, end[is_long], reason, order)


def _greatest_until(device: Ints, values: Ints) -> Ints:
    """Return the running maximum per device; the rows are in order of devices."""
    ranked, rank = np.unique(values, return_inverse=True)
    width = max(len(ranked), 1)
    # A later device has larger numbers, whatever its values.
    greatest: Ints = ranked[np.maximum.accumulate(device * width + rank) % width]
    return greatest
