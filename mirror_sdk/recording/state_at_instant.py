"""Functions that compute the state at a point in time from a recording.

It consists of the last value of each resource, starting from a stored state table.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from mirror_sdk.arrow_tables.columns import moment, to_table
from mirror_sdk.arrow_tables.history import history_of_events
from mirror_sdk.arrow_tables.state import STATE_SCHEMA, path_numbers
from mirror_sdk.arrow_tables.units import UnitNames, names_unit
from mirror_sdk.errors import InvalidValue
from mirror_sdk.history.changes import COUNTED_SCHEMA, KEY, VALUES_SCHEMA, Counted, changes_tables
from mirror_sdk.object_definitions import lookup
from mirror_sdk.recording.log_spans import LogSpan, is_covered
from mirror_sdk.wire.model import write_timestamp

_NUMBERS = ("object_id", "instance_id", "resource_id")
_STATE_COLUMNS = ["endpoint_name", "label", "unit", "fresh_until", "subscribed"]
_COLUMNS = [*KEY, "reported_num", "reported_text", "reported_bool", "value_kind", *_STATE_COLUMNS]
_TIMES = ["reported_at", "known_from"]
_STATE_NAMES = {f"value_{kind}": f"reported_{kind}" for kind in ("num", "text", "bool")} | {"changed_at": "reported_at"}
"""The names that columns of a history table have in a state table."""


class RecordedValues(NamedTuple):
    """All recorded values with their times.

    Attributes:
        rows: One row per value. It has the resource, the columns of a state table, ``known_from``, and whether the
            value was observed or comes from a state table.
        naming: The rows of the resources that contain units.
        begins_at: The first time at which the state is known; ``None`` in an empty recording.
        state_times: The timestamps of the state tables.
    """

    rows: pd.DataFrame
    naming: pd.DataFrame
    begins_at: pd.Timestamp | None
    state_times: Sequence[pd.Timestamp]

    def known_from(self, spans: Sequence[LogSpan], instant: datetime) -> datetime:
        """Return the time, or the time of the first state if that was read after it and after the recording started."""
        started_at = spans[0].from_at if spans else None
        is_start = started_at and self.begins_at is not None and started_at <= instant < self.begins_at
        return self.begins_at if is_start and self.begins_at is not None else instant

    def is_complete(self, spans: Sequence[LogSpan], *instants: datetime) -> bool:
        """Return whether nothing is missing from the last state table before these times up to the last time."""
        before = [taken_at for taken_at in self.state_times if taken_at <= min(instants)]
        return bool(before) and is_covered(spans, max(before), *instants)


def recorded_values(events: pa.Table, states: Sequence[pd.DataFrame]) -> RecordedValues:
    """Return the values in the stored events and state tables of a recording."""
    history = history_of_events(events, [], raw=False)
    reported = history.filter(pc.equal(history["event"].cast(pa.string()), "reported"))
    observed = reported.to_pandas().rename(columns=_STATE_NAMES)
    tables = [observed.assign(known_from=observed["reported_at"], observed=True)]
    # The state table of an empty fleet may have no timestamp.
    states = [state for state in states if state.attrs["mirror"]["taken_at"]]
    state_times = [pd.Timestamp(state.attrs["mirror"]["taken_at"]) for state in states]
    tables += [state.assign(known_from=at, observed=False) for state, at in zip(states, state_times, strict=True)]
    columns = [*_COLUMNS, *_TIMES, "observed"]
    rows = pd.concat([table.reindex(columns=columns).astype(object) for table in tables], ignore_index=True)
    rows = rows.assign(
        observed=rows["observed"].astype(bool), **{at: pd.to_datetime(rows[at], utc=True) for at in _TIMES}
    )
    # Without rows, the list of booleans would be empty and would select columns.
    naming = rows.loc[[isinstance(path, str) and names_unit(path) for path in rows["path"]]]
    return RecordedValues(rows, naming, min(state_times or rows["known_from"], default=None), state_times)


def as_of(
    values: RecordedValues, instant: datetime, *, complete: bool, server: str
) -> tuple[list[pa.Table], dict[str, object]]:
    """Return the batches of the state table at a point in time, and its metadata.

    Raises:
        InvalidValue: The point in time is before the start of the recording.
    """
    latest = _latest(values, instant)
    paths = latest["path"].tolist()
    columns = {name: _plain(latest[name]) if name in latest else [None] * len(latest) for name in STATE_SCHEMA.names}
    columns |= {name: [path_numbers(path)[index] for path in paths] for index, name in enumerate(_NUMBERS)}
    for name in ("label", "unit"):
        declared = [getattr(lookup(path), name, None) for path in paths]
        columns[name] = [one or other or None for one, other in zip(columns[name], declared, strict=True)]
    metadata: dict[str, object] = {
        "taken_at": moment("instant", instant),
        "devices": int(latest["device_id"].nunique()),
        "complete": complete,
        "server": server,
    }
    return [to_table(columns, STATE_SCHEMA)], metadata


def changes(
    values: RecordedValues, begin: datetime, end: datetime, *, complete: bool
) -> tuple[list[pa.Table], dict[str, object]]:
    """Return the changes table and its metadata.

    The table has one row per resource observed after ``begin`` and up to ``end``.

    Raises:
        InvalidValue: ``begin`` is before the start of the recording.
    """
    before, after = _latest(values, begin), _latest(values, end)
    rows = values.rows
    between = rows[rows["observed"] & (rows["reported_at"] > begin) & (rows["reported_at"] <= end)]
    counted = between.groupby(KEY)["reported_at"].agg(observations="count", first_at="min", last_at="max")
    counts = Counted(_table(counted.reset_index(), COUNTED_SCHEMA), complete)
    return changes_tables(counts, _table(before, VALUES_SCHEMA), _table(after, VALUES_SCHEMA), begin, end)


def _latest(values: RecordedValues, instant: datetime) -> pd.DataFrame:
    """Return the last value of each resource at a point in time, sorted by device and path."""
    if values.begins_at is None or values.begins_at > instant:
        start = (
            "is empty; record events first"
            if values.begins_at is None
            else f"starts at {write_timestamp(values.begins_at)}; pass a later instant"
        )
        raise InvalidValue(f"{write_timestamp(instant)} is before the recording, which {start}")
    rows = values.rows[values.rows["known_from"] <= instant]
    latest = _ordered(rows).drop_duplicates(KEY, keep="last").set_index(KEY).sort_index()
    own_unit = latest["unit"].where(latest["observed"])
    # Only the state tables contain names and labels, which are valid until the next state table.
    from_state = rows[~rows["observed"]].drop_duplicates(KEY, keep="last").set_index(KEY)
    latest[_STATE_COLUMNS] = from_state[_STATE_COLUMNS].reindex(latest.index)
    # A recording of some paths may lack the resources that contain units. The unit recorded with the value has
    # precedence.
    units = own_unit.where(own_unit.notna(), latest["unit"])
    latest["unit"] = _units(_ordered(values.naming[values.naming["known_from"] <= instant]), units)
    latest["fresh_until"] = latest["fresh_until"].mask(latest["observed"])
    return latest.reset_index()


def _ordered(rows: pd.DataFrame) -> pd.DataFrame:
    """Sort by time.

    Observations of the same time follow the state table, in the order of the log.
    """
    return rows.sort_values(["reported_at", "known_from", "observed"], kind="stable", na_position="first")


def _units(naming: pd.DataFrame, units: pd.Series) -> pd.Series:
    """Return the unit of each resource.

    This is the unit that its device last reported or, if there is none, the unit in ``units``.
    """
    names = UnitNames()
    for row in zip(naming["device_id"], naming["path"], naming["reported_text"], strict=True):
        names.add(*row)
    keys = (units.index.get_level_values(name) for name in KEY)
    named = [names.unit_of(*row) for row in zip(*keys, units, strict=True)]
    return pd.Series(named, index=units.index, dtype=object)


def _table(rows: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    return to_table({name: _plain(rows[name]) for name in schema.names}, schema)


def _plain(column: pd.Series) -> list[Any]:
    """Return the values of a column, with ``None`` for missing values, as Arrow needs them."""
    return column.astype(object).where(column.notna(), None).tolist()
