"""Detection of stale values in a state table, by row or by device."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import pandas as pd
import pyarrow as pa

from mirror_sdk._arguments import InstantLike
from mirror_sdk.arrow_tables.columns import CATEGORY, INSTANT, TableColumn, documented, schema_of
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.columns import build, need_times, plain, reference_instant, shared_metadata
from mirror_sdk.frames.state import directory_frame
from mirror_sdk.object_definitions import never_changes
from mirror_sdk.wire.directory import Device

_PAUSES = 3
_LEAST_SILENCE = timedelta(hours=1)
_LEAST_SILENCE_WITHOUT_INTERVAL = timedelta(days=1)
"""The shortest silence that can make a value stale if the reporting interval is unknown.

A device with the usual lifetime of a day contacts the service within this time.
"""
_DIRECTORY = "pass the result of client.devices.list(), or its table"

STALE_COLUMNS = (
    TableColumn("device_id", CATEGORY, "the device"),
    TableColumn("endpoint_name", CATEGORY, "its endpoint name"),
    TableColumn("stale", pa.int64(), "how many rows of the device are stale"),
    TableColumn("resources", pa.int64(), "how many rows the device has in the state table"),
    TableColumn("oldest_at", INSTANT, "when the oldest stale value was reported; NA if no stale value was reported"),
    TableColumn("newest_at", INSTANT, "when the newest of all values was reported; NA if no value was reported"),
    TableColumn("last_contact", INSTANT, "when the device last made contact; NA without the directory"),
)
"""The columns of the table of devices with stale values."""

STALE_SCHEMA = schema_of(STALE_COLUMNS)
"""The schema of the table of devices with stale values."""


def stale_rows(
    state: pd.DataFrame, age: str | pd.Timedelta, *, never_read: bool = False, now: InstantLike | None = None
) -> pd.DataFrame:
    """Return the rows of a state table whose value is older than ``age``; see :meth:`MirrorAccessor.stale`.

    Raises:
        InvalidValue: ``age`` is not a duration, ``now`` is naive, the table has no timestamp in its metadata, or
            ``reported_at`` has no times.
    """
    need_times(state, "reported_at")
    limit = _span(age)
    # Only an empty table has no timestamp.
    instant = pd.Timestamp(reference_instant(state, now) or "NaT")
    reported_at = state["reported_at"]
    is_stale = reported_at < instant - limit
    return state[is_stale | reported_at.isna() if never_read else is_stale]


@documented(STALE_COLUMNS)
def stale_devices(
    state: pd.DataFrame, stale: pd.DataFrame, devices: Iterable[Device] | pd.DataFrame | None = None
) -> pd.DataFrame:
    """Return the table of devices with stale values. The device that was silent for longest comes first.

    Args:
        state: A state table.
        stale: The stale rows of that table.
        devices: The directory, as returned by ``client.devices.list()``, or its table.

    Returns:
        A DataFrame with the columns of :data:`STALE_SCHEMA`, even if it has no rows:

        {columns}

        Times are in the time zone of the state table. ``attrs["mirror"]`` contains ``taken_at``, ``devices``,
        ``complete`` and ``server`` of the state table.

    Raises:
        InvalidValue: ``devices`` is not the directory.
    """
    old = _by_device(stale).sort_values("min", kind="stable")
    total = _by_device(state).loc[old.index]
    columns = {
        "device_id": old.index,
        "endpoint_name": _first(state, "endpoint_name").reindex(old.index),
        "stale": old["size"],
        "resources": total["size"],
        "oldest_at": old["min"],
        "newest_at": total["max"],
        "last_contact": _last_contacts(devices).reindex(old.index),
    }
    cells = {name: [plain(value) for value in column] for name, column in columns.items()}
    return build(cells, STALE_SCHEMA, tz=str(state["reported_at"].dt.tz), **shared_metadata(state))


def silent_rows(
    state: pd.DataFrame,
    *,
    contacts: Mapping[str, datetime],
    longest_pauses: pd.Series,
    least: timedelta | None = None,
) -> pd.Series:
    """Return which rows of a state table have a stale value, based on the reporting interval of each resource.

    Only values that a device sends on its own can be stale, which are those of subscribed or auto-observed resources.
    Values that were only read, and values that never change (units, serial numbers), are never stale.

    If the device sent a max-age, the value is stale after that time. Otherwise the silence of the device decides,
    because a device does not repeat an unchanged value. The value is stale if the device has been silent for more than
    three times the longest pause between two reports of the resource.

    Args:
        state: A state table with ``raw=True``, which contains the origin of values. Without ``raw=True``, only
            ``subscribed`` counts.
        contacts: The last known contact of each device, by device id.
        longest_pauses: The longest pause between two reports of the resource of each row. It is ``NaT`` if there are
            too few reports.
        least: The shortest silence that makes a value stale. The default is an hour, or a day if the longest pause is
            unknown.

    Returns:
        A boolean series with the index of the table.

    Raises:
        InvalidValue: A column has no times, or the table has no timestamp in its metadata.
    """
    need_times(state, "reported_at", "fresh_until")
    now = pd.Timestamp(reference_instant(state, None) or "NaT")
    newest = state.groupby("device_id", observed=True)["reported_at"].transform("max")
    contacted = state["device_id"].astype(object).map(contacts).astype(newest.dtype)
    seen_at = newest.mask(contacted > newest, contacted)
    limits, shortest = longest_pauses * _PAUSES, least or _LEAST_SILENCE
    limits = limits.mask(limits < shortest, shortest).fillna(least or _LEAST_SILENCE_WITHOUT_INTERVAL)
    is_over = (state["fresh_until"] < now).where(state["fresh_until"].notna(), seen_at + limits < now)
    return (is_sent(state) & state["reported_at"].notna() & is_over).astype(bool)


def is_sent(state: pd.DataFrame) -> pd.Series:
    """Return which rows of a state table have a value that the device sends on its own, and that can change."""
    is_observed = state["subscribed"].astype(bool)
    if "reported_origin" in state:
        is_observed |= (state["reported_origin"] == "auto_observation").fillna(False).astype(bool)
    return is_observed & ~state["path"].map(never_changes).astype(bool)


def _by_device(state: pd.DataFrame) -> pd.DataFrame:
    # For a categorical column of Arrow, pandas would also return the devices without rows.
    return state.groupby(state["device_id"].astype(object), sort=False)["reported_at"].agg(["size", "min", "max"])


def _last_contacts(devices: Iterable[Device] | pd.DataFrame | None) -> pd.Series:
    table = devices if isinstance(devices, pd.DataFrame) else _directory(list(devices or ()))
    if not {"device_id", "last_contact"} <= set(table.columns):
        raise InvalidValue(f"devices= lacks the columns device_id and last_contact; {_DIRECTORY}")
    return _first(table, "last_contact")


def _directory(devices: Sequence[object]) -> pd.DataFrame:
    found = [one for one in devices if isinstance(one, Device)]
    if len(found) < len(devices):
        raise InvalidValue(f"devices= has {reprlib.repr(devices)}, with items that are not devices; {_DIRECTORY}")
    return directory_frame(found)


def _first(frame: pd.DataFrame, name: str) -> pd.Series:
    """Return the first cell of a column for each device."""
    rows = frame.drop_duplicates("device_id")
    return rows[name].astype(object).set_axis(rows["device_id"].astype(object))


def _span(age: str | pd.Timedelta) -> pd.Timedelta:
    try:
        span = pd.Timedelta(age)
    except ValueError as exc:
        raise InvalidValue(f"age={age!r} is not a duration; write one like '1h' or '30min'") from exc
    # The condition is also false for NaT.
    if not span >= pd.Timedelta(0):
        raise InvalidValue(f"age={age!r} is not a duration; write one like '1h' or '30min'")
    return span
