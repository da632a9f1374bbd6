"""Stale values: rows of a state table, or its devices. Source: specification 2.2."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import pandas as pd
import pyarrow as pa

from mirror_sdk._arguments import InstantLike
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.columns import basis_of, build, need_times, plain, present
from mirror_sdk.frames.state import directory_frame
from mirror_sdk.object_table import never_changes
from mirror_sdk.tables.columns import CATEGORY, INSTANT, TableColumn, documented, schema_of
from mirror_sdk.wire.directory import Device

_PAUSES = 3
_RHYTHM_KNOWN = timedelta(hours=1)
_RHYTHM_UNKNOWN = timedelta(days=1)
"""Silences that are never too long. A device with the usual lifetime of a day contacts the service within it."""
_DIRECTORY = "give what client.devices.list() gave, or the table of that"

STALE_COLUMNS = (
    TableColumn("device_id", CATEGORY, "the device"),
    TableColumn("endpoint_name", CATEGORY, "its endpoint name"),
    TableColumn("stale", pa.int64(), "how many of its rows are stale"),
    TableColumn("resources", pa.int64(), "how many rows the state table has of it"),
    TableColumn("oldest_at", INSTANT, "when the oldest of the stale values came; NA if none ever did"),
    TableColumn("newest_at", INSTANT, "when the newest of all its values came; NA if none ever did"),
    TableColumn("last_contact", INSTANT, "when anything last came from it; NA where the directory is not given"),
)
"""The table of devices with stale values."""

STALE_SCHEMA = schema_of(STALE_COLUMNS)
"""The table of devices with stale values."""


def stale_rows(
    state: pd.DataFrame, age: str | pd.Timedelta, *, never_read: bool = False, now: InstantLike | None = None
) -> pd.DataFrame:
    """The rows of a state table whose value is older than ``age``; see :meth:`MirrorAccessor.stale`.

    Raises:
        InvalidValue: ``age`` is not a duration, ``now`` is naive, no moment is known, or ``reported_at`` holds no
            times.
    """
    need_times(state, "reported_at")
    limit = _span(age)
    instant = pd.Timestamp(present(state, now) or "NaT")
    reported_at = state["reported_at"]
    is_stale = reported_at < instant - limit
    return state[is_stale | reported_at.isna() if never_read else is_stale]


@documented(STALE_COLUMNS)
def stale_devices(
    state: pd.DataFrame, stale: pd.DataFrame, devices: Iterable[Device] | pd.DataFrame | None = None
) -> pd.DataFrame:
    """The table of devices with stale values, the longest silent first.

    Args:
        state: A state table.
        stale: Those of its rows that are stale.
        devices: The directory, as ``client.devices.list()`` gives it, or its table.

    Returns:
        A frame with these columns, those of :data:`STALE_SCHEMA`, also when it has no rows:

        {columns}

        Times are in the zone of the state table. ``attrs["mirror"]`` holds ``taken_at``, ``devices``, ``complete`` and
        ``server`` of the state table.

    Raises:
        InvalidValue: ``devices`` is not the directory.
    """
    old = _by_device(stale).sort_values("min", kind="stable")
    whole = _by_device(state).loc[old.index]
    columns = {
        "device_id": old.index,
        "endpoint_name": _first(state, "endpoint_name").reindex(old.index),
        "stale": old["size"],
        "resources": whole["size"],
        "oldest_at": old["min"],
        "newest_at": whole["max"],
        "last_contact": _last_contacts(devices).reindex(old.index),
    }
    cells = {name: [plain(value) for value in column] for name, column in columns.items()}
    return build(cells, STALE_SCHEMA, tz=str(state["reported_at"].dt.tz), **basis_of(state))


def silent_rows(
    state: pd.DataFrame,
    *,
    contacts: Mapping[str, datetime],
    longest_pauses: pd.Series,
    least: timedelta | None = None,
) -> pd.Series:
    """Which rows of a state table have a stale value, judged by what each resource does, not by one age for all.

    A value may be stale only where the device is to send it by itself: the resource is subscribed, or its value came by
    auto-observation. What is merely read holds as long as nobody reads it again, and what never changes (units, serial
    numbers) always. The value is stale where the time for which its device said it holds (its max-age) is over. Where
    the device said no time, an unchanged value is not sent again: it is as good as new while its device is heard, and
    stale when the device is silent for longer than the rhythm of the resource. That is three times the longest pause
    that was seen between two reports of it.

    Args:
        state: A state table with ``raw=True``, for what came by auto-observation; without, only ``subscribed`` counts.
        contacts: When anything last came from devices, by id, where that is known.
        longest_pauses: The longest pause seen between two reports of each row's resource; ``NaT`` where too few were.
        least: What silence is never too long; an hour by default, and a day for a resource whose rhythm is not known.

    Returns:
        Booleans, with the index of the table.

    Raises:
        InvalidValue: A column has no times in it, or the table does not say when it was taken.
    """
    need_times(state, "reported_at", "fresh_until")
    now = pd.Timestamp(present(state, None) or "NaT")
    newest = state.groupby("device_id", observed=True)["reported_at"].transform("max")
    contacted = state["device_id"].astype(object).map(contacts).astype(newest.dtype)
    seen_at = newest.mask(contacted > newest, contacted)
    limits, shortest = longest_pauses * _PAUSES, least or _RHYTHM_KNOWN
    limits = limits.mask(limits < shortest, shortest).fillna(least or _RHYTHM_UNKNOWN)
    is_over = (state["fresh_until"] < now).where(state["fresh_until"].notna(), seen_at + limits < now)
    return (is_sent(state) & state["reported_at"].notna() & is_over).astype(bool)


def is_sent(state: pd.DataFrame) -> pd.Series:
    """Which rows of a state table have a value that its device sends by itself, and that may change."""
    is_observed = state["subscribed"].astype(bool)
    if "reported_origin" in state:
        is_observed |= (state["reported_origin"] == "auto_observation").fillna(False).astype(bool)
    return is_observed & ~state["path"].map(never_changes).astype(bool)


def _by_device(state: pd.DataFrame) -> pd.DataFrame:
    # Of a category of Arrow's, pandas would also give the devices that have no row.
    return state.groupby(state["device_id"].astype(object), sort=False)["reported_at"].agg(["size", "min", "max"])


def _last_contacts(devices: Iterable[Device] | pd.DataFrame | None) -> pd.Series:
    table = devices if isinstance(devices, pd.DataFrame) else _directory(list(devices or ()))
    if not {"device_id", "last_contact"} <= set(table.columns):
        raise InvalidValue(f"devices= is a table without device_id and last_contact; {_DIRECTORY}")
    return _first(table, "last_contact")


def _directory(devices: Sequence[object]) -> pd.DataFrame:
    known = [one for one in devices if isinstance(one, Device)]
    if len(known) < len(devices):
        raise InvalidValue(f"devices= has {reprlib.repr(devices)}, not all of it devices; {_DIRECTORY}")
    return directory_frame(known)


def _first(frame: pd.DataFrame, name: str) -> pd.Series:
    """The first cell of a column for each device."""
    rows = frame.drop_duplicates("device_id")
    return rows[name].astype(object).set_axis(rows["device_id"].astype(object))


def _span(age: str | pd.Timedelta) -> pd.Timedelta:
    try:
        span = pd.Timedelta(age)
    except ValueError as exc:
        raise InvalidValue(f"{age!r} is not a duration; write one like '1h' or '30min'") from exc
    # Also false for the span that is none.
    if not span >= pd.Timedelta(0):
        raise InvalidValue(f"{age!r} is not a duration; write one like '1h' or '30min'")
    return span
