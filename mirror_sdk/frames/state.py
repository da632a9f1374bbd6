"""The state table, with one row per device and resource, and the table of devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Literal

import pandas as pd
from pandas.api.types import infer_dtype

from mirror_sdk.arrow_tables.columns import documented, moment
from mirror_sdk.arrow_tables.state import DIRECTORY_COLUMNS, DIRECTORY_SCHEMA, STATE_COLUMNS, DeviceState, state_table
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.columns import build, to_frame
from mirror_sdk.wire.directory import ATTRIBUTE_FILTER, Device

_WIDE_DTYPES: Mapping[str, str] = {"floating": "Float64", "boolean": "boolean", "string": "string"}


@documented(STATE_COLUMNS)
def state_frame(
    devices: Iterable[DeviceState],
    *,
    paths: Sequence[str] | None = None,
    raw: bool = False,
    taken_at: datetime | None,
    server: str = "",
    tz: str | None = None,
) -> pd.DataFrame:
    """Return the state table: one row per device and resource, in the order of the devices and their resources.

    Args:
        devices: The device objects. The function reads each of them once and does not store it.
        paths: Patterns such as ``/3303/0/5700`` or ``/3303/*``; ``None`` selects every resource.
        raw: Whether to add the columns with the payloads, ``reported_raw`` and ``desired_raw``, and with their origin.
        taken_at: The timestamp of the table, by the service's clock and with a time zone. ``None`` means that it is
            unknown.
        server: The address of the service.
        tz: The time zone of the time columns, such as ``Europe/Berlin``; UTC by default.

    Returns:
        A DataFrame with the columns of :data:`STATE_SCHEMA`, even if it has no rows:

        {columns}

        A change with a larger revision came later, even if the times are equal. Revisions are NA if the service does
        not send them. Opaque values are only in the raw columns. ``attrs["mirror"]`` contains ``taken_at`` (RFC 3339),
        ``devices`` (the number of devices), ``complete`` and ``server``. pandas writes ``attrs`` into Parquet files.

    Raises:
        TypeError: ``paths`` is a single string.
        InvalidValue: ``taken_at`` is naive, ``tz`` is not a time zone, or a pattern has a ``*`` that is not at its end.
    """
    metadata: dict[str, object] = {"taken_at": None if taken_at is None else moment("taken_at", taken_at)}
    table, device_count = state_table(devices, paths=paths, raw=raw)
    return to_frame(table, metadata | {"devices": device_count, "complete": True, "server": server}, tz=tz)


@documented(DIRECTORY_COLUMNS)
def directory_frame(devices: Iterable[Device]) -> pd.DataFrame:
    """Return the table of devices: one row per device, in the order of the devices.

    Returns:
        A DataFrame with the columns of :data:`DIRECTORY_SCHEMA`, even if it has no rows:

        {columns}

        An additional column (``string``) for each custom attribute follows, in alphabetical order. Its name is the
        filter for the attribute, such as ``custom_attributes__room``. It is NA for devices without the attribute.
    """
    rows = list(devices)
    columns = {column.name: list(map(attrgetter(column.source), rows)) for column in DIRECTORY_COLUMNS}
    frame = build(columns, DIRECTORY_SCHEMA)
    attributes = sorted({attribute for device in rows for attribute in device.custom_attributes})
    cells = {
        f"{ATTRIBUTE_FILTER}__{one}": pd.array([device.custom_attributes.get(one) for device in rows], dtype="string")
        for one in attributes
    }
    return frame.assign(**cells)


ValueOf = Literal["reported", "desired", "value", "requested", "current", "wanted"]
"""The prefix in the names of the columns that contain a value: ``reported`` or ``desired``, for example."""


def value_column(frame: pd.DataFrame, of: ValueOf = "reported") -> pd.Series:
    """Combine the three typed columns of a table (numbers, booleans and strings) into one column.

    Returns:
        An object series of ``float``, ``bool`` and ``str`` with the name ``value``. Opaque and missing values are
        ``NA``.
    """
    values = pd.Series(pd.NA, index=frame.index, dtype=object, name="value")
    for kind in ("num", "bool", "text"):
        typed = frame[f"{of}_{kind}"]
        values = values.mask(typed.notna(), typed.astype(object))
    return values


def wide(
    frame: pd.DataFrame, *, columns: Literal["path", "label"] = "path", of: Literal["reported", "desired"] = "reported"
) -> pd.DataFrame:
    """Pivot a state table, so that it has one row per device and one column per resource.

    Args:
        frame: A state table.
        columns: Whether columns are named by path or by label. If several paths share a label, the name includes the
            path. If there is no label, the path is the name.
        of: Whether the cells contain the ``reported`` or the ``desired`` values.

    Returns:
        A DataFrame with the index ``device_id``, in the order of the table. Columns of numbers are ``Float64``, columns
        of booleans ``boolean``, columns of strings ``string``, and columns of several kinds ``object``. ``attrs`` are
        those of the table, and ``attrs["units"]`` maps the name of each column to its unit.

    Raises:
        InvalidValue: The table has two rows for a resource of a device, for example because you concatenated two
            snapshots.
    """
    keys = frame[["device_id", "path"]].astype(object)
    if keys.duplicated().any():
        raise InvalidValue(
            "the table has several rows for a resource of a device; select one snapshot, or the newest rows with "
            'frame.sort_values("reported_at").drop_duplicates(["device_id", "path"], keep="last")'
        )
    names = keys["path"] if columns == "path" else _label_names(frame)
    cells = keys.assign(name=names, value=value_column(frame, of))
    table = cells.pivot(index="device_id", columns="name", values="value")
    # pivot() sorts devices and columns, so the original order is restored.
    table = table.reindex(index=keys["device_id"].unique(), columns=names.unique())
    table = table.astype({name: _WIDE_DTYPES.get(infer_dtype(table[name], skipna=True), "object") for name in table})
    table = table.rename_axis(index="device_id", columns=None)
    table.attrs = dict(frame.attrs)
    if "unit" in frame:
        has_value = cells["value"].notna()
        table.attrs["units"] = _units_of(names[has_value], frame.loc[has_value, "unit"].astype(object))
    return table


def _units_of(names: pd.Series, units: pd.Series) -> dict[str, str]:
    """Return the units of the columns of a wide table.

    A column has a unit only if all of its rows have the same unit.
    """
    return {
        str(name): str(found.iloc[0])
        for name, found in units.groupby(names)
        if found.notna().all() and found.nunique() == 1
    }


def _label_names(frame: pd.DataFrame) -> pd.Series:
    path, label = frame["path"].astype(object), frame["label"].astype(object)
    ambiguous = path.groupby(label).transform("nunique") > 1
    return label.mask(ambiguous, label + " " + path).mask(label.isna(), path)
