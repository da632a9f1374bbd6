"""Units of events.

Notifications do not contain units. Instead, a device reports the unit of a sensor in resource 5701.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.arrow_tables.columns import words_at
from mirror_sdk.object_definitions import IN_SENSOR_UNITS, SENSOR_UNITS, lookup

Units: TypeAlias = Mapping[tuple[str, str], str]
"""The unit of each resource, by device id and path."""

_FEW = 100
_NAMING = f"/{SENSOR_UNITS}"
_VALUES = ("reported", "observation", "async_response")
"""The kinds of events in a history or events table that have a value from a device."""


class Unitless(NamedTuple):
    """The resources whose unit must be read from the mirror. ``devices`` is ``None`` if there are too many to list."""

    devices: list[str] | None
    paths: list[str]


class NamedUnits(NamedTuple):
    """The tables that contain units that devices reported. They supplement the rows of the table itself.

    Attributes:
        state: The current state table.
        before: The state table at the start of the table. It is needed if a device reported a unit after that time.
        rows: A history table of the resources that contain units, from that time on.
    """

    state: pa.Table | None
    before: pa.Table | None = None
    rows: pa.Table | None = None


class UnitNames:
    """The units that devices have reported so far."""

    def __init__(self) -> None:
        self._units: dict[tuple[str, str], str | None] = {}

    def add(self, device_id: str | None, path: str | None, text: object) -> None:
        """Record the value if its resource contains a unit."""
        if device_id and path and path.endswith(_NAMING) and isinstance(text, str):
            self._units[device_id, instance_of(path)] = text or None

    def unit_of(self, device_id: str, path: str, default: str | None) -> str | None:
        """Return the last reported unit of a resource.

        The result is the default if no unit was reported, or if devices do not report the unit of this resource.
        """
        return self._units.get((device_id, instance_of(path)), default) if is_in_named_unit(path) else default


def names_unit(path: str) -> bool:
    """Return whether a resource contains the unit of other resources."""
    return path.endswith(_NAMING)


def declared_units(paths: Iterable[str]) -> pa.StringArray:
    """Return the declared unit of each path. It is missing for paths without a declared unit."""
    return pa.array([(definition and definition.unit) or None for definition in map(lookup, paths)], pa.string())


def naming_paths(paths: list[str]) -> list[str]:
    """Return the distinct resources that contain the units of these paths."""
    return sorted({instance_of(path) + _NAMING for path in paths})


def unitless(events: pa.Table) -> Unitless | None:
    """Return the resources of an events table whose units come from their devices.

    The result is ``None`` if there are none.
    """
    found = events.select(["device_id", "path"]).group_by(["device_id", "path"]).aggregate([])
    named = zip(found["device_id"].to_pylist(), found["path"].to_pylist(), strict=True)
    return unitless_of((device_id, path) for device_id, path in named if device_id is not None and path is not None)


def unitless_of(resources: Iterable[tuple[str, str]]) -> Unitless | None:
    """Return the resources whose units come from their devices.

    Unlike :func:`unitless`, the function accepts pairs of device id and path.
    """
    named = [(device_id, path) for device_id, path in resources if is_in_named_unit(path)]
    if not named:
        return None
    devices = sorted({device_id for device_id, _ in named})
    return Unitless(devices if len(devices) <= _FEW else None, sorted({path for _, path in named}))


def units_of(state: pa.Table) -> Units:
    """Return the units in a state table, for resources whose units come from their devices."""
    rows = state.select(["device_id", "path", "unit"]).filter(pc.is_valid(state["unit"]))
    columns = (column.to_pylist() for column in rows.columns)
    return {(device_id, path): unit for device_id, path, unit in zip(*columns, strict=True) if is_in_named_unit(path)}


def with_units(table: pa.Table, named: NamedUnits) -> pa.Table:
    """Fill the missing units of an events or history table with the units that devices reported.

    The unit of a value is the last unit that its device had reported by then. If only later units are known, the unit
    of the value is missing. If no row contains a unit, the current unit is used.
    """
    device, path, unit = (_one_array(table[name]) for name in ("device_id", "path", "unit"))
    own = unit.indices.fill_null(-1).to_numpy()
    now, before = ({} if state is None else units_of(state) for state in (named.state, named.before))
    rows = _naming_rows(table) if named.rows is None else _naming_rows(named.rows)
    words = list(dict.fromkeys([*unit.dictionary.to_pylist(), *now.values(), *before.values(), *rows.units]))
    codes = {word: code for code, word in enumerate(words)}
    known = _codes_of(device, path, {resource: codes[word] for resource, word in {**now, **before}.items()})
    if len(rows.units):
        first = _codes_of(device, path, {resource: codes[word] for resource, word in before.items()})
        known = _at_their_times(table, device, path, rows, codes, first, known)
    found = np.where(own < 0, known, own)
    column = words_at(pa.array(found, mask=found < 0), pa.array(words, pa.string()))
    return table.set_column(table.schema.get_field_index("unit"), "unit", column)


class _NamingRows(NamedTuple):
    """The rows that contain units, sorted by object instance and time.

    Times are in milliseconds. A missing unit is empty.
    """

    instances: Mapping[tuple[str, str], int]
    instance: npt.NDArray[np.int64]
    at: npt.NDArray[np.int64]
    units: list[str]


def _naming_rows(table: pa.Table) -> _NamingRows:
    path = _one_array(table["path"])
    is_naming = np.array([*(word.endswith(_NAMING) for word in path.dictionary.to_pylist()), False])
    rows = table.filter(pa.array(is_naming[path.indices.fill_null(-1).to_numpy()]))
    event = rows["event"].cast(pa.string())
    rows = rows.filter(pc.and_(pc.is_in(event, pa.array(_VALUES)), pc.is_valid(rows["value_text"])))
    instances: dict[tuple[str, str], int] = {}
    keys = zip(rows["device_id"].to_pylist(), rows["path"].to_pylist(), strict=True)
    instance = np.array(
        [instances.setdefault((one, instance_of(path)), len(instances)) for one, path in keys], dtype=np.int64
    )
    at = _milliseconds(rows)
    order = np.lexsort((at, instance))
    units = rows["value_text"].to_pylist()
    return _NamingRows(instances, instance[order], at[order], [units[position] for position in order])


def _at_their_times(
    table: pa.Table,
    device: pa.DictionaryArray,
    path: pa.DictionaryArray,
    rows: _NamingRows,
    codes: Mapping[str, int],
    before: npt.NDArray[np.int64],
    known: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """Return the index of the unit of each row.

    It comes from the last row that contains the unit, or else from the earlier state. It is -1 if neither is known.
    """
    paths = defaultdict(list)
    for word in filter(is_in_named_unit, path.dictionary.to_pylist()):
        paths[instance_of(word)].append(word)
    numbers = {(one, word): number for (one, position), number in rows.instances.items() for word in paths[position]}
    instance = _codes_of(device, path, numbers)
    times, rank = np.unique(np.concatenate([rows.at, _milliseconds(table)]), return_inverse=True)
    keys = rows.instance * len(times) + rank[: len(rows.at)]
    position = np.searchsorted(keys, instance * len(times) + rank[len(rows.at) :], side="right") - 1
    unit = np.array([codes[word] if word else -1 for word in rows.units], dtype=np.int64)
    is_named = (position >= 0) & (rows.instance[position] == instance)
    found: npt.NDArray[np.int64] = np.where(is_named, unit[position], before)
    return np.where(instance < 0, known, found)


def _milliseconds(table: pa.Table) -> npt.NDArray[np.int64]:
    """Return the time at which each row changed, in milliseconds. If that is missing, the time of receipt is used."""
    at = pc.coalesce(table["changed_at"], table["received_at"]).cast(pa.int64())
    numbers: npt.NDArray[np.int64] = pc.fill_null(at, np.iinfo(np.int64).min).to_numpy()
    return numbers


def instance_of(path: str) -> str:
    """Return the object instance of a resource path, such as ``/3303/0`` for ``/3303/0/5700``."""
    return "/".join(path.split("/")[:3])


def _one_array(column: pa.ChunkedArray) -> pa.DictionaryArray:
    array: pa.DictionaryArray = column.unify_dictionaries().combine_chunks()
    return array


def _codes_of(
    device: pa.DictionaryArray, path: pa.DictionaryArray, known: Mapping[tuple[str, str], int]
) -> npt.NDArray[np.int64]:
    """Return the code of each row's resource, or -1 if the resource has no code."""
    key_codes = [
        pc.index_in(pa.array([key[index] for key in known], pa.string()), column.dictionary)
        for index, column in enumerate((device, path))
    ]
    # The device and the path are combined into one number, which is null for devices and paths that do not occur.
    keys, rows = (
        pc.add(pc.multiply(one.cast(pa.int64()), len(path.dictionary)), other)
        for one, other in (key_codes, (device.indices, path.indices))
    )
    found = pc.index_in(rows, keys, skip_nulls=True).fill_null(-1).to_numpy()
    numbers: npt.NDArray[np.int64] = np.array([*known.values(), -1])[found]
    return numbers


def is_in_named_unit(path: str) -> bool:
    """Return whether the device itself reports the unit of a resource."""
    definition = lookup(path)
    return definition is not None and definition.resource_id in IN_SENSOR_UNITS
