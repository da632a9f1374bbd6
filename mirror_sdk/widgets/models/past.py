"""What was before the live events: what a recording or else the service's history holds, and what the log still has."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from mirror_sdk._client import MirrorClient
from mirror_sdk._protocol.log_reader import LogReader
from mirror_sdk.errors import AccessDenied, BeforeHistory, NotFound
from mirror_sdk.events import Event, EventKind, read_events, utc_now
from mirror_sdk.object_table import ResourceType, lookup
from mirror_sdk.values import Value, ValueKind
from mirror_sdk.wire.history import EVENT_KINDS

if TYPE_CHECKING:
    import pandas as pd

    from mirror_sdk.recording import Recording

ENTRIES_READ = 100_000
"""How many entries of the log, and rows of a recording, are looked at: the newest ones."""

Wants = Callable[[Event], bool]


LOOKED_BACK = timedelta(days=1)
"""How far back a history is looked at, from where the log begins."""
_FEWER = 2

_KINDS = {kind.value: kind for kind in EventKind if kind.value in EVENT_KINDS} | {"reported": EventKind.OBSERVATION}
"""What a row of a history is among events; an end of a write is none."""


class Past(NamedTuple):
    """What was before, oldest first.

    Attributes:
        recorded: Events of the recording, or of the service's history, that the log has no more.
        logged: Events of the log.
        position: Number of the last entry of the log that was looked at; ``None`` where the log cannot be read.
    """

    recorded: tuple[Event, ...] = ()
    logged: tuple[Event, ...] = ()
    position: int | None = None


def read_past(
    client: MirrorClient,
    recording: Recording | None,
    wants: Wants,
    most: int,
    *,
    devices: Sequence[str] = (),
    paths: Sequence[str] = (),
) -> Past:
    """Read what was before; nothing waits for it, and no other reader notices.

    Args:
        client: The mirror.
        recording: A recording to begin with, in the place of the service's history.
        wants: Which events are wanted.
        most: How many are kept of each source, the newest.
        devices: The devices that are wanted; none is all.
        paths: The path patterns that are wanted; none is all.

    Raises:
        FileNotFoundError: There is no such recording any more.
        MirrorError: The log cannot be read.
        RecordingDamaged: A file of the recording is not as it was written.
    """
    logged, first_seq, position = _read_log(client, wants, most)
    if recording is None:
        kept = deque((one for one in _kept_events(client, logged, devices, paths) if wants(one)), maxlen=most)
        return Past(tuple(kept), logged, position)
    uids = {event.uid for event in logged if event.uid is not None}
    recorded = deque((one for one in recorded_events(recording) if wants(one) and one.uid not in uids), maxlen=most)
    last_seq = recording.audit().last_seq
    if recorded and (first_seq is None or last_seq is None or first_seq > last_seq + 1):
        # What lies between both is in neither.
        recorded.append(Event(kind=EventKind.GAP, received_at=utc_now()))
    return Past(tuple(recorded), logged, position)


def recorded_events(recording: Recording) -> Iterator[Event]:
    """The events of a recording, the newest ones, in their order."""
    frame = recording.events(raw=True).tail(ENTRIES_READ)
    columns = [_plain(frame[name]) for name in _COLUMNS]
    return (_recorded(dict(zip(_COLUMNS, row, strict=True))) for row in zip(*columns, strict=True))


def _kept_events(
    client: MirrorClient, logged: Sequence[Event], devices: Sequence[str], paths: Sequence[str]
) -> Iterator[Event]:
    """What the service's history has from before the log, in the order of time; nothing where there is none."""
    end = min((event.changed_at for event in logged if event.changed_at is not None), default=None)
    rows: Iterable[dict[str, Any]]
    try:
        rows = _read_rows(client, end or _present(client), devices, paths)
    except (AccessDenied, BeforeHistory, NotFound):
        rows = ()
    return map(_of_row, rows)


def _present(client: MirrorClient) -> datetime:
    """The present by the service's clock, which tells it with a history."""
    taken_at: str = client.history(limit=1).attrs["mirror"]["taken_at"]
    return datetime.fromisoformat(taken_at)


def _read_rows(
    client: MirrorClient, end: datetime, devices: Sequence[str], paths: Sequence[str]
) -> Iterable[dict[str, Any]]:
    """The rows of a history up to an instant, from an interval of which they are not too many."""
    begin = end - LOOKED_BACK
    while True:
        try:
            frame = client.history(devices or None, paths or None, begin=begin, end=end, limit=ENTRIES_READ, raw=True)
        except BeforeHistory as error:
            if error.oldest_at is None or not begin < error.oldest_at < end:
                raise
            begin = error.oldest_at
            continue
        if len(frame) < ENTRIES_READ or end - begin < timedelta(seconds=1):
            break
        begin = end - (end - begin) / _FEWER
    ordered = frame.sort_values(["changed_at", "revision"], kind="stable")
    columns = [_plain(ordered[name]) for name in ordered]
    named = (dict(zip(map(str, ordered), row, strict=True)) for row in zip(*columns, strict=True))
    return (row for row in named if row["event"] in _KINDS)


def _of_row(row: dict[str, Any]) -> Event:
    return Event(
        kind=_KINDS[row["event"]],
        received_at=_instant(row["received_at"]) or utc_now(),
        value=_value(row),
        changed_at=_instant(row["changed_at"]),
        **{name: row[name] for name in ("device_id", "endpoint_name", "path", "unit")},
    )


def _read_log(client: MirrorClient, wants: Wants, most: int) -> tuple[tuple[Event, ...], int | None, int | None]:
    """The newest events of the log, the number of the first entry it still had, and that of the last one."""
    reader = client._session.new_reader()
    if not isinstance(reader, LogReader):
        return (), None, None
    reader.go_to_end()
    end = reader.position or 0
    begin = max(0, end - ENTRIES_READ)
    reader = client._session.new_reader(after=begin)
    kept: deque[Event] = deque(maxlen=most)
    first_seq: int | None = None
    while (reader.position or 0) < end:
        batch = reader.read(0)
        if reader.last_failure is not None:
            raise reader.last_failure
        events = read_events(batch, utc_now())
        if first_seq is None:
            first_seq = (begin if batch.gap is None else batch.gap.last_seq or begin) + 1
            # What the log has no more is no loss: nobody was told that it is here.
            events = islice(events, 0 if batch.gap is None else 1, None)
        kept.extend(filter(wants, events))
        if not batch.entries:
            break
    return tuple(kept), first_seq, reader.position


_COLUMNS = (
    *("seq", "first_seq", "uid", "event", "device_id", "endpoint_name", "path", "unit", "value_num", "value_text"),
    *("value_bool", "value_kind", "changed_at", "received_at", "async_id", "status", "category", "value_raw"),
)


def _plain(column: pd.Series[Any]) -> list[Any]:
    values = column.astype(object)
    return list(values.where(column.notna(), None))


def _recorded(row: dict[str, Any]) -> Event:
    return Event(
        kind=EventKind(row["event"]),
        received_at=_instant(row["received_at"]) or utc_now(),
        value=_value(row),
        changed_at=_instant(row["changed_at"]),
        **{name: row[name] for name in ("seq", "first_seq", "uid", "device_id", "endpoint_name", "path", "unit")},
        **{name: row[name] for name in ("async_id", "status", "category")},
    )


def _instant(at: pd.Timestamp | None) -> datetime | None:
    return None if at is None else at.to_pydatetime()


def _value(row: dict[str, Any]) -> Value | None:
    kind = ValueKind(row["value_kind"] or ValueKind.NONE)
    python = next((row[name] for name in ("value_num", "value_text", "value_bool") if row[name] is not None), None)
    if kind is ValueKind.NONE:
        return None
    if kind is ValueKind.OPAQUE:
        python = row["value_raw"]
    elif kind is ValueKind.TIME and python is not None:
        python = datetime.fromisoformat(python)
    elif kind is ValueKind.NUMBER and python is not None and _is_whole(row["path"]):
        python = int(python)
    return Value(kind, python, row["value_raw"], None)


def _is_whole(path: str | None) -> bool:
    definition = lookup(path) if path else None
    return definition is not None and definition.type in {ResourceType.INTEGER, ResourceType.UNSIGNED}
