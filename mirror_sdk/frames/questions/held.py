"""For how long something was so: intervals in which values meet a condition, or stay what they are."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from mirror_sdk._arguments import real
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.questions.rows import (
    BOOLEAN,
    NUMBER,
    TEXT,
    Flags,
    Ints,
    names_of,
    spans_of,
    times_of,
    words_of,
)
from mirror_sdk.frames.questions.steps import Steps, Timeline, are_same, warn_of_units
from mirror_sdk.tables.columns import CATEGORY, INSTANT, TableColumn, schema_of

_RESOURCE = [pa.field("device_id", CATEGORY), pa.field("endpoint_name", CATEGORY), pa.field("path", CATEGORY)]
_SPAN = pa.duration("ms")
DURATIONS_SCHEMA = pa.schema(
    [
        *_RESOURCE,
        pa.field("duration", _SPAN),
        pa.field("intervals", pa.int64()),
        pa.field("longest", _SPAN),
        pa.field("known", _SPAN),
        pa.field("share", pa.float64()),
    ]
)
"""How long a condition held, of each resource."""

EACH_DURATION_SCHEMA = pa.schema(
    [
        *_RESOURCE,
        pa.field("begin", INSTANT),
        pa.field("end", INSTANT),
        pa.field("duration", _SPAN),
        pa.field("begin_seen", pa.bool_()),
        pa.field("end_seen", pa.bool_()),
    ]
)
"""Each interval in which a condition held."""

UNCHANGED_COLUMNS = (
    TableColumn("device_id", CATEGORY, "the device"),
    TableColumn("endpoint_name", CATEGORY, "its endpoint name; NA where that is not known"),
    TableColumn("path", CATEGORY, "the resource"),
    TableColumn("value_num", pa.float64(), "the number"),
    TableColumn("value_text", pa.string(), "the text"),
    TableColumn("value_bool", pa.bool_(), "the boolean"),
    TableColumn("begin", INSTANT, "since when"),
    TableColumn("end", INSTANT, "until when"),
    TableColumn("duration", pa.duration("ms"), "for how long"),
    TableColumn("told", pa.int64(), "how many values were told with a time in the interval"),
    TableColumn("lasting", pa.bool_(), "whether it was still so at the end of all that is asked for and known"),
)
"""Each interval in which a value stayed what it was."""

UNCHANGED_SCHEMA = schema_of(UNCHANGED_COLUMNS)

_KINDS = {NUMBER: "numbers", BOOLEAN: "booleans", TEXT: "texts"}
_CURES = {
    NUMBER: "give above=, below= or equals=, such as above=24.0",
    BOOLEAN: "leave the condition out, or give equals=False",
    TEXT: 'give equals=, such as equals="on"',
}


class Held(NamedTuple):
    """Intervals in which something was so, in order; ``first`` and ``last`` are the places of their steps."""

    resource: Ints
    begin: Ints
    end: Ints
    first: Ints
    last: Ints


def durations(
    told: Timeline, *, above: float | None, below: float | None, equals: float | bool | str | None, each: bool
) -> pd.DataFrame:
    """How long a condition held; see :meth:`mirror_sdk.frames.MirrorAccessor.durations`.

    Raises:
        InvalidValue: The condition is none, or not of the values there are.
    """
    steps = clipped(told)
    held = intervals(steps, _meets(told, steps, above, below, equals))
    table = _each(told, steps, held) if each else _by_resource(told, steps, held)
    return told.to_frame(table)


def unchanged(told: Timeline, longer_than: int) -> pd.DataFrame:
    """What stayed for longer than a span; see :meth:`mirror_sdk.frames.MirrorAccessor.unchanged`."""
    steps = clipped(told)
    held = intervals(steps, steps.is_known, same_value=True)
    held = Held(*(column[held.end - held.begin > longer_than] for column in held))
    kind, number, text = (column[held.first] for column in (steps.kind, steps.number, steps.text))
    counted = np.append(0, np.cumsum(_counts(told)))
    columns = {
        **_resources(told, held.resource),
        "value_num": pa.array(number, mask=kind != NUMBER),
        "value_text": pa.array(told.rows.texts, pa.string()).take(pa.array(text, mask=kind != TEXT)),
        "value_bool": pa.array(number == 1.0, mask=kind != BOOLEAN),
        "begin": times_of(held.begin),
        "end": times_of(held.end),
        "duration": spans_of(held.end - held.begin),
        "told": pa.array(counted[held.last + 1] - counted[held.first]),
        "lasting": pa.array(held.end == min(told.known_until, told.end)),
    }
    return told.to_frame(pa.Table.from_arrays(list(columns.values()), schema=UNCHANGED_SCHEMA))


def clipped(told: Timeline) -> Steps:
    """The steps within the time that is asked for, without those that were held for no time."""
    steps = told.steps
    begin, until = np.maximum(steps.at, told.begin), np.minimum(steps.until, told.end)
    return replace(steps, at=begin, until=until).take(until > begin)


def _counts(told: Timeline) -> Ints:
    """How many values were told at the time of each of the clipped steps."""
    steps = told.steps
    counts: Ints = (steps.is_counted & (steps.at >= told.begin)).astype(np.int64)
    is_last = np.append((steps.resource[1:] != steps.resource[:-1]) | (steps.at[1:] != steps.at[:-1]), True)
    if not is_last.all():
        # What is told several times at one time is held as of the last.
        counted, lasts = np.cumsum(counts), np.flatnonzero(is_last[: len(steps)])
        counts[lasts] = np.diff(counted[lasts], prepend=0)
    return counts[np.minimum(steps.until, told.end) > np.maximum(steps.at, told.begin)]


def intervals(steps: Steps, is_meant: Flags, *, same_value: bool = False) -> Held:
    """Steps that are meant, those that follow one another without a break as one.

    Args:
        steps: Steps, each held for some time.
        is_meant: Which of them are meant.
        same_value: Whether another value begins another interval.
    """
    follows = _follows(steps) & is_meant[:-1] & is_meant[1:]
    if same_value:
        follows &= are_same(steps)
    first = np.flatnonzero(is_meant & ~np.append(False, follows)[: len(steps)])
    last = np.flatnonzero(is_meant & ~np.append(follows, False)[: len(steps)])
    return Held(steps.resource[first], steps.at[first], steps.until[last], first, last)


def _follows(steps: Steps) -> Flags:
    """Which of them, but for the first, are of the resource of the one before, and begin where that ends."""
    follows: Flags = (steps.resource[1:] == steps.resource[:-1]) & (steps.at[1:] == steps.until[:-1])
    return follows


def _meets(
    told: Timeline, steps: Steps, above: float | None, below: float | None, equals: float | bool | str | None
) -> Flags:
    """Which steps meet the condition."""
    if above is None and below is None:
        return _equals(told, steps, True if equals is None else equals, is_given=equals is not None)
    if equals is not None:
        raise InvalidValue(f"equals={equals!r} beside above= or below= says two things; give one of them")
    _check_kind(told, NUMBER, "above= and below= are of numbers")
    warn_of_units(told)
    meets: Flags = steps.kind == NUMBER
    for name, bound, compare in (("above", above, np.greater), ("below", below, np.less)):
        if bound is not None:
            number = real(bound)
            if number is None:
                raise InvalidValue(f"{name}={bound!r} is no number; give one like {name}=24.0")
            meets &= compare(steps.number, number)
    return meets


def _equals(told: Timeline, steps: Steps, wanted: float | bool | str, *, is_given: bool) -> Flags:
    if isinstance(wanted, str):
        _check_kind(told, TEXT, f"equals={wanted!r} is a text")
        found: Flags = (steps.kind == TEXT) & (steps.text == told.rows.texts.get_indexer(pd.Index([wanted]))[0])
        return found
    kind = BOOLEAN if isinstance(wanted, bool | np.bool_) else NUMBER
    if kind == NUMBER and real(wanted) is None:
        raise InvalidValue(f"equals={wanted!r} is no value; give a number, a boolean or a text")
    why = f"equals={wanted!r} is no value of them" if is_given else "without a condition it is how long it was true"
    _check_kind(told, kind, why)
    if kind == NUMBER:
        warn_of_units(told)
    equal: Flags = (steps.kind == kind) & (steps.number == float(wanted))
    return equal


def _check_kind(told: Timeline, kind: int, why: str) -> None:
    """See that the values are of the kind a condition is of.

    Raises:
        InvalidValue: Some are not.
    """
    steps = told.steps
    is_other = (steps.kind != kind) & steps.is_known
    if is_other.any():
        place = int(np.argmax(is_other))
        path = told.rows.paths[steps.of_path[steps.resource[place]]]
        raise InvalidValue(f"{path} has {_KINDS[int(steps.kind[place])]}: {why}; {_CURES[int(steps.kind[place])]}")


def _each(told: Timeline, steps: Steps, held: Held) -> pa.Table:
    follows = np.concatenate([[False], _follows(steps), [False]])
    is_known = np.concatenate([[False], steps.is_known, [False]])
    columns = {
        **_resources(told, held.resource),
        "begin": times_of(held.begin),
        "end": times_of(held.end),
        "duration": spans_of(held.end - held.begin),
        "begin_seen": pa.array(follows[held.first] & is_known[held.first]),
        "end_seen": pa.array(follows[held.last + 1] & is_known[held.last + 2]),
    }
    return pa.Table.from_arrays(list(columns.values()), schema=EACH_DURATION_SCHEMA)


def _by_resource(told: Timeline, steps: Steps, held: Held) -> pa.Table:
    count = len(steps.of_device)
    length = held.end - held.begin
    held_for = _summed(held.resource, length, count)
    known = _summed(steps.resource, np.where(steps.is_known, steps.until - steps.at, 0), count)
    longest = np.zeros(count, dtype=np.int64)
    np.maximum.at(longest, held.resource, length)
    share = np.divide(held_for, known, out=np.full(count, np.nan), where=known > 0)
    columns = {
        **_resources(told, np.arange(count)),
        "duration": spans_of(held_for),
        "intervals": pa.array(np.bincount(held.resource, minlength=count)),
        "longest": spans_of(longest),
        "known": spans_of(known),
        "share": pa.array(share, mask=known == 0),
    }
    return pa.Table.from_arrays(list(columns.values()), schema=DURATIONS_SCHEMA)


def _summed(group: Ints, values: Ints, count: int) -> Ints:
    """The sum of whole numbers by group."""
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, group, values)
    return sums


def _resources(told: Timeline, resource: Ints) -> dict[str, pa.Array]:
    """Device, its name, and path of resources."""
    return {
        "device_id": words_of(told.steps.of_device[resource], told.rows.devices),
        "endpoint_name": names_of(told.steps.of_device[resource], told.names),
        "path": words_of(told.steps.of_path[resource], told.rows.paths),
    }
