"""What happens to devices, as the notification log tells it: one :class:`Event` for each entry.

Source: specification 6; wire.md 5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import chain, pairwise

from mirror_sdk._arguments import text
from mirror_sdk._visible import visible
from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_table import lookup
from mirror_sdk.values import Value, decode
from mirror_sdk.wire.log_entries import Batch, Entry, EntryBody, Gap, Unreadable
from mirror_sdk.wire.model import JsonForm
from mirror_sdk.wire.notifications import AsyncResponse, Notification, RegistrationEvent
from mirror_sdk.wire.paths import check_path_pattern, matches

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EventKind(StrEnum):
    """What an event tells. ``GAP`` is a loss, ``UNKNOWN`` is an entry this version cannot read."""

    OBSERVATION = "observation"
    ASYNC_RESPONSE = "async_response"
    REGISTRATION = "registration"
    REG_UPDATE = "reg_update"
    DEREGISTRATION = "deregistration"
    EXPIRED = "expired"
    GAP = "gap"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Event(JsonForm):
    """One entry of the notification log. What an entry of its kind does not have is ``None``.

    Attributes:
        kind: What it tells.
        received_at: When this client received it, by the clock here; no other instant of an event is of that clock.
        seq: Its number in the log: a larger one is later. A service that does not tell it of each entry tells that
            of the last one of the message only, and the events of a message then come kind by kind. For a gap, the
            last number that is missing.
        first_seq: For a gap, the first number that is missing.
        device_id: The device it is about.
        endpoint_name: The name that device registers with.
        path: The resource path it is about; of an async response the one its request was about.
        unit: The unit of a number under this path, as it is declared; one that a device itself names (resource 5701)
            stands in its device object, and in the tables of ``client.notifications.events_frame`` and of recordings.
        value: The new value of an observation; the value a device request brought. Where a service does not tell the
            path of an async response, a text in it is left as text.
        changed_at: When the value changed, as the device tells it; for other kinds when it happened.
        async_id: The device request an async response belongs to.
        status: Status of an async response.
        category: Why a device request failed.
        uid: The entry's identity, the same however often it is read.
        content: The entry as it was read, with all that has no place above; of an unknown one, as it came.
    """

    kind: EventKind
    received_at: datetime
    seq: int | None = None
    first_seq: int | None = None
    device_id: str | None = None
    endpoint_name: str | None = None
    path: str | None = None
    unit: str | None = None
    value: Value | None = None
    changed_at: datetime | None = None
    async_id: str | None = None
    status: int | None = None
    category: str | None = None
    uid: str | None = None
    content: EntryBody | None = None

    def __repr__(self) -> str:
        members = {name: getattr(self, name) for name in _SHOWN}
        known = (visible(f"{name}={one}") for name, one in members.items() if one is not None)
        return f"<Event {' '.join([self.kind, *known])}>"


_SHOWN = ("device_id", "path", "value", "async_id", "status", "category", "first_seq", "seq")


_KINDS = {
    "registrations": EventKind.REGISTRATION,
    "reg-updates": EventKind.REG_UPDATE,
    "de-registrations": EventKind.DEREGISTRATION,
    "registrations-expired": EventKind.EXPIRED,
}


def read_events(batch: Batch, received_at: datetime) -> Iterator[Event]:
    """The events of a batch; a loss comes first, since it lies before the rest."""
    if batch.gap is not None:
        yield _of_gap(batch.gap, received_at)
    for entry in batch.entries:
        yield _of_entry(entry, batch.seq if entry.seq is None else entry.seq, received_at)


def read_positions(batch: Batch, position: int | None, received_at: datetime) -> Iterator[tuple[Event, int | None]]:
    """The events of a batch, each with the number to go on behind once it was taken.

    Where the service does not number its entries, that is the position before the batch until the last one was taken:
    what is read again after a stop in between is not lost.

    Args:
        batch: What was read.
        position: The number behind which it was read.
        received_at: When it came.
    """
    if batch.gap is not None:
        last = batch.gap.last_seq
        # One that ends elsewhere than before what was read tells of no place to go on behind.
        position = last if last is not None and (position or 0) < last <= (batch.seq or last) else position
        yield _of_gap(batch.gap, received_at), position
    for entry, following in pairwise(chain(batch.entries, [None])):
        if entry is not None:
            seq = batch.seq if entry.seq is None else entry.seq
            position = batch.seq if following is None else position if entry.seq is None else seq
            yield _of_entry(entry, seq, received_at), position


def every_event(_: Event) -> bool:
    """Want all."""
    return True


def unreadable_keys(events: Iterable[Event]) -> set[str]:
    """The names of the lists in which something could not be read."""
    return {event.content.key for event in events if isinstance(event.content, Unreadable)}


def event_filter(paths: Collection[str] | None, devices: Collection[str] | None) -> Callable[[Event], bool]:
    """Which events are wanted; gaps and unknown ones always are.

    Args:
        paths: Path patterns (``/3303/*``); then of all other events only observations of these.
        devices: Ids of devices; then of all other events only those of these, ends of their requests among them.

    Raises:
        TypeError: A single text was given where a collection of texts belongs, or something else than texts.
        InvalidValue: A pattern can match no path.
    """
    for name, texts in (("paths", paths), ("devices", devices)):
        if isinstance(texts, str):
            raise TypeError(f"{name} takes a list of texts; write {name}=[{texts!r}]")
        for one in texts or ():
            text(f"each of {name}", one)
    try:
        for pattern in paths or ():
            check_path_pattern(pattern)
    except ValueError as exc:
        raise InvalidValue(f"paths: {exc}") from exc

    def wants(event: Event) -> bool:
        if event.kind in {EventKind.GAP, EventKind.UNKNOWN}:
            return True
        if devices is not None and event.device_id not in devices:
            return False
        if paths is None:
            return True
        is_observation = event.kind is EventKind.OBSERVATION and event.path is not None
        return is_observation and any(matches(pattern, event.path or "") for pattern in paths)

    return wants


def _of_gap(gap: Gap, received_at: datetime) -> Event:
    return Event(kind=EventKind.GAP, received_at=received_at, first_seq=gap.first_seq, seq=gap.last_seq)


def _of_entry(entry: Entry, seq: int | None, received_at: datetime) -> Event:
    match entry.body:
        case Notification():
            return _of_notification(entry.body, seq, received_at)
        case AsyncResponse():
            return _of_async_response(entry.body, seq, received_at)
        case RegistrationEvent():
            return _of_registration(_KINDS[entry.key], entry.body, seq, received_at)
        case Unreadable():
            return Event(kind=EventKind.UNKNOWN, received_at=received_at, seq=seq, content=entry.body)


def _of_notification(body: Notification, seq: int | None, received_at: datetime) -> Event:
    return Event(
        kind=EventKind.OBSERVATION,
        received_at=received_at,
        seq=seq,
        device_id=body.ep,
        endpoint_name=body.original_ep,
        path=body.path,
        unit=_unit_of(body.path),
        value=decode(body.payload, body.ct, body.path),
        changed_at=instant_of(body.timestamp),
        uid=body.uid,
        content=body,
    )


def _of_async_response(body: AsyncResponse, seq: int | None, received_at: datetime) -> Event:
    return Event(
        kind=EventKind.ASYNC_RESPONSE,
        received_at=received_at,
        seq=seq,
        device_id=body.ep,
        endpoint_name=body.original_ep,
        path=body.path,
        unit=_unit_of(body.path),
        value=decode(body.payload, body.ct, body.path or "") if body.payload else None,
        changed_at=instant_of(body.timestamp),
        async_id=body.id,
        status=body.status,
        category=body.error,
        uid=body.uid,
        content=body,
    )


def _of_registration(kind: EventKind, body: RegistrationEvent, seq: int | None, received_at: datetime) -> Event:
    return Event(
        kind=kind,
        received_at=received_at,
        seq=seq,
        device_id=body.ep,
        endpoint_name=body.original_ep,
        changed_at=instant_of(body.timestamp),
        uid=body.uid,
        content=body,
    )


def _unit_of(path: str | None) -> str | None:
    declared = None if path is None else lookup(path)
    return None if declared is None else declared.unit or None


def utc_now() -> datetime:
    """The present, aware: when what arrives now was received."""
    return datetime.now(UTC)


def instant_of(milliseconds: int | None) -> datetime | None:
    """The instant a ``timestamp`` of the wire tells; ``None`` where it tells none. Source: wire.md 5."""
    if milliseconds is None:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:  # a device's clock may say anything; its events must still be read
        return None
