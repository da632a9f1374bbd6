"""The rows of a history or events table as arrays, the same of either."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from mirror_sdk.errors import InvalidValue
from mirror_sdk.frames.columns import need_times
from mirror_sdk.tables.columns import words_at
from mirror_sdk.tables.history import HISTORY_EVENTS
from mirror_sdk.values import ValueKind

Ints: TypeAlias = npt.NDArray[np.integer[Any]]
Floats: TypeAlias = npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]

VALUE, GAP = HISTORY_EVENTS.index("reported"), HISTORY_EVENTS.index("gap")
UP = (HISTORY_EVENTS.index("registration"), HISTORY_EVENTS.index("reg_update"))
DOWN = (HISTORY_EVENTS.index("deregistration"), HISTORY_EVENTS.index("expired"))
NONE, NUMBER, BOOLEAN, TEXT = range(4)
"""What kind of value a row tells."""

NEVER = np.iinfo(np.int64).max
"""Behind every instant."""
NO_TIME = np.iinfo(np.int64).min
"""No instant."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EVENTS = {"observation": "reported", "async_response": "reported"}
_TYPED = ("value_num", "value_bool", "value_text")
_NEEDED = (
    "take one of client.history(), client.notifications.events_frame() or a recording, with all its columns and rows"
)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows of a table, one place each. Instants are milliseconds since 1970, by the clocks of the devices.

    Attributes:
        what: Which of ``HISTORY_EVENTS``; -1 for what is none of them.
        device: Which of ``devices``; -1 for all of them.
        path: Which of ``paths``; -1 for none.
        at: When it happened.
        received: When it was received; the least number where that is not told.
        came: When it came to the service, or an earlier instant if that is all there is to tell it by; the least number
            for none.
        until: The end of a gap; ``NEVER`` where it has none.
        order: What came later has a larger number; what came at once may have the same.
        kind: ``NONE``, ``NUMBER``, ``BOOLEAN`` or ``TEXT``.
        number: The number, or 0 and 1 of a boolean; NaN for anything else.
        text: Which of ``texts``; -1 for none.
        unit: Which of ``units`` a number is in; -1 where that is not known.
        is_counted: Whether it is a row of the table, and not of the state before it.
        devices: Their ids, sorted.
        paths: The resource paths, sorted.
        texts: The values that are texts, sorted.
        units: The units, sorted.
    """

    what: Ints
    device: Ints
    path: Ints
    at: Ints
    received: Ints
    came: Ints
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

    def take(self, places: Ints | Flags) -> Rows:
        """These rows alone."""
        return replace(self, **{name: getattr(self, name)[places] for name in _COLUMNS})

    def with_rows(self, places: Ints, others: Rows) -> Rows:
        """These rows, and others of the same words, each before the row that stands at its place."""
        columns: dict[str, Any] = {
            name: np.insert(getattr(self, name), places, getattr(others, name)) for name in _COLUMNS
        }
        return replace(self, **columns)


_COLUMNS = tuple(field.name for field in fields(Rows) if field.name not in ("devices", "paths", "texts", "units"))


def rows_of(frame: pd.DataFrame, state: pd.DataFrame | None = None) -> Rows:
    """The rows of a table.

    Args:
        frame: A history or events table.
        state: A state table, whose values are told before the first row.

    Raises:
        InvalidValue: The table lacks a column or has it twice, or a column holds something else than its name says.
    """
    need(frame, "device_id", "path", "changed_at")
    what, at, until, order = _what(frame), _at(frame), _until(frame), _order(frame)
    if not any(name in frame for name in _TYPED):
        raise InvalidValue(f"the table lacks the columns {', '.join(_TYPED)}; {_NEEDED}")
    if {"origin", "until"}.isdisjoint(frame):
        # It is an events table, which does not say when a loss began and ended.
        at, until = _with_losses(frame, what, at, until, order)
    at = _with_begins(what, at, until)
    is_counted = np.ones(len(frame), dtype=bool)
    received = instants(frame["received_at"]) if "received_at" in frame else np.full(len(frame), NO_TIME)
    came = received if _is_numbered(frame, "revision") else _came(frame, what, at, until, order)
    times = {"at": at, "received": received, "came": came, "until": until}
    rows = _rows(frame, "value", what=what, **times, order=order, is_counted=is_counted)
    if state is not None:
        rows = _joined(_of_state(state), rows)
    is_timed = rows.at > NO_TIME
    return rows if is_timed.all() else rows.take(is_timed)


def need(frame: pd.DataFrame, *names: str) -> None:
    """See that a table has these columns, each once.

    Raises:
        InvalidValue: One is missing, or is there twice.
    """
    missing = [name for name in names if name not in frame]
    if missing:
        raise InvalidValue(f"the table lacks the column {', '.join(missing)}; {_NEEDED}")
    doubled = [name for name in dict.fromkeys(frame.columns) if (frame.columns == name).sum() > 1]
    if doubled:
        raise InvalidValue(f"the table has the column {', '.join(map(str, doubled))} more than once; leave one")


def milliseconds(instant: datetime) -> int:
    """An instant, since 1970."""
    return int((instant - _EPOCH) // timedelta(milliseconds=1))


def instants(column: pd.Series) -> Ints:
    """A column of times, in milliseconds since 1970; the least number for what is missing."""
    if not pd.api.types.is_datetime64_any_dtype(column.dtype):
        return np.full(len(column), NO_TIME)
    return pd.DatetimeIndex(column).as_unit("ms").asi8


def order_by(*columns: Ints) -> Ints:
    """The places of rows in order of the first column, then of the next ones; what is equal stays as it stands.

    Several columns are made one number as far as they fit, which is sorted much faster.
    """
    keys: list[Ints] = []
    room = 1
    for column in columns if len(columns[0]) else ():
        least, greatest = int(column.min()), int(column.max())
        width = greatest - least + 1
        own = column - least if width < NEVER else column
        if keys and room * width < NEVER:
            keys[-1] = keys[-1] * width + own
            room *= width
        else:
            keys.append(own)
            room = width
    return np.lexsort(keys[::-1]) if keys else np.arange(0)


def codes_of(column: pd.Series) -> tuple[Ints, pd.Index]:
    """Which of its words each cell is, -1 for none, and the words, sorted.

    Raises:
        InvalidValue: They are no texts.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, words = column.cat.codes.to_numpy(), column.cat.categories
    else:
        codes, words = pd.factorize(column)
        words = pd.Index(words)
    texts = pd.Index(words.astype(object))
    if not all(isinstance(text, str) for text in texts):
        raise InvalidValue(
            f"the column {column.name} holds {column.dtype}, not texts alone, as after a text file, in which pandas"
            f' takes 00012 for a number; read that again with pd.read_csv(file, dtype={{"{column.name}": "string"}})'
        )
    order = np.argsort(texts.to_numpy(dtype=object), kind="stable")
    # One more place, for -1.
    rank = np.empty(len(order) + 1, dtype=np.int64)
    rank[order], rank[-1] = np.arange(len(order)), -1
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


def _what(frame: pd.DataFrame) -> Ints:
    """Which of ``HISTORY_EVENTS`` each row is."""
    if "event" not in frame:
        raise InvalidValue(f"the table lacks the column event; {_NEEDED}")
    codes, words = codes_of(frame["event"])
    known = {word: place for place, word in enumerate(HISTORY_EVENTS)}
    meaning = np.array([*(known.get(_EVENTS.get(word, word), -1) for word in words), -1])
    what: Ints = meaning[codes]
    if "async_response" not in words:
        return what
    # The answer to a write or to an execution brings no value.
    return np.where((codes == words.get_loc("async_response")) & ~_has_value(frame), -1, what)


def _has_value(frame: pd.DataFrame) -> Flags:
    if "value_kind" in frame:
        return (frame["value_kind"].notna() & (frame["value_kind"] != ValueKind.NONE.value)).to_numpy(dtype=bool)
    return frame[[name for name in _TYPED if name in frame]].notna().any(axis=1).to_numpy(dtype=bool)


def _at(frame: pd.DataFrame) -> Ints:
    """When each row happened: as the device tells it, else when it was received."""
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
    """The order of arrival: as the table numbers its rows, else when they were received, and as they stand there."""
    for name in ("revision", "seq"):
        if _is_numbered(frame, name):
            return frame[name].to_numpy(dtype=np.int64)
    if "received_at" not in frame:
        return np.arange(len(frame))
    order: Ints = np.unique(instants(frame["received_at"]), return_inverse=True)[1]
    return order


def _is_numbered(frame: pd.DataFrame, name: str) -> bool:
    """Whether a column numbers all rows."""
    return name in frame and pd.api.types.is_integer_dtype(frame[name]) and not frame[name].isna().any()


def _came(frame: pd.DataFrame, what: Ints, at: Ints, until: Ints, order: Ints) -> Ints:
    """When each row came to the service at the earliest: at the newest instant of its clock that came before.

    The service numbers its history, and tells when it received what. Of any other table the receipt is by another
    clock, and may be of all at once.
    """
    came = np.full(len(frame), NO_TIME)
    if "received_at" not in frame and not _is_numbered(frame, "seq"):
        return came
    by_service = np.where(np.isin(what, (*UP, *DOWN)), at, np.where((what == GAP) & (until < NEVER), until, NO_TIME))
    places = np.flatnonzero(by_service > NO_TIME)
    places = places[np.argsort(order[places])]
    if not len(places):
        return came
    newest = np.maximum.accumulate(by_service[places])
    before = np.searchsorted(order[places], order, side="right")
    return np.where(before > 0, newest[before - 1], NO_TIME)


def _with_losses(frame: pd.DataFrame, what: Ints, at: Ints, until: Ints, order: Ints) -> tuple[Ints, Ints]:
    """From when to when each loss of an events table reaches: from what came before it to what came behind it.

    A loss comes with the first entries behind it, so it was received with these, or later than all before it.
    """
    need(frame, "received_at")
    received = instants(frame["received_at"])
    first = frame["first_seq"].to_numpy(dtype=np.float64, na_value=np.nan) if "first_seq" in frame else None
    at, until = at.copy(), until.copy()
    is_told = (what != GAP) & (at > NO_TIME)
    for place in np.flatnonzero(what == GAP):
        is_before = received < received[place]
        if first is not None and not np.isnan(first[place]):
            is_before |= (received == received[place]) & (order < first[place])
        before, behind = at[is_told & is_before], at[is_told & ~is_before]
        # What was lost before all that is told leaves no hole in it.
        begin = before.max() if len(before) else behind.min(initial=received[place])
        at[place] = begin
        until[place] = behind[behind > begin].min(initial=NEVER) if len(before) else begin
    return at, until


def _with_begins(what: Ints, at: Ints, until: Ints) -> Ints:
    """The same, with gaps of which only the end is known from the newest row before that on."""
    at = at.copy()
    for place in np.flatnonzero((what == GAP) & (at == NO_TIME) & (until < NEVER)):
        at[place] = at[(what != GAP) & (at < until[place])].max(initial=NO_TIME)
    return at


def _of_state(state: pd.DataFrame) -> Rows:
    """The values of a state table, each as it was told then."""
    need(state, "device_id", "path", "reported_at")
    need_times(state, "reported_at")
    count = len(state)
    reported_at, taken_at = instants(state["reported_at"]), state.attrs.get("mirror", {}).get("taken_at")
    if taken_at is not None:
        # A service of an earlier version gives the receipt, which may lie behind the instant the state is of.
        reported_at = np.minimum(reported_at, milliseconds(pd.Timestamp(taken_at)))
    return _rows(
        state,
        "reported",
        what=np.full(count, VALUE),
        at=reported_at,
        received=np.full(count, NO_TIME),
        came=np.full(count, NO_TIME),
        until=np.full(count, NEVER),
        order=np.full(count, NO_TIME),
        is_counted=np.zeros(count, dtype=bool),
    )


def _joined(first: Rows, second: Rows) -> Rows:
    """The rows of both."""
    columns: dict[str, Any] = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in _COLUMNS}
    for name, words in (("device", "devices"), ("path", "paths"), ("text", "texts"), ("unit", "units")):
        both = [getattr(rows, words) for rows in (first, second)]
        columns[words] = both[0].union(both[1])
        codes = [
            np.append(columns[words].get_indexer(own), -1)[getattr(rows, name)]
            for own, rows in zip(both, (first, second), strict=True)
        ]
        columns[name] = np.concatenate(codes)
    return Rows(**columns)


def _values(frame: pd.DataFrame, of: str) -> tuple[Ints, Floats, Ints, pd.Index]:
    """The kind, the number, and which text the value of each row is, and the texts."""
    kind = np.zeros(len(frame), dtype=np.int8)
    number = np.full(len(frame), np.nan)
    for name, its_kind in ((f"{of}_num", NUMBER), (f"{of}_bool", BOOLEAN)):
        if name in frame and not frame[name].isna().all():
            told = _numbers(frame[name])
            is_told = ~np.isnan(told)
            number = np.where(is_told, told, number)
            kind[is_told] = its_kind
    text, texts = _texts(frame, f"{of}_text")
    kind[text >= 0] = TEXT
    return kind, number, text, texts


def _numbers(column: pd.Series) -> Floats:
    try:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as exc:
        raise InvalidValue(
            f"the column {column.name} holds {column.dtype}, no numbers, as after a text file; mend it with"
            f' frame["{column.name}"] = pd.to_numeric(frame["{column.name}"]).astype("Float64")'
        ) from exc


def _texts(frame: pd.DataFrame, name: str) -> tuple[Ints, pd.Index]:
    if name not in frame or frame[name].isna().all():
        return np.broadcast_to(np.int64(-1), len(frame)), pd.Index([], dtype=object)
    return codes_of(frame[name])


def words_of(codes: Ints, words: pd.Index, places: Ints | None = None) -> pa.DictionaryArray:
    """A category column of codes into some words, with the words that occur; -1 is none.

    Args:
        codes: The codes.
        words: The words.
        places: Which code each cell has; each has its own by default.
    """
    used = np.unique(codes[codes >= 0])
    indices = pa.array(np.searchsorted(used, codes).astype(np.int32), mask=codes < 0)
    if places is not None:
        indices = indices.take(pa.array(places))
    return pa.DictionaryArray.from_arrays(indices, pa.array(words[used], pa.string()))


def names_of(codes: Ints, names: npt.NDArray[np.object_], places: Ints | None = None) -> pa.DictionaryArray:
    """A category column of the endpoint names of devices; the arguments are those of :func:`words_of`."""
    used = np.unique(codes[codes >= 0])
    indices = pa.array(np.searchsorted(used, codes).astype(np.int32), mask=codes < 0)
    if places is not None:
        indices = indices.take(pa.array(places))
    return words_at(indices, pa.array(names[used], pa.string()))


def endpoint_names(devices: pd.Index, *frames: pd.DataFrame) -> npt.NDArray[np.object_]:
    """The endpoint name of each device, as the last row of the last of these tables names it; ``None`` for none."""
    names = np.full(len(devices), None, dtype=object)
    for frame in frames:
        if "endpoint_name" in frame:
            device, ids = codes_of(frame["device_id"])
            name, words = codes_of(frame["endpoint_name"])
            is_named = (device >= 0) & (name >= 0)
            place = devices.get_indexer(ids)[device[is_named]]
            names[place[place >= 0]] = words.to_numpy()[name[is_named]][place >= 0]
    return names


def times_of(at: Ints) -> pa.Array:
    """A column of times; ``NEVER`` and ``NO_TIME`` are none."""
    return pa.array(at, mask=(at == NEVER) | (at == NO_TIME)).view(pa.timestamp("ms", tz="UTC"))


def spans_of(lengths: Ints) -> pa.Array:
    """A column of spans of time, of milliseconds."""
    return pa.array(lengths).view(pa.duration("ms"))
