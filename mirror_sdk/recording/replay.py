"""What a recording tells of an instant: the last observation of each resource upon the state it began from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import pandas as pd
import pyarrow as pa

from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import EventKind
from mirror_sdk.history.changes import COUNTED_SCHEMA, KEY, VALUES_SCHEMA, Counted, changes_parts
from mirror_sdk.object_table import lookup
from mirror_sdk.recording.coverage import Span, is_covered
from mirror_sdk.tables.columns import moment, to_table
from mirror_sdk.tables.state import STATE_SCHEMA, parts_of
from mirror_sdk.tables.units import UnitNames, names_unit
from mirror_sdk.values import ValueKind
from mirror_sdk.wire.model import write_timestamp

_NUMBERS = ("object_id", "instance_id", "resource_id")
_VALUE = ["reported_num", "reported_text", "reported_bool", "value_kind"]
_OF_STATE = ["endpoint_name", "label", "unit", "fresh_until", "subscribed"]


class History(NamedTuple):
    """Every value that is known with its time, and what the states tell beside it.

    ``rows`` has one row per value: the key, the value columns, ``reported_at``, ``known_from``, and whether it was
    observed, or read. ``naming`` are those of the resources that name units. ``began_at`` is the first instant that
    can be asked for; ``None`` in an empty recording. ``taken`` are the instants of the states.
    """

    rows: pd.DataFrame
    naming: pd.DataFrame
    began_at: pd.Timestamp | None
    taken: Sequence[pd.Timestamp]

    def is_complete(self, spans: Sequence[Span], *instants: datetime) -> bool:
        """Whether it is known that nothing is missing, from the state before these instants to the last of them."""
        begun = [taken_at for taken_at in self.taken if taken_at <= min(instants)]
        return bool(begun) and is_covered(spans, max(begun), *instants)


def history(events: pa.Table, states: Sequence[pd.DataFrame]) -> History:
    """The history out of stored events and the state tables of a recording."""
    frame: pd.DataFrame = events.to_pandas(integer_object_nulls=True)
    # The answer to a read of this application brings a value too.
    is_answer = (frame["event"] == EventKind.ASYNC_RESPONSE.value) & (frame["value_kind"] != ValueKind.NONE.value)
    observed = frame[(frame["event"] == EventKind.OBSERVATION.value) | is_answer].rename(
        columns={"value_num": "reported_num", "value_text": "reported_text", "value_bool": "reported_bool"}
    )
    # A device may not say when its value changed; then it is when it was received.
    observed = observed.assign(reported_at=observed["changed_at"].fillna(observed["received_at"]))
    observed = observed.assign(known_from=observed["reported_at"], observed=True)
    pieces = [observed[[*KEY, *_VALUE, "unit", "reported_at", "known_from", "observed"]].astype(object)]
    # That of an empty fleet may not tell its time.
    states = [state for state in states if state.attrs["mirror"]["taken_at"]]
    taken = [pd.Timestamp(state.attrs["mirror"]["taken_at"]) for state in states]
    for state, taken_at in zip(states, taken, strict=True):
        rows = state[[*KEY, *_VALUE, *_OF_STATE, "reported_at"]].astype(object)
        pieces.append(rows.assign(known_from=taken_at, observed=False))
    rows = pd.concat([piece for piece in pieces if len(piece)] or pieces[:1], ignore_index=True)
    for name in ("reported_at", "known_from"):
        rows[name] = pd.to_datetime(rows[name], utc=True)
    starts = taken or list(rows["known_from"])
    rows = rows.reindex(columns=[*KEY, *_VALUE, *_OF_STATE, "reported_at", "known_from", "observed"])
    return History(
        rows,
        # Without any rows the list is empty, and by itself would select columns.
        rows.loc[[isinstance(path, str) and names_unit(path) for path in rows["path"]]],
        min(starts, default=None),
        taken,
    )


def as_of(
    known: History, instant: datetime, *, complete: bool, server: str
) -> tuple[list[pa.Table], dict[str, object]]:
    """The state table at an instant, and what it is based on.

    Raises:
        InvalidValue: The instant lies before the recording.
    """
    latest = _latest(known, instant)
    paths = [str(path) for path in latest["path"]]
    parts = [parts_of(path) for path in paths]
    columns = {str(name): _plain(latest[name]) for name in latest if name in STATE_SCHEMA.names}
    columns |= {name: [one[place] for one in parts] for place, name in enumerate(_NUMBERS)}
    columns |= {name: _told_or_declared(latest[name], paths, name) for name in ("label", "unit")}
    columns |= {name: [None] * len(latest) for name in STATE_SCHEMA.names if name not in columns}
    about: dict[str, object] = {
        "taken_at": moment("instant", instant),
        "devices": int(latest["device_id"].nunique()),
        "complete": complete,
        "server": server,
    }
    return [to_table(columns, STATE_SCHEMA)], about


def changes(
    known: History, begin: datetime, end: datetime, *, complete: bool
) -> tuple[list[pa.Table], dict[str, object]]:
    """The changes table, one row per resource that was observed after ``begin`` and up to ``end``, and its basis.

    Raises:
        InvalidValue: ``begin`` lies before the recording.
    """
    before, after = _latest(known, begin), _latest(known, end)
    rows = known.rows
    between = rows[rows["observed"].astype(bool) & (rows["reported_at"] > begin) & (rows["reported_at"] <= end)]
    counted = between.groupby(KEY)["reported_at"].agg(observations="count", first_at="min", last_at="max")
    counts = Counted(_table(counted.reset_index(), COUNTED_SCHEMA), complete)
    return changes_parts(counts, _table(before, VALUES_SCHEMA), _table(after, VALUES_SCHEMA), begin, end)


def _latest(known: History, instant: datetime) -> pd.DataFrame:
    """One row per resource that was known at an instant, with its last value then."""
    if known.began_at is None or known.began_at > instant:
        begins = "holds nothing" if known.began_at is None else f"begins at {write_timestamp(known.began_at)}"
        raise InvalidValue(f"{write_timestamp(instant)} lies before the recording, which {begins}")
    rows = known.rows[known.rows["known_from"] <= instant]
    latest = _ordered(rows).drop_duplicates(KEY, keep="last").set_index(KEY)
    # Names and the like stand in the states alone, and hold until the next one.
    told = rows[~rows["observed"].astype(bool)].drop_duplicates(KEY, keep="last").set_index(KEY)
    # A recording of some paths may lack the resources that name units: what was recorded with the value counts.
    own_unit = latest["unit"].where(latest["observed"].astype(bool))
    latest[_OF_STATE] = told[_OF_STATE].reindex(latest.index)
    latest["unit"] = own_unit.where(own_unit.notna(), latest["unit"])
    appeared = rows.drop_duplicates(KEY).set_index(KEY).index
    latest = latest.reindex(appeared)
    latest["unit"] = _units(_ordered(known.naming[known.naming["known_from"] <= instant]), latest["unit"])
    by_observation = latest["observed"].astype(bool)
    latest["fresh_until"] = latest["fresh_until"].mask(by_observation)
    return latest.reset_index()


def _ordered(rows: pd.DataFrame) -> pd.DataFrame:
    """Within one instant the entries of the log follow the state they began from, in their order."""
    return rows.sort_values(["reported_at", "known_from", "observed"], kind="stable", na_position="first")


def _units(naming: pd.DataFrame, of_state: pd.Series) -> pd.Series:
    """The unit of each resource: as its device had named it last, else that of the state."""
    names = UnitNames()
    for row in zip(naming["device_id"], naming["path"], naming["reported_text"], strict=True):
        names.add(*row)
    keys = zip(*(of_state.index.get_level_values(name) for name in KEY), of_state, strict=True)
    return pd.Series([names.unit_of(*key) for key in keys], index=of_state.index, dtype=object)


def _told_or_declared(told: pd.Series, paths: Sequence[str], name: str) -> list[object]:
    """Labels or units: as the device has them, else as they are declared."""
    return [one or getattr(lookup(path), name, None) or None for one, path in zip(_plain(told), paths, strict=True)]


def _table(rows: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    return to_table({name: _plain(rows[name]) for name in schema.names}, schema)


def _plain(column: pd.Series) -> list[object]:
    """The values of a column as Arrow takes them."""
    return [
        None if pd.isna(value) else value.to_pydatetime() if isinstance(value, pd.Timestamp) else value
        for value in column
    ]
