"""The rows of a history or events table as NumPy arrays.

Both kinds of table are converted to the same arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from mirror_sdk.arrow_tables.history import HISTORY_EVENTS
from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.columns import named_columns, need_times
from mirror_sdk.values import ValueKind

Ints: TypeAlias = npt.NDArray[np.integer[Any]]
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)

VALUE, GAP = HISTORY_EVENTS.index("reported"), HISTORY_EVENTS.index("gap")
UP = (HISTORY_EVENTS.index("registration"), HISTORY_EVENTS.index("reg_update"))
DOWN = (HISTORY_EVENTS.index("deregistration"), HISTORY_EVENTS.index("expired"))
NONE, NUMBER, BOOLEAN, TEXT = range(4)
"""The kinds of values that a row can have."""

NEVER = np.iinfo(np.int64).max
"""A timestamp later than all others."""
NO_TIME = np.iinfo(np.int64).min
"""The marker of a missing timestamp."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EVENTS = {"observation": "reported", "async_response": "reported"}
_TYPED = ("value_num", "value_bool", "value_text")
_NEEDED = (
    "use a table of client.history(), client.notifications.events_frame() or a recording, with all its columns and rows"
)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows of a table as arrays with one element per row.

    Times are in milliseconds since 1970, by the clocks of the devices.

    Attributes:
        event: The index into ``HISTORY_EVENTS``; -1 for any other event.
        device: The index into ``devices``; -1 for a row that concerns all devices.
        path: The index into ``paths``; -1 for a row without a path.
        at: The time at which the event happened.
        received: The time at which the event was received; ``NO_TIME`` if it is unknown.
        arrived: The time at which the event reached the service. If only an earlier bound is known, it is that time, or
            ``NO_TIME`` if there is no such bound.
        until: The end of a gap; ``NEVER`` if the gap has no end.
        order: The position in the order of arrival. Rows that arrived together may have the same number.
        kind: ``NONE``, ``NUMBER``, ``BOOLEAN`` or ``TEXT``.
        number: The number, which is 0 or 1 for a boolean and NaN for any other value.
        text: The index into ``texts``; -1 if the value is not a string.
        unit: The index into ``units`` for a number; -1 if the unit is unknown.
        is_counted: Whether the row belongs to the table, and not to the state before it.
        devices: The sorted device ids.
        paths: The sorted resource paths.
        texts: The sorted values that are strings.
        units: The sorted units.
    """

    event: Ints
    device: Ints
    path: Ints
    at: Ints
    received: Ints
    arrived: Ints
    until: Ints
    order: Ints
    kind: Ints
    number: Floats
    text: Ints
    unit: Ints
    is_counted: Flags
    devices: pd.Index
    paths: pd.Index
    texts: pd.Index
    units: pd.Index

    def __len__(self) -> int:
        return len(self.at)

    def take(self, positions: Ints | Flags) -> Rows:
        """Select rows."""
        return replace(self, **{name: getattr(self, name)[positions] for name in _COLUMNS})

    def with_rows(self, positions: Ints, others: Rows) -> Rows:
        """Insert each of the other rows before the row at its position.

        Both objects must have the same ``devices``, ``paths``, ``texts`` and ``units``.
        """
        columns: dict[str, Any] = {
            name: np.insert(getattr(self, name), positions, getattr(others, name)) for name in _COLUMNS
        }
        return replace(self, **columns)


_COLUMNS = tuple(field.name for field in fields(Rows) if field.name not in ("devices", "paths", "texts", "units"))


def rows_of(frame: pd.DataFrame, state: pd.DataFrame | None = None) -> Rows:
    """Read the rows of a table.

    Args:
        frame: A history or events table.
        state: A state table that supplies the values before the first row.

    Raises:
        InvalidValue: The table lacks a column or has it twice, or a column has values of the wrong type.
    """
    need(frame, "device_id", "path", "changed_at")
    event, at, until, order = _event(frame), _at(frame), _until(frame), _order(frame)
    if not any(name in frame for name in _TYPED):
        raise InvalidValue(f"the table lacks {named_columns(_TYPED)}; {_NEEDED}")
    if {"origin", "until"}.isdisjoint(frame):
        # An events table does not contain the times at which a loss began and ended.
        at, until = _with_losses(frame, event, at, until, order)
    at = _with_begins(event, at, until)
    received = instants(frame["received_at"]) if "received_at" in frame else np.full(len(frame), NO_TIME)
    rows = _rows(
        frame,
        "value",
        event=event,
        at=at,
        received=received,
        arrived=received if _is_numbered(frame, "revision") else _arrived(frame, event, at, until, order),
        until=until,
        order=order,
        is_counted=np.ones(len(frame), dtype=bool),
    )
    if state is not None:
        rows = _concatenated(_of_state(state), rows)
    is_timed = rows.at > NO_TIME
    return rows if is_timed.all() else rows.take(is_timed)


def need(frame: pd.DataFrame, *names: str) -> None:
    """Check that a table has each of these columns exactly once.

    Raises:
        InvalidValue: A column is missing or occurs twice.
    """
    missing = [name for name in names if name not in frame]
    if missing:
        raise InvalidValue(f"the table lacks {named_columns(missing)}; {_NEEDED}")
    doubled = frame.columns[frame.columns.duplicated()].unique()
    if len(doubled):
        raise InvalidValue(f"the table has {named_columns(doubled)} more than once; drop all but one")


def milliseconds(instant: datetime) -> int:
    """Convert a datetime to milliseconds since 1970."""
    return int((instant - _EPOCH) // timedelta(milliseconds=1))


def instants(column: pd.Series) -> Ints:
    """Convert a column of times to milliseconds since 1970. Missing times become ``NO_TIME``."""
    if not pd.api.types.is_datetime64_any_dtype(column.dtype):
        return np.full(len(column), NO_TIME)
    return pd.DatetimeIndex(column).as_unit("ms").asi8


def is_start(*columns: npt.NDArray[Any]) -> Flags:
    """Return which rows differ from the previous row in any of the columns. This is always true for the first row."""
    differs = reduce(np.logical_or, (column[1:] != column[:-1] for column in columns))
    return np.append(True, differs)[: len(columns[0])]


def is_end(*columns: npt.NDArray[Any]) -> Flags:
    """Return which rows differ from the next row in any of the columns. This is always true for the last row."""
    return np.append(is_start(*columns)[1:], True)[: len(columns[0])]


def following(values: npt.NDArray[T], last: int = 0) -> npt.NDArray[T]:
    """Return, for each row, the value of the next row. For the last row, return ``last``."""
    moved: npt.NDArray[T] = np.append(values[1:], np.array(last, values.dtype))[: len(values)]
    return moved


def order_by(*columns: Ints) -> Ints:
    """Return the positions that sort rows by the first column, then by the next ones.

    The sort is stable. As many columns as possible are combined into one number, because it can be sorted faster.
    """
    keys: list[Ints] = []
    room = 1
    for column in columns if len(columns[0]) else ():
        least, greatest = int(column.min()), int(column.max())
        width = greatest - least + 1
        # The difference overflows if a column has NO_TIME. Such a column becomes a separate sort key.
        own = column - least if width < NEVER else column
        if keys and room * width < NEVER:
            keys[-1] = keys[-1] * width + own
            room *= width
        else:
            keys.append(own)
            room = width
    return np.lexsort(keys[::-1]) if keys else np.arange(0)


def codes_of(column: pd.Series) -> tuple[Ints, pd.Index]:
    """Return the index of each cell into the sorted distinct strings of a column, and these strings.

    The index of a missing cell is -1.

    Raises:
        InvalidValue: The column has values that are not strings.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, words = column.cat.codes.to_numpy(), column.cat.categories
    else:
        codes, words = pd.factorize(column)
    texts = pd.Index(words).astype(object)
    if not all(isinstance(text, str) for text in texts):
        raise InvalidValue(
            f"the column {column.name} has values that are not strings ({column.dtype}): pandas reads"
            f' 00012 as a number. Read the file again with pd.read_csv(file, dtype={{"{column.name}": "string"}})'
        )
    order = np.argsort(texts.to_numpy(dtype=object), kind="stable")
    # The extra rank is for the index -1.
    rank = np.append(np.argsort(order), -1)
    return rank[codes], texts[order]


def _rows(frame: pd.DataFrame, of: str, **arrays: npt.NDArray[Any]) -> Rows:
    device, devices = codes_of(frame["device_id"])
    path, paths = codes_of(frame["path"])
    kind, number, text, texts = _values(frame, of)
    unit, units = _texts(frame, "unit")
    return Rows(
        **arrays,
        device=device,
        path=path,
        kind=kind,
        number=number,
        text=text,
        unit=unit,
        devices=devices,
        paths=paths,
        texts=texts,
        units=units,
    )


def _event(frame: pd.DataFrame) -> Ints:
    """Return the index of the event of each row into ``HISTORY_EVENTS``."""
    if "event" not in frame:
        raise InvalidValue(f"the table lacks the column event; {_NEEDED}")
    codes, words = codes_of(frame["event"])
    index_of = {word: index for index, word in enumerate(HISTORY_EVENTS)}
    events = np.array([*(index_of.get(_EVENTS.get(word, word), -1) for word in words), -1])
    event: Ints = events[codes]
    if "async_response" not in words:
        return event
    # The response to a write or to an execute operation has no value.
    return np.where((codes == words.get_loc("async_response")) & ~_has_value(frame), -1, event)


def _has_value(frame: pd.DataFrame) -> Flags:
    if "value_kind" in frame:
        return (frame["value_kind"].notna() & (frame["value_kind"] != ValueKind.NONE.value)).to_numpy(dtype=bool)
    return frame[[name for name in _TYPED if name in frame]].notna().any(axis=1).to_numpy(dtype=bool)


def _at(frame: pd.DataFrame) -> Ints:
    """Return the time of each row. This is the device's time or, if the device sent no time, the time of receipt."""
    names = [name for name in ("changed_at", "received_at") if name in frame]
    need_times(frame, *names)
    at = instants(frame["changed_at"])
    if "received_at" in names and (at == NO_TIME).any():
        at = np.where(at == NO_TIME, instants(frame["received_at"]), at)
    return at


def _until(frame: pd.DataFrame) -> Ints:
    if "until" not in frame or frame["until"].isna().all():
        return np.full(len(frame), NEVER)
    need_times(frame, "until")
    until = instants(frame["until"])
    return np.where(until == NO_TIME, NEVER, until)


def _order(frame: pd.DataFrame) -> Ints:
    """Return the order of arrival.

    It comes from the numbers of the entries. If the table has no numbers, it comes from the times of receipt, and
    without these from the order of the rows.
    """
    for name in ("revision", "seq"):
        if _is_numbered(frame, name):
            return frame[name].to_numpy(dtype=np.int64)
    if "received_at" not in frame:
        return np.arange(len(frame))
    order: Ints = np.unique(instants(frame["received_at"]), return_inverse=True)[1]
    return order


def _is_numbered(frame: pd.DataFrame, name: str) -> bool:
    """Return whether a column has a number for every row."""
    return name in frame and pd.api.types.is_integer_dtype(frame[name]) and not frame[name].isna().any()


def _arrived(frame: pd.DataFrame, event: Ints, at: Ints, until: Ints, order: Ints) -> Ints:
    """Return a lower bound of the time at which each row reached the service.

    It is the newest time by the clock of the service up to the row. A history is numbered by the service, which also
    records when it received each row. In any other table, the time of receipt comes from another clock, and many rows
    may have the same time of receipt.
    """
    arrived = np.full(len(frame), NO_TIME)
    if "received_at" not in frame and not _is_numbered(frame, "seq"):
        return arrived
    by_service = np.where(np.isin(event, (*UP, *DOWN)), at, np.where((event == GAP) & (until < NEVER), until, NO_TIME))
    positions = np.flatnonzero(by_service > NO_TIME)
    positions = positions[np.argsort(order[positions])]
    if not len(positions):
        return arrived
    newest = np.maximum.accumulate(by_service[positions])
    before = np.searchsorted(order[positions], order, side="right")
    return np.where(before > 0, newest[before - 1], NO_TIME)


def _with_losses(frame: pd.DataFrame, event: Ints, at: Ints, until: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Return the start and end of each loss in an events table.

    A loss extends from the rows before it to the rows after it. It arrives with the first entries after it. It was
    therefore received together with them, and after all earlier rows.
    """
    need(frame, "received_at")
    received = instants(frame["received_at"])
    first = frame["first_seq"].to_numpy(dtype=np.float64, na_value=np.nan) if "first_seq" in frame else None
    at, until = at.copy(), until.copy()
    is_other = (event != GAP) & (at > NO_TIME)
    for position in np.flatnonzero(event == GAP):
        is_before = received < received[position]
        if first is not None and not np.isnan(first[position]):
            is_before |= (received == received[position]) & (order < first[position])
        before, after = at[is_other & is_before], at[is_other & ~is_before]
        # A loss before all rows does not leave a gap between them.
        begin = before.max() if len(before) else after.min(initial=received[position])
        at[position] = begin
        until[position] = after[after > begin].min(initial=NEVER) if len(before) else begin
    return at, until


def _with_begins(event: Ints, at: Ints, until: Ints) -> Ints:
    """Set the start of each gap with an unknown start to the newest row before the end of the gap."""
    at = at.copy()
    for position in np.flatnonzero((event == GAP) & (at == NO_TIME) & (until < NEVER)):
        at[position] = at[(event != GAP) & (at < until[position])].max(initial=NO_TIME)
    return at


def _of_state(state: pd.DataFrame) -> Rows:
    """Convert the values of a state table to rows. The time of each row is the time at which its value was reported."""
    need(state, "device_id", "path", "reported_at")
    need_times(state, "reported_at")
    count = len(state)
    reported_at, taken_at = instants(state["reported_at"]), state.attrs.get("mirror", {}).get("taken_at")
    if taken_at is not None:
        # A service of an earlier version sends the time of receipt, which may be later than the timestamp of the state.
        reported_at = np.minimum(reported_at, milliseconds(pd.Timestamp(taken_at)))
    unknown = np.full(count, NO_TIME)
    return _rows(
        state,
        "reported",
        event=np.full(count, VALUE),
        at=reported_at,
        received=unknown,
        arrived=unknown,
        until=np.full(count, NEVER),
        # The state precedes all rows of the table.
        order=unknown,
        is_counted=np.zeros(count, dtype=bool),
    )


def _concatenated(first: Rows, second: Rows) -> Rows:
    columns: dict[str, Any] = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in _COLUMNS}
    for name, words in (("device", "devices"), ("path", "paths"), ("text", "texts"), ("unit", "units")):
        union = getattr(first, words).union(getattr(second, words))
        codes = [np.append(union.get_indexer(getattr(one, words)), -1)[getattr(one, name)] for one in (first, second)]
        columns |= {name: np.concatenate(codes), words: union}
    return Rows(**columns)


def _values(frame: pd.DataFrame, of: str) -> tuple[Ints, Floats, Ints, pd.Index]:
    """Return the kind, number and string index of each value, and the distinct strings."""
    kind = np.zeros(len(frame), dtype=np.int8)
    number = np.full(len(frame), np.nan)
    for name, kind_code in ((f"{of}_num", NUMBER), (f"{of}_bool", BOOLEAN)):
        if name in frame and not frame[name].isna().all():
            numbers = _numbers(frame[name])
            is_number = ~np.isnan(numbers)
            number = np.where(is_number, numbers, number)
            kind[is_number] = kind_code
    text, texts = _texts(frame, f"{of}_text")
    kind[text >= 0] = TEXT
    return kind, number, text, texts


def _numbers(column: pd.Series) -> Floats:
    try:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as exc:
        raise InvalidValue(
            f"the column {column.name} has {column.dtype} instead of numbers; convert it with"
            f' frame["{column.name}"] = pd.to_numeric(frame["{column.name}"]).astype("Float64")'
        ) from exc


def _texts(frame: pd.DataFrame, name: str) -> tuple[Ints, pd.Index]:
    if name not in frame or frame[name].isna().all():
        # All rows share one element, so a column without strings needs no memory.
        return np.broadcast_to(np.int64(-1), len(frame)), pd.Index([], dtype=object)
    return codes_of(frame[name])


def endpoint_names(devices: pd.Index, *frames: pd.DataFrame) -> npt.NDArray[np.object_]:
    """Return the newest endpoint name of each device, or ``None`` for devices without one."""
    names = np.full(len(devices), None, dtype=object)
    for frame in frames:
        if "endpoint_name" in frame:
            device, ids = codes_of(frame["device_id"])
            name, words = codes_of(frame["endpoint_name"])
            is_named = (device >= 0) & (name >= 0)
            index = devices.get_indexer(ids)[device[is_named]]
            # If an element is assigned several times, NumPy keeps the last assignment, which is the newest name.
            names[index[index >= 0]] = words.to_numpy()[name[is_named]][index >= 0]
    return names
