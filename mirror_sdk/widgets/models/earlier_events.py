"""The events before the live ones.

They come from a recording or the history of the service, and from the notification log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from mirror_sdk._client import MirrorClient
from mirror_sdk.errors import AccessDenied, BeforeHistory, NotFound
from mirror_sdk.events import Event, EventKind, read_events, utc_now
from mirror_sdk.object_definitions import ResourceType, lookup
from mirror_sdk.values import Value, ValueKind
from mirror_sdk.widgets.models.formatting import format_value
from mirror_sdk.widgets.models.time_window import EARLIEST
from mirror_sdk.widgets.models.timeline import CompletedWrite

if TYPE_CHECKING:
    import pandas as pd

    from mirror_sdk.recording import Recording

ENTRIES_READ = 100_000
"""The maximum number of entries that are read from the log, and of rows that are read from a recording or the history.

The newest ones are read.
"""
HISTORY_READ = timedelta(days=1)
"""The length of the part of the history that is read. It ends at the start of the log."""

_KINDS = {kind.value: kind for kind in EventKind} | {"reported": EventKind.OBSERVATION}
"""The kinds of event by the words in events and history tables, except for the completion of a write."""
_ATTRIBUTES = (
    *("seq", "first_seq", "uid", "device_id", "endpoint_name", "path", "unit"),
    *("async_id", "status", "category"),
)
_COLUMNS = (
    *_ATTRIBUTES,
    *("event", "value_num", "value_text", "value_bool", "value_kind", "value_raw", "changed_at", "received_at"),
)


class EarlierEvents(NamedTuple):
    """The events that happened before the widget was created, with the oldest first.

    Attributes:
        recorded: The events of the recording, or of the history of the service, that are no longer in the log.
        logged: The events of the notification log.
        writes: The completed writes in the history of the service.
        history_until: The time up to which the history was read, by the clock of the service; ``None`` without a
            history.
    """

    recorded: tuple[Event, ...] = ()
    logged: tuple[Event, ...] = ()
    writes: tuple[CompletedWrite, ...] = ()
    history_until: datetime | None = None


def read_earlier_events(
    client: MirrorClient,
    recording: Recording | None,
    is_selected: Callable[[Event], bool],
    limit: int,
    *,
    devices: Sequence[str] = (),
    paths: Sequence[str] = (),
    length: timedelta = HISTORY_READ,
) -> EarlierEvents:
    """Read the events that happened before the widget was created. Other readers of the log are not affected.

    Args:
        client: The mirror.
        recording: A recording that is used instead of the history of the service.
        is_selected: A function that returns whether an event is selected.
        limit: The maximum number of events from each source. If there are more, the newest ones are read.
        devices: The selected devices. If empty, all devices are selected.
        paths: The selected path patterns. If empty, all paths are selected.
        length: The length of the part of the history to read, up to the current time.

    Raises:
        FileNotFoundError: The recording no longer exists.
        MirrorError: The log cannot be read.
        RecordingDamaged: A file of the recording is damaged.
    """
    logged, first_seq = read_log(client, is_selected, limit)
    if recording is None:
        log_begin = min((event.changed_at for event in logged if event.changed_at is not None), default=None)
        frame = _read_history(client, length, devices, paths, end=log_begin)
        # The log does not contain writes.
        newer = None if log_begin is None else _read_history(client, length, devices, paths, begin=log_begin)
        frames = [one for one in (frame, newer) if one is not None]
        selected = deque(filter(is_selected, () if frame is None else _events_of(frame)), maxlen=limit)
        writes = tuple(chain.from_iterable(map(writes_of, frames)))
        return EarlierEvents(tuple(selected), logged, writes, max(map(_instant_of, frames), default=None))
    uids = {event.uid for event in logged if event.uid is not None}
    recorded = _events_of(recording.events(raw=True).tail(ENTRIES_READ))
    selected = deque((event for event in recorded if is_selected(event) and event.uid not in uids), maxlen=limit)
    last_seq = recording.audit().last_seq
    if selected and (first_seq is None or last_seq is None or first_seq > last_seq + 1):
        # The entries between the recording and the log are missing.
        selected.append(Event(kind=EventKind.GAP, received_at=utc_now()))
    return EarlierEvents(tuple(selected), logged)


def read_log(
    client: MirrorClient, is_selected: Callable[[Event], bool], limit: int
) -> tuple[tuple[Event, ...], int | None]:
    """Return the newest events of the log, and the number of the first entry that the log still has."""
    reader = client._session.new_reader()
    if client._session.callbacks is not None:
        return (), None
    reader.go_to_end()
    end = reader.position or 0
    # Read only up to the current end, because entries may arrive as fast as they are read.
    begin = max(0, end - ENTRIES_READ)
    reader = client._session.new_reader(after=begin)
    selected: deque[Event] = deque(maxlen=limit)
    first_seq: int | None = None
    while (reader.position or 0) < end:
        batch = reader.read(0)
        if reader.last_failure is not None:
            raise reader.last_failure
        events: Iterable[Event] = read_events(batch, utc_now())
        if first_seq is None:
            first_seq = (begin if batch.gap is None else batch.gap.last_seq or begin) + 1
            # Older entries that the log has removed do not count as lost.
            events = islice(events, 0 if batch.gap is None else 1, None)
        selected.extend(filter(is_selected, events))
        if not batch.entries:
            break
    return tuple(selected), first_seq


def _read_history(
    client: MirrorClient,
    length: timedelta,
    devices: Sequence[str],
    paths: Sequence[str],
    *,
    begin: datetime | None = None,
    end: datetime | None = None,
) -> pd.DataFrame | None:
    """Return the newest rows of the history, by default up to the current time.

    The result is ``None`` if the service has no history.
    """
    try:
        end = end or _now(client)
        # The length ends now and the log begins before, so the difference of both may be before the first year.
        begin = begin or end - min(length, end - EARLIEST)
        frame = _newest_rows(client, begin, end, devices, paths)
    except (AccessDenied, BeforeHistory, NotFound):
        return None
    return frame.sort_values(["changed_at", "revision"], kind="stable")


def read_writes(
    client: MirrorClient, begin: datetime, devices: Sequence[str], paths: Sequence[str]
) -> tuple[tuple[CompletedWrite, ...], datetime]:
    """Return the writes that have completed since ``begin``, and the current time by the clock of the service.

    Raises:
        MirrorError: The history cannot be read.
    """
    frame = client.history(devices or None, paths or None, begin=begin, limit=ENTRIES_READ, raw=True)
    return writes_of(frame), _instant_of(frame)


def writes_of(frame: pd.DataFrame) -> tuple[CompletedWrite, ...]:
    """Return the completed writes of a history table with ``raw=True``."""
    frame = frame[frame["event"] == "write"]
    texts = {name: frame[name].astype(object).where(frame[name].notna(), None) for name in _COLUMNS if name in frame}
    rows = (dict(zip(texts, cells, strict=True)) for cells in zip(*texts.values(), strict=True))
    return tuple(
        CompletedWrite(row["device_id"], row["path"], at, _written(row), row.get("category") or "")
        for row in rows
        if (at := _instant(row["changed_at"])) is not None
    )


def _written(row: dict[str, Any]) -> str:
    value = _value(row)
    return "" if value is None else format_value(value, row.get("unit") or "")


def _now(client: MirrorClient) -> datetime:
    """Return the current time by the clock of the service."""
    return _instant_of(client.history(limit=1))


def _instant_of(frame: pd.DataFrame) -> datetime:
    """Return the timestamp of a table, by the clock of the service."""
    return datetime.fromisoformat(str(frame.attrs["mirror"]["taken_at"]))


def _newest_rows(
    client: MirrorClient, begin: datetime, end: datetime, devices: Sequence[str], paths: Sequence[str]
) -> pd.DataFrame:
    """Return the history of an interval.

    If the interval has too many rows, its beginning is omitted.
    """
    while True:
        try:
            frame = client.history(devices or None, paths or None, begin=begin, end=end, limit=ENTRIES_READ, raw=True)
        except BeforeHistory as error:
            if error.oldest_at is None or not begin < error.oldest_at < end:
                raise
            begin = error.oldest_at
            continue
        # The limit omits the last devices instead of the oldest rows. So if a page is full, it is read again from a
        # later start.
        if len(frame) < ENTRIES_READ or end - begin < timedelta(seconds=1):
            return frame
        begin = end - (end - begin) / 2


def _events_of(frame: pd.DataFrame) -> Iterator[Event]:
    """Convert the rows of an events or history table with ``raw=True`` to events."""
    names = [name for name in _COLUMNS if name in frame]
    cells = [frame[name].astype(object).where(frame[name].notna(), None) for name in names]
    for values in zip(*cells, strict=True):
        row = dict(zip(names, values, strict=True))
        kind = _KINDS.get(row["event"])
        if kind is not None:
            yield Event(
                kind=kind,
                received_at=_instant(row["received_at"]) or utc_now(),
                value=_value(row),
                changed_at=_instant(row["changed_at"]),
                **{name: row.get(name) for name in _ATTRIBUTES},
            )


def _instant(at: pd.Timestamp | None) -> datetime | None:
    return None if at is None else at.to_pydatetime()


def _value(row: dict[str, Any]) -> Value | None:
    kind = ValueKind(row["value_kind"] or ValueKind.NONE)
    if kind is ValueKind.NONE:
        return None
    python = next((row[name] for name in ("value_num", "value_text", "value_bool") if row[name] is not None), None)
    if kind is ValueKind.OPAQUE:
        python = row["value_raw"]
    elif kind is ValueKind.TIME and python is not None:
        python = datetime.fromisoformat(python)
    elif kind is ValueKind.NUMBER and python is not None and _is_integer(row["path"]):
        python = int(python)
    return Value(kind, python, row["value_raw"], None)


def _is_integer(path: str | None) -> bool:
    definition = lookup(path) if path else None
    return definition is not None and definition.type in {ResourceType.INTEGER, ResourceType.UNSIGNED}
