"""Resources beside each other, and one time beside another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.questions.bins import Bins, bins_of, check_count
from mirror_sdk.frames.questions.resample import KEY, Statistic, StepPieces, checked, statistics
from mirror_sdk.frames.questions.rows import Ints, spans_of
from mirror_sdk.frames.questions.steps import Timeline, warn_of_units
from mirror_sdk.tables.columns import CATEGORY, TableColumn, schema_of
from mirror_sdk.wire.paths import matches

COMPARED_COLUMNS = (
    TableColumn("device_id", CATEGORY, "the device"),
    TableColumn("endpoint_name", CATEGORY, "its endpoint name; NA where that is not known"),
    TableColumn("path", CATEGORY, "the resource"),
    TableColumn("offset", pa.duration("ms"), "from the begin of the time to that of the bin"),
    TableColumn("a", pa.float64(), "the statistic in the first time; NA where nothing is known"),
    TableColumn("b", pa.float64(), "the statistic in the second time"),
    TableColumn("difference", pa.float64(), "``b`` less ``a``"),
    TableColumn("covered_a", pa.float64(), "the share of the bin that is known in the first time"),
    TableColumn("covered_b", pa.float64(), "the share of the bin that is known in the second time"),
)
"""Two times beside each other."""

COMPARED_SCHEMA = schema_of(COMPARED_COLUMNS)


def align(told: Timeline, span: int, how: Statistic) -> pd.DataFrame:
    """Resources beside each other; see :meth:`mirror_sdk.frames.MirrorAccessor.align`.

    Raises:
        InvalidValue: The statistic is none of one column, not of the values there are, or there would be too many rows.
    """
    name = _one(how)
    bins = bins_of(span, told.begin, told.end, told.tz)
    warn_of_units(told)
    devices = np.unique(told.steps.of_device)
    paths = _in_order_of_patterns(told)
    check_count(len(devices) * len(bins) * max(len(paths), 1))
    columns = {str(told.rows.paths[path]): _column(told.of_path(path), bins, name) for path in paths}
    times = told.to_frame(pa.table({"bin": pa.array(bins.begins).view(KEY[0].type)}))["bin"]
    index = pd.MultiIndex.from_product([told.rows.devices[devices], times], names=["device_id", "bin"])
    table = pd.DataFrame(
        {path: _spread(column, devices, of, len(bins)) for path, (column, of) in columns.items()}, index=index
    )
    if told.about:
        table.attrs["mirror"] = told.about
    return table


def compare(told: Timeline, begins: Sequence[int], length: int, span: int | None, how: Statistic) -> pd.DataFrame:
    """Two times beside each other; see :meth:`mirror_sdk.frames.MirrorAccessor.compare`.

    Raises:
        InvalidValue: The statistic is none of numbers.
    """
    name = _one(how)
    check_count(length // (span or length))
    warn_of_units(told.within(min(begins), max(begins) + length))
    sides, units = zip(*(_window(told, begin, length, span or length, name) for begin in begins), strict=True)
    a, b = (side[name].cast(pa.float64()).to_numpy(zero_copy_only=False) for side in sides)
    is_other = ((units[0] != units[1]) | (units[0] == -2)) & (name != "count")
    difference = np.where(is_other, np.nan, b - a)
    places = np.arange(0, length, span or length)
    columns = [
        *(sides[0][key] for key in ("device_id", "endpoint_name", "path")),
        spans_of(np.tile(places, len(told.steps.of_device))),
        *(pa.array(one, mask=np.isnan(one)) for one in (a, b, difference)),
        *(side["covered"] for side in sides),
    ]
    return told.to_frame(pa.Table.from_arrays(columns, schema=COMPARED_SCHEMA))


def _one(how: Statistic) -> Statistic:
    (name, *others) = checked(how)
    if others or name == "duration":
        raise InvalidValue(f"how={how!r} is no single column; give one of time_weighted_mean, last, min, max, count")
    return name


def _window(told: Timeline, begin: int, length: int, span: int, name: Statistic) -> tuple[pa.Table, Ints]:
    """The statistic of each cell, and its unit as :meth:`Pieces.unit` gives it."""
    bins = Bins(np.append(np.arange(begin, begin + length, span), begin + length))
    told = told.within(begin, begin + length)
    table = statistics(told, bins, [name])
    if pa.types.is_string(table[name].type):
        raise InvalidValue(f"how={name!r}: texts have no difference; give the paths of numbers with paths=[...]")
    return table, np.concatenate([StepPieces(part, bins).unit() for part in told.parts(len(bins))])


def _in_order_of_patterns(told: Timeline) -> list[int]:
    """The paths that are asked for: as the patterns name them, and sorted where one stands for several."""
    paths = np.unique(told.steps.of_path).tolist()
    named = ["*"] if told.patterns is None else told.patterns
    found = [path for pattern in named for path in paths if matches(pattern, str(told.rows.paths[path]))]
    return list(dict.fromkeys(found))


def _column(told: Timeline, bins: Bins, name: Statistic) -> tuple[pd.Series, Ints]:
    """One statistic of the cells of one path, and the devices they are of."""
    return told.to_frame(statistics(told, bins, [name]))[name], told.steps.of_device


def _spread(column: pd.Series, devices: Ints, of_device: Ints, bin_count: int) -> Any:
    """The cells of some devices among those of all."""
    place = np.full((len(devices), bin_count), -1)
    place[np.searchsorted(devices, of_device)] = np.arange(len(column)).reshape(len(of_device), bin_count)
    return column.array.take(place.ravel(), allow_fill=True)
