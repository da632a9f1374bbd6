"""The selection of devices and resources that are read from a recording."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk._arguments import closest, path_patterns
from mirror_sdk.device_lookup import DeviceLike, DevicesLike, devices_in, known_id
from mirror_sdk.errors import InvalidValue
from mirror_sdk.wire.paths import matches_any

_NAMES = ["device_id", "endpoint_name"]


@dataclass(frozen=True, slots=True)
class RowSelection:
    """The devices and resources to read.

    Attributes:
        device_ids: The ids of the selected devices; ``None`` for all.
        patterns: The patterns that selected paths match; ``None`` for all paths.
    """

    device_ids: Sequence[str] | None
    patterns: Sequence[str] | None

    def of_table(self, table: pa.Table) -> pa.Table:
        """Return the selected rows, and all rows without a device or a path."""
        paths = None
        if self.patterns is not None:
            paths = [path for path in table["path"].unique().to_pylist() if path and matches_any(self.patterns, path)]
        for name, words in (("device_id", self.device_ids), ("path", paths)):
            if words is not None:
                is_selected = pc.or_(pc.is_in(table[name], pa.array(words, pa.string())), pc.is_null(table[name]))
                table = table.filter(is_selected)
        return table

    def of_frame(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the selected devices and resources."""
        if self.device_ids is not None:
            rows = rows[rows["device_id"].isin(self.device_ids)]
        if self.patterns is not None:
            rows = rows[[matches_any(self.patterns, path) for path in rows["path"]]]
        return rows


def select(names: Mapping[str, str | None], devices: DevicesLike | None, paths: Sequence[str] | None) -> RowSelection:
    """Convert the arguments of a caller to a selection.

    Args:
        names: The endpoint names of the recorded devices, by device id.
        devices: Devices, their ids or endpoint names.
        paths: Path patterns.

    Raises:
        TypeError: A value is not a device, or a pattern is not a string.
        InvalidValue: A device is not recorded, several devices have the same name, or a pattern is invalid.
    """
    patterns = path_patterns(paths)
    if devices is None:
        return RowSelection(None, patterns)
    ids_of: dict[str, list[str]] = defaultdict(list)
    for device_id, name in names.items():
        ids_of[name or ""].append(device_id)
    return RowSelection([_id_of(one, names, ids_of) for one in devices_in(devices, "devices")], patterns)


def _id_of(device: DeviceLike, names: Mapping[str, str | None], ids_of: Mapping[str, Sequence[str]]) -> str:
    own = known_id("each of devices", device)
    if own is not None:
        return own
    text = str(device)
    found = [text] if text in names else ids_of.get(text, ())
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidValue(
            f"{len(found)} devices of the recording have the endpoint name {text!r}; pass one of the ids:"
            f" {', '.join(found)}"
        )
    known = [*names, *filter(None, names.values())]
    raise InvalidValue(f"the recording has no device {text!r}; {closest(text, known)}")


def names_in(events: pa.Table, states: Iterable[pd.DataFrame]) -> dict[str, str | None]:
    """Return the ids of the recorded devices, with the last known endpoint name of each device."""
    names: dict[str, str | None] = {}
    for table in (*states, events.group_by(_NAMES).aggregate([]).to_pandas()):
        for device_id, name in table[_NAMES].astype(object).drop_duplicates().itertuples(index=False, name=None):
            if isinstance(device_id, str):
                names[device_id] = name if isinstance(name, str) else names.get(device_id)
    return names
