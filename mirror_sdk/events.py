"""Events of devices. Each entry of the notification log is one :class:`Event`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from itertools import chain, pairwise

from mirror_sdk._arguments import text
from mirror_sdk._formatting import visible
from mirror_sdk.errors import InvalidValue
from mirror_sdk.object_definitions import lookup
from mirror_sdk.values import Value, decode
from mirror_sdk.wire.log_entries import Batch, Entry, EntryBody, Gap, Unreadable
from mirror_sdk.wire.model import JsonForm
from mirror_sdk.wire.notifications import Notification, RegistrationEvent
from mirror_sdk.wire.paths import check_path_pattern, matches

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EventKind(StrEnum):
    """The kind of an event. ``GAP`` means lost entries, and ``UNKNOWN`` an entry that this version cannot read."""

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
    """One entry of the notification log. Attributes that do not apply to the kind of the event are ``None``.

    Attributes:
        kind: The kind of the event.
        received_at: The time at which this client received the event, by the local clock. All other times come from the
            clock of the device or the service.
        seq: The number of the entry in the log. Later entries have larger numbers. For a gap, it is the last missing
            number. A service may number only the last entry of a message. The events of that message are then sorted by
            kind.
        first_seq: The first missing number of a gap.
        device_id: The id of the device.
        endpoint_name: The endpoint name of the device.
        path: The resource path. For an async response, it is the path of the request.
        unit: The declared unit of the number. The device can report another unit in resource 5701. That unit is in its
            device object, in the tables of ``client.notifications.events_frame`` and in recordings.
        value: The new value of an observation, or the value in a response. If the service does not send the path of an
            async response, a string is not decoded.
        changed_at: For an observation, the time at which the value changed, according to the device. For other kinds,
            it is the time of the event.
        logged_at: The time at which the service added the entry to the log, by its own clock. ``None`` if the service
            does not send it.
        async_id: The async-id of the request that a response belongs to.
        status: The status of an async response.
        category: The cause of the failure if the device request failed.
        uid: A unique id of the entry, which is the same each time the entry is read.
        content: The complete entry as the service sent it.
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
    logged_at: datetime | None = None

    def __repr__(self) -> str:
        members = {name: getattr(self, name) for name in _REPR_FIELDS}
        known = (visible(f"{name}={one}") for name, one in members.items() if one is not None)
        return f"<Event {' '.join([self.kind, *known])}>"


_REPR_FIELDS = ("device_id", "path", "value", "async_id", "status", "category", "first_seq", "seq")


_KINDS = {
    "registrations": EventKind.REGISTRATION,
    "reg-updates": EventKind.REG_UPDATE,
    "de-registrations": EventKind.DEREGISTRATION,
    "registrations-expired": EventKind.EXPIRED,
}


def read_events(batch: Batch, received_at: datetime) -> Iterator[Event]:
    """Yield the events of a batch. A gap is first, because the lost entries were before the entries of the batch."""
    if batch.gap is not None:
        yield _of_gap(batch.gap, received_at)
    for entry in batch.entries:
        yield _of_entry(entry, batch.seq if entry.seq is None else entry.seq, received_at)


def read_positions(batch: Batch, position: int | None, received_at: datetime) -> Iterator[tuple[Event, int | None]]:
    """Yield each event of a batch with the position at which a reader continues after the event.

    If the service does not number the entries, only the last event of a batch advances the position. A reader that
    stops earlier reads the batch again, so it loses no event.

    Args:
        batch: The batch.
        position: The position before the batch.
        received_at: The time at which the batch was received.
    """
    if batch.gap is not None:
        last = batch.gap.last_seq
        # A gap that does not end directly before the batch does not determine the next position.
        position = last if last is not None and (position or 0) < last <= (batch.seq or last) else position
        yield _of_gap(batch.gap, received_at), position
    for entry, following in pairwise(chain(batch.entries, [None])):
        if entry is not None:
            seq = batch.seq if entry.seq is None else entry.seq
            position = batch.seq if following is None else position if entry.seq is None else seq
            yield _of_entry(entry, seq, received_at), position


def every_event(_: Event) -> bool:
    """Return ``True`` for every event, as a filter that accepts all events."""
    return True


def unreadable_keys(events: Iterable[Event]) -> set[str]:
    """Return the names of those lists in a message that contain an unreadable entry."""
    return {event.content.key for event in events if isinstance(event.content, Unreadable)}


def event_filter(paths: Collection[str] | None, devices: Collection[str] | None) -> Callable[[Event], bool]:
    """Return a function that checks whether an event matches. Gaps and unknown entries always match.

    Args:
        paths: Patterns for the resource paths, such as ``/3303/*``. If they are passed, only observations of these
            paths match.
        devices: Device ids. If they are passed, only events of these devices match, including responses.

    Raises:
        TypeError: A string was passed instead of a list, or the list contains objects that are not strings.
        InvalidValue: A pattern cannot match any path.
    """
    for name, texts in (("paths", paths), ("devices", devices)):
        if isinstance(texts, str):
            raise TypeError(f"{name} takes a list of strings; write {name}=[{texts!r}]")
        for one in texts or ():
            text(f"each of {name}", one)
    try:
        for pattern in paths or ():
            check_path_pattern(pattern)
    except ValueError as exc:
        raise InvalidValue(f"paths: {exc}") from exc

    def accepts(event: Event) -> bool:
        if event.kind in {EventKind.GAP, EventKind.UNKNOWN}:
            return True
        if devices is not None and event.device_id not in devices:
            return False
        if paths is None:
            return True
        is_observation = event.kind is EventKind.OBSERVATION and event.path is not None
        return is_observation and any(matches(pattern, event.path or "") for pattern in paths)

    return accepts


def _of_gap(gap: Gap, received_at: datetime) -> Event:
    return Event(kind=EventKind.GAP, received_at=received_at, first_seq=gap.first_seq, seq=gap.last_seq)


def _of_entry(entry: Entry, seq: int | None, received_at: datetime) -> Event:
    body = entry.body
    if isinstance(body, Unreadable):
        return Event(kind=EventKind.UNKNOWN, received_at=received_at, seq=seq, content=body)
    event = partial(
        Event,
        received_at=received_at,
        seq=seq,
        device_id=body.ep,
        endpoint_name=body.original_ep,
        changed_at=instant_of(body.timestamp),
        logged_at=instant_of(body.logged_at),
        uid=body.uid,
        content=body,
    )
    if isinstance(body, RegistrationEvent):
        return event(kind=_KINDS[entry.key])
    event = partial(event, path=body.path, unit=_unit_of(body.path))
    if isinstance(body, Notification):
        return event(kind=EventKind.OBSERVATION, value=decode(body.payload, body.ct, body.path))
    return event(
        kind=EventKind.ASYNC_RESPONSE,
        value=decode(body.payload, body.ct, body.path or "") if body.payload else None,
        async_id=body.id,
        status=body.status,
        category=body.error,
    )


def _unit_of(path: str | None) -> str | None:
    declared = None if path is None else lookup(path)
    return None if declared is None else declared.unit or None


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def instant_of(milliseconds: int | None) -> datetime | None:
    """Convert the ``timestamp`` of a log entry, in milliseconds, to a time.

    Return ``None`` if the entry has no timestamp.
    """
    if milliseconds is None:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:  # the clock of a device may be wrong, but its events must still be readable
        return None
