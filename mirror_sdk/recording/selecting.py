"""Which devices and resources of a recording are asked for; it knows those that occur in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk._arguments import closest, path_patterns
from mirror_sdk.errors import InvalidValue
from mirror_sdk.naming import DeviceLike, DevicesLike, devices_in, known_id
from mirror_sdk.wire.paths import matches_any

_NAMES = ["device_id", "endpoint_name"]


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is asked for.

    Attributes:
        device_ids: Only these devices; ``None`` for all.
        patterns: Only paths that match one of these; ``None`` for all.
    """

    device_ids: Sequence[str] | None
    patterns: Sequence[str] | None

    def of_table(self, table: pa.Table) -> pa.Table:
        """The rows of these; what has no device or no path is among them."""
        for name, words in (("device_id", self.device_ids), ("path", self._paths(table["path"]))):
            if words is not None:
                table = table.filter(pc.fill_null(pc.is_in(table[name], pa.array(words, pa.string())), True))
        return table

    def of_frame(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The rows of these resources."""
        if self.device_ids is not None:
            rows = rows[rows["device_id"].isin(self.device_ids)]
        if self.patterns is not None:
            rows = rows[[matches_any(self.patterns, path) for path in rows["path"]]]
        return rows

    def _paths(self, column: pa.ChunkedArray) -> list[str | None] | None:
        if self.patterns is None:
            return None
        return [path for path in column.unique().to_pylist() if path is None or matches_any(self.patterns, path)]


def chosen(names: Mapping[str, str | None], devices: DevicesLike | None, paths: Sequence[str] | None) -> Chosen:
    """What a caller asks for, checked.

    Args:
        names: The devices that occur, and the endpoint name of each.
        devices: Devices, their ids or endpoint names.
        paths: Path patterns.

    Raises:
        TypeError: Something is no device, or no text.
        InvalidValue: A device does not occur, several have the name, or a pattern is not one.
    """
    patterns = path_patterns(paths)
    if devices is None:
        return Chosen(None, patterns)
    ids_of: dict[str, list[str]] = defaultdict(list)
    for device_id, name in names.items():
        ids_of[name or ""].append(device_id)
    return Chosen([_id_of(one, names, ids_of) for one in devices_in(devices, "devices")], patterns)


def _id_of(device: DeviceLike, names: Mapping[str, str | None], ids_of: Mapping[str, Sequence[str]]) -> str:
    own = known_id("each of devices", device)
    if own is not None:
        return own
    text = str(device)
    found = [text] if text in names else ids_of.get(text, ())
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidValue(f"{len(found)} devices of the recording have the endpoint name {text!r}: {', '.join(found)}")
    known = [*names, *filter(None, names.values())]
    raise InvalidValue(f"nothing of a device {text!r} is in the recording; {closest(text, known)}")


def names_in(events: pa.Table, states: Iterable[pd.DataFrame]) -> dict[str, str | None]:
    """The devices that occur, and the last endpoint name each was known by."""
    names: dict[str, str | None] = {}
    pieces = [*(state[["device_id", "endpoint_name"]].astype(object).drop_duplicates() for state in states)]
    pieces.append(
        events.select(["device_id", "endpoint_name"]).group_by(["device_id", "endpoint_name"]).aggregate([]).to_pandas()
    )
    for piece in pieces:
        for device_id, name in piece.itertuples(index=False, name=None):
            if isinstance(device_id, str):
                names[device_id] = name if isinstance(name, str) else names.get(device_id)
    return names
