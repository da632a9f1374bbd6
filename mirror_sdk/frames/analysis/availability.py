"""The availability of devices, and the intervals in which their values are unknown."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
import pyarrow as pa

from mirror_sdk.arrow_tables.columns import CATEGORY, INSTANT, TableColumn, Words
from mirror_sdk.frames.analysis.durations import share_of, totals
from mirror_sdk.frames.analysis.history_rows import NEVER, NO_TIME, Ints, following, is_end, is_start, order_by
from mirror_sdk.frames.analysis.intervals import REASONS, contacts
from mirror_sdk.frames.analysis.result_columns import DEVICE_COLUMNS
from mirror_sdk.frames.analysis.timeline import Timeline

Presence: TypeAlias = Literal["available", "absent", "unknown"]
PRESENCES: tuple[Presence, ...] = get_args(Presence)
_AVAILABLE, _ABSENT, _UNKNOWN = range(3)

GAPS_COLUMNS = (
    TableColumn("device_id", CATEGORY, "the device; NA for an interval that affects all devices"),
    DEVICE_COLUMNS[1],
    TableColumn("reason", Words(REASONS), "gap, deregistration, expired or silent"),
    TableColumn("begin", INSTANT, "when the interval begins"),
    TableColumn("end", INSTANT, "when the interval ends; NA if no end is known"),
    TableColumn(
        "duration", pa.duration("ms"), "length of the interval; without a known end, up to the end of the table"
    ),
)
"""The columns of the table of unknown intervals."""

AVAILABILITY_COLUMNS = (
    *DEVICE_COLUMNS,
    TableColumn("available", pa.duration("ms"), "how long the device was available"),
    TableColumn("absent", pa.duration("ms"), "how long the device was absent"),
    TableColumn("unknown", pa.duration("ms"), "how long it is unknown whether the device was present"),
    TableColumn(
        "availability",
        pa.float64(),
        "share of the known time in which the device was available, 0 to 1; NA if no time is known",
    ),
    TableColumn("absences", pa.int64(), "the number of absences"),
    TableColumn("longest_absence", pa.duration("ms"), "the length of the longest absence"),
    TableColumn(
        "last_seen_at", INSTANT, "when the device last sent a value, a registration or an update; NA if it never did"
    ),
)
"""The columns of the availability table, which has one row per device."""

PRESENCE_COLUMNS = (
    *DEVICE_COLUMNS,
    TableColumn("presence", Words(PRESENCES), "available, absent or unknown"),
    TableColumn("begin", INSTANT, "when the interval begins"),
    TableColumn("end", INSTANT, "when the interval ends"),
    TableColumn("duration", pa.duration("ms"), "length of the interval"),
)
"""The columns of the table of intervals in which a device was available, absent or unknown."""


def gaps(timeline: Timeline) -> pd.DataFrame:
    """List the unknown intervals; see :meth:`mirror_sdk.frames.MirrorAccessor.gaps`."""
    found = timeline.intervals
    found = found.take((found.begin < timeline.end) & (found.end > timeline.begin))
    visible_end = np.maximum(np.where(found.end == NEVER, timeline.known_until, found.end), found.begin)
    table = timeline.table(
        GAPS_COLUMNS,
        device=found.device,
        reason=found.reason,
        begin=found.begin,
        end=found.end,
        duration=visible_end - found.begin,
    )
    return timeline.to_frame(table)


def availability(timeline: Timeline, state: pd.DataFrame | None, *, per_interval: bool) -> pd.DataFrame:
    """Measure the availability of devices; see :meth:`mirror_sdk.frames.MirrorAccessor.availability`."""
    devices = np.unique(timeline.rows.device[timeline.rows.device >= 0])
    if state is not None:
        # Include devices that have no rows.
        named = pd.Index(state["device_id"].astype(object).dropna().unique())
        devices = np.union1d(devices, timeline.rows.devices.get_indexer(named))
    device, begin, end, presence = _intervals(timeline, devices)
    if not per_interval:
        return timeline.to_frame(_by_device(timeline, devices, device, end - begin, presence))
    table = timeline.table(
        PRESENCE_COLUMNS, device=devices[device], presence=presence, begin=begin, end=end, duration=end - begin
    )
    return timeline.to_frame(table)


def _intervals(timeline: Timeline, devices: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Divide the period into intervals in which a device is available, absent or unknown.

    The result has the device index, the start, the end and the presence (one of the three) of each interval.
    """
    device, at, absent, unknown = _changes(timeline, devices)
    order = order_by(device, at)
    device, at = device[order], at[order]
    # Overlapping intervals count once, because the sum of each device returns to 0 only after its last change.
    absent, unknown = np.cumsum(absent[order]), np.cumsum(unknown[order])
    presence = np.where(unknown > 0, _UNKNOWN, np.where(absent > 0, _ABSENT, _AVAILABLE))
    end = following(at)
    is_interval = ~is_end(device) & (end > at)
    device, at, end, presence = (column[is_interval] for column in (device, at, end, presence))
    # Merge adjacent intervals with the same presence, such as an absence during which a silence begins.
    first, last = is_start(device, presence), is_end(device, presence)
    return device[first], at[first], end[last], presence[first]


def _changes(timeline: Timeline, devices: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Return the changes of state: the device index, the time, and by how much the absent and unknown counts change."""
    numbers = np.arange(len(devices))
    found = timeline.intervals
    is_all = found.device < 0
    every, shared = np.repeat(numbers, is_all.sum()), np.tile(np.flatnonzero(is_all), len(numbers))
    own = np.flatnonzero(~is_all)
    found = found.take(np.append(shared, own))
    owner = np.append(every, np.searchsorted(devices, timeline.intervals.device[own]))
    begin, known_until, end = (
        np.full(len(numbers), one)
        for one in (timeline.begin, np.clip(timeline.known_until, timeline.begin, timeline.end), timeline.end)
    )
    # A device is unknown before its first row and after the end of the table.
    device = np.concatenate([owner, owner, *[numbers] * 4])
    at = np.concatenate([found.begin, found.end, begin, _first_rows(timeline, devices), known_until, end])
    is_unknown = (found.reason == REASONS.index("gap")).astype(np.int64)
    unknown = np.concatenate([is_unknown, -is_unknown, np.repeat([1, -1, 1, -1], len(numbers))])
    absent = np.concatenate([1 - is_unknown, is_unknown - 1, np.zeros(4 * len(numbers), dtype=np.int64)])
    return device, np.clip(at, timeline.begin, timeline.end), absent, unknown


def _first_rows(timeline: Timeline, devices: Ints) -> Ints:
    # The last element is for rows without a device.
    first = np.full(len(timeline.rows.devices) + 1, NEVER)
    np.minimum.at(first, timeline.rows.device, timeline.rows.at)
    return first[devices]


def _by_device(timeline: Timeline, devices: Ints, device: Ints, length: Ints, presence: Ints) -> pa.Table:
    (available, *_), (absent, absences, longest), (unknown, *_) = (
        totals(device[presence == one], length[presence == one], len(devices)) for one in range(len(PRESENCES))
    )
    return timeline.table(
        AVAILABILITY_COLUMNS,
        device=devices,
        available=available,
        absent=absent,
        unknown=unknown,
        availability=share_of(available, available + absent),
        absences=absences,
        longest_absence=longest,
        last_seen_at=_last_contacts(timeline, devices),
    )


def _last_contacts(timeline: Timeline, devices: Ints) -> Ints:
    """Return the time of the last contact with each device before the end, or ``NO_TIME`` if there was no contact."""
    device, at = contacts(timeline.rows)
    is_before = at < timeline.end
    last = np.full(len(timeline.rows.devices), NO_TIME)
    np.maximum.at(last, device[is_before], at[is_before])
    return last[devices]
