"""When devices were there: registered, and heard from; and the intervals in which nothing is known."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
import pyarrow as pa

from mirror_sdk.frames.questions.intervals import REASONS, Intervals, signs_of_life
from mirror_sdk.frames.questions.rows import NEVER, NO_TIME, Ints, names_of, order_by, spans_of, times_of, words_of
from mirror_sdk.frames.questions.steps import Timeline
from mirror_sdk.tables.columns import (
    CATEGORY,
    INSTANT,
    TableColumn,
    Words,
    fixed_category,
    fixed_category_array,
    schema_of,
)

Presence: TypeAlias = Literal["available", "absent", "unknown"]
PRESENCES: tuple[Presence, ...] = get_args(Presence)
_AVAILABLE, _ABSENT, _UNKNOWN = range(3)
_SPAN = pa.duration("ms")

GAPS_COLUMNS = (
    TableColumn("device_id", CATEGORY, "the device; NA for all of them"),
    TableColumn("endpoint_name", CATEGORY, "its endpoint name; NA where that is not known"),
    TableColumn("reason", Words(REASONS), "gap, deregistration, expired or silent"),
    TableColumn("begin", INSTANT, "when it begins"),
    TableColumn("end", INSTANT, "when it ends; NA where no end was seen"),
    TableColumn("duration", pa.duration("ms"), "how long it is, or was when the table ends"),
)
"""The intervals in which nothing is known."""

GAPS_SCHEMA = schema_of(GAPS_COLUMNS)

AVAILABILITY_SCHEMA = pa.schema(
    [
        pa.field("device_id", CATEGORY),
        pa.field("endpoint_name", CATEGORY),
        pa.field("available", _SPAN),
        pa.field("absent", _SPAN),
        pa.field("unknown", _SPAN),
        pa.field("availability", pa.float64()),
        pa.field("absences", pa.int64()),
        pa.field("longest_absence", _SPAN),
        pa.field("last_heard_at", INSTANT),
    ]
)
"""How long each device was there."""

EACH_PRESENCE_SCHEMA = pa.schema(
    [
        pa.field("device_id", CATEGORY),
        pa.field("endpoint_name", CATEGORY),
        fixed_category("presence", PRESENCES),
        pa.field("begin", INSTANT),
        pa.field("end", INSTANT),
        pa.field("duration", _SPAN),
    ]
)
"""Each interval in which a device was there, was not, or nobody knows."""


def gaps(told: Timeline) -> pd.DataFrame:
    """What is not known; see :meth:`mirror_sdk.frames.MirrorAccessor.gaps`."""
    found = told.intervals
    is_within = (found.begin < told.end) & (found.end > told.begin)
    found = Intervals(*(column[is_within] for column in found))
    seen_until = np.maximum(np.where(found.end == NEVER, told.known_until, found.end), found.begin)
    reason = fixed_category_array(pa.array(found.reason.astype(np.int8)), GAPS_SCHEMA.field("reason"))
    columns = [
        words_of(found.device, told.rows.devices),
        names_of(found.device, told.names),
        reason,
        times_of(found.begin),
        times_of(found.end),
        spans_of(seen_until - found.begin),
    ]
    return told.to_frame(pa.Table.from_arrays(columns, schema=GAPS_SCHEMA))


def availability(told: Timeline, state: pd.DataFrame | None, *, each: bool) -> pd.DataFrame:
    """How long devices were there; see :meth:`mirror_sdk.frames.MirrorAccessor.availability`."""
    devices = np.unique(told.rows.device[told.rows.device >= 0])
    if state is not None:
        # Also those of which it says nothing.
        named = pd.Index(state["device_id"].astype(object).dropna().unique())
        devices = np.union1d(devices, told.rows.devices.get_indexer(named))
    device, begin, end, presence = _intervals(told, devices)
    if not each:
        return told.to_frame(_by_device(told, devices, device, end - begin, presence))
    columns = [
        words_of(devices[device], told.rows.devices),
        names_of(devices[device], told.names),
        fixed_category_array(pa.array(presence.astype(np.int8)), EACH_PRESENCE_SCHEMA.field("presence")),
        times_of(begin),
        times_of(end),
        spans_of(end - begin),
    ]
    return told.to_frame(pa.Table.from_arrays(columns, schema=EACH_PRESENCE_SCHEMA))


def _intervals(told: Timeline, devices: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The time that is asked for, of each device, cut where it was there, or not: device, begin, end and which."""
    device, at, absent, unknown = _changes(told, devices)
    order = order_by(device, at)
    device, at = device[order], at[order]
    # What overlaps is counted once; each device is back at 0 behind its last change.
    absent, unknown = np.cumsum(absent[order]), np.cumsum(unknown[order])
    presence = np.where(unknown > 0, _UNKNOWN, np.where(absent > 0, _ABSENT, _AVAILABLE))
    is_last = np.append(device[1:] != device[:-1], True)[: len(device)]
    end = np.append(at[1:], 0)[: len(at)]
    is_kept = ~is_last & (np.append(at[1:], 0)[: len(at)] > at)
    device, begin, end, presence = (column[is_kept] for column in (device, at, end, presence))
    is_other = np.append(True, (device[1:] != device[:-1]) | (presence[1:] != presence[:-1]))[: len(device)]
    is_end = np.append(is_other[1:], True)[: len(device)]
    return device[is_other], begin[is_other], end[is_end], presence[is_other]


def _changes(told: Timeline, devices: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Where something begins or ends, of each device: its number, when, and by how much it is absent or unknown."""
    numbers = np.arange(len(devices))
    found = told.intervals
    is_gap, is_all = found.reason == REASONS.index("gap"), found.device < 0
    every, gap = np.repeat(numbers, is_all.sum()), np.tile(np.flatnonzero(is_all), len(numbers))
    own = np.flatnonzero(~is_all)
    place = np.append(gap, own)
    one = np.append(every, np.searchsorted(devices, found.device[own]))
    begin, end = found.begin[place], found.end[place]
    ones, none = np.ones(len(numbers), dtype=np.int64), np.zeros(len(numbers), dtype=np.int64)
    first, last = np.full(len(numbers), told.begin), np.full(len(numbers), told.end)
    behind = np.minimum(np.maximum(told.known_until, told.begin), told.end)
    # Nothing is known before the first row of a device, nor behind what is told.
    device = np.concatenate([one, one, *[numbers] * 4])
    at = np.concatenate([begin, end, first, _first_rows(told, devices), np.full(len(numbers), behind), last])
    is_unknown = is_gap[place].astype(np.int64)
    unknown = np.concatenate([is_unknown, -is_unknown, ones, -ones, ones, -ones])
    absent = np.concatenate([1 - is_unknown, is_unknown - 1, *[none] * 4])
    return device, np.clip(at, told.begin, told.end), absent, unknown


def _first_rows(told: Timeline, devices: Ints) -> Ints:
    """When each device is first told of."""
    # One place more, for what is of no device.
    first = np.full(len(told.rows.devices) + 1, NEVER)
    np.minimum.at(first, told.rows.device, told.rows.at)
    return first[devices]


def _by_device(told: Timeline, devices: Ints, device: Ints, length: Ints, presence: Ints) -> pa.Table:
    sums = np.zeros((len(PRESENCES), len(devices)), dtype=np.int64)
    np.add.at(sums, (presence, device), length)
    available, absent, unknown = sums
    is_absent = presence == _ABSENT
    longest = np.zeros(len(devices), dtype=np.int64)
    np.maximum.at(longest, device[is_absent], length[is_absent])
    known = available + absent
    share = np.divide(available, known, out=np.full(len(devices), np.nan), where=known > 0)
    columns = [
        words_of(devices, told.rows.devices),
        names_of(devices, told.names),
        *map(spans_of, (available, absent, unknown)),
        pa.array(share, mask=known == 0),
        pa.array(np.bincount(device[is_absent], minlength=len(devices))),
        spans_of(longest),
        times_of(_last_heard(told, devices)),
    ]
    return pa.Table.from_arrays(columns, schema=AVAILABILITY_SCHEMA)


def _last_heard(told: Timeline, devices: Ints) -> Ints:
    """When each device was heard last before the end; ``NO_TIME`` for not at all."""
    device, at = signs_of_life(told.rows)
    is_before = at < told.end
    last = np.full(len(told.rows.devices), NO_TIME)
    np.maximum.at(last, device[is_before], at[is_before])
    return last[devices]
