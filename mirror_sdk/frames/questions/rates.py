"""How fast counters count, also where they begin anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa

from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.questions.bins import Bins, bins_of, check_count
from mirror_sdk.frames.questions.resample import KEY, StepPieces, keys
from mirror_sdk.frames.questions.rows import NUMBER, names_of, spans_of, times_of, words_of
from mirror_sdk.frames.questions.steps import Steps, Timeline, warn_of_units
from mirror_sdk.tables.columns import CATEGORY, INSTANT

RATES_SCHEMA = pa.schema(
    [
        pa.field("device_id", CATEGORY),
        pa.field("endpoint_name", CATEGORY),
        pa.field("path", CATEGORY),
        pa.field("begin", INSTANT),
        pa.field("end", INSTANT),
        pa.field("duration", pa.duration("ms")),
        pa.field("increase", pa.float64()),
        pa.field("rate", pa.float64()),
        pa.field("reset", pa.bool_()),
    ]
)
"""By how much counters rose from each value to the next."""

BINNED_RATES_SCHEMA = pa.schema(
    [
        *KEY,
        pa.field("increase", pa.float64()),
        pa.field("rate", pa.float64()),
        pa.field("resets", pa.int64()),
        pa.field("covered", pa.float64()),
    ]
)
"""By how much counters rose in each bin."""


def rates(told: Timeline, *, per: int, span: int | None) -> pd.DataFrame:
    """How fast counters count; see :meth:`mirror_sdk.frames.MirrorAccessor.rates`.

    Args:
        told: What a table tells.
        per: Of how many milliseconds a rate is.
        span: How long a bin is; ``None`` for a row for each two values.

    Raises:
        InvalidValue: Some values are no numbers, or there would be too many rows.
    """
    warn_of_units(told)
    # What is larger than the largest number is infinite.
    with np.errstate(over="ignore"):
        rises = _rises(told)
        return told.to_frame(_each(told, rises, per) if span is None else _binned(told, rises, per, span))


def _rises(told: Timeline) -> Steps:
    """From each value to the next one that is known to follow it.

    These are steps whose ``number`` is the rise a millisecond, and whose ``is_counted`` tells whether the counter began
    anew in it.
    """
    steps = told.steps
    is_other = steps.is_known & (steps.kind != NUMBER)
    if is_other.any():
        path = told.rows.paths[steps.of_path[steps.resource[int(np.argmax(is_other))]]]
        raise InvalidValue(f"{path} has values that are no numbers, so no counter; give the path of one")
    is_same = steps.resource[1:] == steps.resource[:-1]
    # Of several values of one instant the last one counts.
    steps = steps.take(~np.append(is_same & (steps.at[1:] == steps.at[:-1]), False)[: len(steps)])
    is_next = (steps.resource[1:] == steps.resource[:-1]) & (steps.until[:-1] == steps.at[1:])
    is_next &= (steps.kind[1:] == NUMBER) & (steps.kind[:-1] == NUMBER)
    is_next &= steps.unit[1:] == steps.unit[:-1]
    is_next &= (steps.until[:-1] > told.begin) & (steps.at[:-1] < told.end)
    before, behind = steps.take(np.append(is_next, False)[: len(steps)]), steps.number[1:][is_next]
    is_reset = behind < before.number
    increase = np.where(is_reset, behind, behind - before.number)
    return replace(before, number=increase / (before.until - before.at), is_counted=is_reset)


def _each(told: Timeline, rises: Steps, per: int) -> pa.Table:
    columns = [
        words_of(rises.of_device[rises.resource], told.rows.devices),
        names_of(rises.of_device[rises.resource], told.names),
        words_of(rises.of_path[rises.resource], told.rows.paths),
        times_of(rises.at),
        times_of(rises.until),
        spans_of(rises.until - rises.at),
        pa.array(rises.number * (rises.until - rises.at)),
        pa.array(rises.number * per),
        pa.array(rises.is_counted),
    ]
    return pa.Table.from_arrays(columns, schema=RATES_SCHEMA)


def _binned(told: Timeline, rises: Steps, per: int, span: int) -> pa.Table:
    bins = bins_of(span, told.begin, told.end, told.tz)
    check_count(len(rises.of_device) * len(bins))
    parts = replace(told, own_steps=rises).parts(len(bins))
    return pa.concat_tables([_part(part, bins, per) for part in parts])


def _part(told: Timeline, bins: Bins, per: int) -> pa.Table:
    """The bins of some resources."""
    rises = told.steps
    count = len(rises.of_device) * len(bins)
    pieces = StepPieces(told, bins)
    mean = pieces.mean()
    is_in = rises.is_counted & (rises.until >= told.begin) & (rises.until < told.end)
    cell = rises.resource[is_in] * len(bins) + bins.place(rises.until[is_in])
    is_unknown = np.isnan(mean)
    columns = {
        **keys(told, bins, np.arange(count)),
        "increase": pa.array(mean * pieces.known, mask=is_unknown),
        "rate": pa.array(mean * per, mask=is_unknown),
        "resets": pa.array(np.bincount(cell, minlength=count)),
        "covered": pa.array(pieces.known / np.tile(bins.lengths, len(rises.of_device))),
    }
    return pa.Table.from_arrays(list(columns.values()), schema=BINNED_RATES_SCHEMA)
