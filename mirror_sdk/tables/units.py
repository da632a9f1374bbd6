"""The units of events, which do not tell them: a device names that of a sensor in resource 5701, which the mirror has.

Source: specification 6; wire.md 1, 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.object_table import IN_SENSOR_UNITS, lookup
from mirror_sdk.tables.columns import words_at

Units: TypeAlias = Mapping[tuple[str, str], str]
"""The unit of each resource, by device id and path."""

_FEW = 100


class Unitless(NamedTuple):
    """The resources whose unit the mirror has to tell; ``devices`` is ``None`` where they are too many to be listed."""

    devices: list[str] | None
    paths: list[str]


def unitless(events: pa.Table) -> Unitless | None:
    """Which resources of an events table are in a unit that their devices name; ``None`` where there are none."""
    found = events.select(["device_id", "path"]).group_by(["device_id", "path"]).aggregate([])
    named = zip(found["device_id"].to_pylist(), found["path"].to_pylist(), strict=True)
    return unitless_of((device_id, path) for device_id, path in named if device_id is not None and path is not None)


def unitless_of(resources: Iterable[tuple[str, str]]) -> Unitless | None:
    """The same for resources by device id and path."""
    named = [(device_id, path) for device_id, path in resources if is_in_named_unit(path)]
    if not named:
        return None
    devices = sorted({device_id for device_id, _ in named})
    return Unitless(devices if len(devices) <= _FEW else None, sorted({path for _, path in named}))


def units_of(state: pa.Table) -> Units:
    """The units that a state table tells of resources whose devices name them."""
    rows = state.select(["device_id", "path", "unit"]).filter(pc.is_valid(state["unit"]))
    columns = (column.to_pylist() for column in rows.columns)
    return {(device_id, path): unit for device_id, path, unit in zip(*columns, strict=True) if is_in_named_unit(path)}


def with_units(table: pa.Table, units: Units) -> pa.Table:
    """An events or history table with these in the column ``unit``, where it has none."""
    device, path, unit = (_one_array(table[name]) for name in ("device_id", "path", "unit"))
    told = unit.indices.fill_null(-1).to_numpy()
    words = list(dict.fromkeys([*unit.dictionary.to_pylist(), *units.values()]))
    codes = {word: code for code, word in enumerate(words)}
    named = _codes_of(device, path, {resource: codes[word] for resource, word in units.items()})
    found = np.where(told < 0, named, told)
    column = words_at(pa.array(found, mask=found < 0), pa.array(words, pa.string()))
    return table.set_column(table.schema.get_field_index("unit"), "unit", column)


def _one_array(column: pa.ChunkedArray) -> pa.DictionaryArray:
    whole: pa.DictionaryArray = column.unify_dictionaries().combine_chunks()
    return whole


def _codes_of(
    device: pa.DictionaryArray, path: pa.DictionaryArray, known: Mapping[tuple[str, str], int]
) -> npt.NDArray[np.int64]:
    """What is known of the resource of each row, as a number; -1 where nothing is."""
    devices, paths = ({word: code for code, word in enumerate(one.dictionary.to_pylist())} for one in (device, path))
    numbers = {
        devices[device_id] * len(paths) + paths[resource]: number
        for (device_id, resource), number in known.items()
        if device_id in devices and resource in paths
    }
    if not numbers:
        return np.full(len(device), -1)
    keys = np.array(sorted(numbers))
    values = np.array([numbers[key] for key in keys.tolist()])
    rows = [one.indices.fill_null(-1).to_numpy().astype(np.int64) for one in (device, path)]
    wanted = np.where((rows[0] < 0) | (rows[1] < 0), -1, rows[0] * len(paths) + rows[1])
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], -1)


def is_in_named_unit(path: str) -> bool:
    """Whether the device itself names the unit of this resource."""
    definition = lookup(path)
    return definition is not None and definition.resource_id in IN_SENSOR_UNITS
