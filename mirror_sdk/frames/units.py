"""The units of events, which do not tell them: a device names that of a sensor in resource 5701, which the mirror has.

Source: specification 6; wire.md 1, 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import pandas as pd
import pyarrow as pa

from mirror_sdk.object_table import IN_SENSOR_UNITS, lookup

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
    named = [
        (str(device_id), str(path))
        for device_id, path in zip(found["device_id"].to_pylist(), found["path"].to_pylist(), strict=True)
        if device_id is not None and path is not None and _is_named(path)
    ]
    if not named:
        return None
    devices = sorted({device_id for device_id, _ in named})
    return Unitless(devices if len(devices) <= _FEW else None, sorted({path for _, path in named}))


def units_of(state: pd.DataFrame) -> Units:
    """The units that a state table tells of resources whose devices name them."""
    rows = state.loc[state["unit"].notna(), ["device_id", "path", "unit"]].astype(object)
    return {
        (device_id, path): unit for device_id, path, unit in rows.itertuples(index=False, name=None) if _is_named(path)
    }


def with_units(frame: pd.DataFrame, units: Units) -> None:
    """Put these into the column ``unit`` of an events table, where it has none."""
    keys = pd.MultiIndex.from_frame(frame[["device_id", "path"]].astype(object))
    known = pd.Series(units, dtype=object).reindex(keys).to_numpy()
    unit = frame["unit"].astype(object)
    words = pd.Index(sorted({*units.values(), *unit.dropna()}), dtype=frame["unit"].cat.categories.dtype)
    frame["unit"] = unit.where(unit.notna(), known).astype(pd.CategoricalDtype(words))


def _is_named(path: str) -> bool:
    definition = lookup(path)
    return definition is not None and definition.resource_id in IN_SENSOR_UNITS
