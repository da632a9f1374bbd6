"""The live evaluation of conditions on the notification log. This module does not wait and performs no I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from mirror_sdk._file_version import file_fault
from mirror_sdk._warnings import SourceLine
from mirror_sdk.conditions.alarm import Alarm, AlarmKind
from mirror_sdk.conditions.clause import Scalar
from mirror_sdk.conditions.condition import Condition
from mirror_sdk.conditions.evaluator import Change, Evaluator, Row, RowKind
from mirror_sdk.conditions.mismatches import warn_of_mismatches
from mirror_sdk.device import DeviceObject
from mirror_sdk.errors import InvalidValue
from mirror_sdk.events import Event, EventKind, read_events
from mirror_sdk.values import InstanceValues, PythonValue, Value, ValueKind, plain_text
from mirror_sdk.wire.log_entries import Batch

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_VERSION = 1
_ABSENT = (EventKind.DEREGISTRATION, EventKind.EXPIRED)


class WatchSettings(NamedTuple):
    """The settings of a watch. A state file belongs to a watch with the same settings."""

    server: str
    key: str
    conditions: list[str]
    devices: list[str] | None


class _Stored(BaseModel):
    """The content of a state file."""

    version: int
    settings: WatchSettings
    position: int
    needs_state: bool
    is_in_gap: bool
    names: dict[str, str]
    pending: list[list[Any]]
    evaluator: dict[str, Any]
    state_times: list[tuple[str, str, int]] = []


class LiveConditions:
    """The state of conditions that are evaluated on the notification log.

    Args:
        conditions: The conditions.
        devices: The ids of the devices to evaluate; ``None`` for all.
        called_from: The line of the program that started the watch. Warnings point to this line.

    Attributes:
        position: The number of the last log entry that was evaluated.
        needs_state: Whether the current state of the devices must be read: at the start, and after a loss of entries.
        is_in_gap: Whether entries were lost, and the time of the service after the loss is still unknown.
    """

    def __init__(
        self, conditions: Sequence[Condition], devices: Collection[str] | None, called_from: SourceLine | None
    ) -> None:
        self.position: int | None = None
        self.needs_state: bool = True
        self._conditions = conditions
        self._devices = None if devices is None else frozenset(devices)
        self._called_from = called_from
        self._evaluator = Evaluator([one.expression for one in conditions])
        self._names: dict[str, str] = {}
        # When the values of the state were reported, and, with an empty path, when its devices last registered.
        self._state_times: dict[tuple[str, str], int] = {}
        self._newest_state_time: int = -1
        self._selected: dict[str, bool] = {}
        self._pending: deque[Change] = deque()
        self.is_in_gap: bool = False

    @property
    def now(self) -> datetime:
        """The time by the service's clock up to which the conditions were evaluated."""
        return _instant(self._evaluator.now)

    @property
    def next_deadline(self) -> datetime | None:
        """The time by the service's clock at which an alarm may start without an event, or ``None``."""
        deadline = self._evaluator.next_deadline
        return None if deadline is None else _instant(deadline)

    @property
    def compares_desired(self) -> bool:
        """Whether a condition compares reported with desired values."""
        return any(clause.test == "differs" for one in self._conditions for clause in one.clauses)

    @property
    def alarm(self) -> Alarm | None:
        """The next alarm, or ``None`` if there is none. It stays the same until :meth:`pop`."""
        if not self._pending:
            return None
        change = self._pending[0]
        return Alarm(
            kind=change.kind,
            id=self._evaluator.alarm_id(change),
            condition=str(self._conditions[change.condition]),
            device_id=change.device,
            endpoint_name=self._names.get(change.device),
            path=change.path,
            at=_instant(change.at),
            begin=_instant(change.begin),
            value=change.value,
            extreme=change.extreme,
            hidden=change.hidden * _MILLISECOND,
            gap=change.gap,
        )

    def pop(self) -> None:
        """Remove the next alarm, which the program has processed."""
        self._pending.popleft()

    def start(self, position: int | None, now: datetime) -> None:
        """Start after a log entry, at a time by the service's clock."""
        self.position = position
        self._collect(self._evaluator.advance(_milliseconds(now)))

    def accept(self, batch: Batch, position: int | None, received_at: datetime, until: datetime | None) -> None:
        """Evaluate the entries of the log up to a position.

        Args:
            batch: The entries.
            position: The position after them.
            received_at: The time at which they were received, by the clock of this machine.
            until: A time by the service's clock. All entries that the service received before it were read. ``None``
                means that the time is unknown.
        """
        for event in read_events(batch, received_at):
            self._accept_event(event)
        if until is not None:
            self._advance(until)
        if not batch.entries:
            self._state_times.clear()
        self.position = position
        if self._evaluator.mismatches:
            found = list(self._evaluator.mismatches)
            self._evaluator.mismatches.clear()
            warn_of_mismatches([one.expression for one in self._conditions], found, self._called_from)

    def accept_state(self, devices: Iterable[DeviceObject], *, reported: bool) -> list[str]:
        """Evaluate the current state of registered devices, and return the paths of their subscribed resources.

        Args:
            devices: The devices.
            reported: Whether to evaluate the reported values, too, and not only the desired ones.
        """
        subscribed = []
        for device in devices:
            if device.endpoint_name is not None:
                self._names[device.device_id] = device.endpoint_name
            if reported and device.updated_at is not None:
                self._state_times[device.device_id, ""] = _milliseconds(device.updated_at)
            for path, resource in device.resources.items():
                if not self._is_selected(path):
                    continue
                subscribed += [path] if resource.subscribed else []
                if resource.desired is not None:
                    self._feed(RowKind.DESIRED, device.device_id, path, resource.desired.value)
                elif resource.reported is not None:
                    # The desired value may have been removed since the last read.
                    self._feed(RowKind.DESIRED, device.device_id, path, None)
                if reported and resource.reported is not None:
                    reported_at = resource.reported.reported_at
                    since = None if reported_at is None else _milliseconds(reported_at)
                    self._feed(RowKind.REPORTED, device.device_id, path, resource.reported.value, since)
                    if since is not None:
                        self._state_times[device.device_id, path] = since
        self._newest_state_time = max(self._state_times.values(), default=-1)
        self.needs_state = self.needs_state and not reported
        return subscribed

    def dump(self, settings: WatchSettings) -> bytes:
        """Return the content of a state file."""
        stored = _Stored(
            version=_VERSION,
            settings=settings,
            position=self.position or 0,
            needs_state=self.needs_state,
            is_in_gap=self.is_in_gap,
            names=self._names,
            pending=[list(change) for change in self._pending],
            evaluator=self._evaluator.dump(),
            state_times=[(*key, at) for key, at in self._state_times.items()],
        )
        return stored.model_dump_json().encode()

    def load(self, content: bytes, settings: WatchSettings, path: object) -> None:
        """Restore the content of a state file.

        Raises:
            InvalidValue: The file is damaged, or it belongs to a watch with other settings.
        """
        try:
            stored = _Stored.model_validate_json(content)
            if stored.version != _VERSION:
                raise InvalidValue(
                    f"{path}: unsupported format version {stored.version}; remove the file to start again"
                )
            pending = [Change(AlarmKind(kind), *rest) for kind, *rest in stored.pending]
            for name, found, expected in zip(settings._fields, stored.settings, settings, strict=True):
                if found != expected:
                    raise InvalidValue(
                        f"{path} belongs to a watch with {name}={found!r}, and not {expected!r}; pass another"
                        " state_file, or remove the file to start again"
                    )
            self._evaluator.load(stored.evaluator)
        except ValidationError as exc:
            fault = file_fault(content, exc, _VERSION)
            raise InvalidValue(f"{path} is not a state file: {fault}; pass another state_file, or remove it") from exc
        except (KeyError, TypeError, ValueError) as exc:
            if isinstance(exc, InvalidValue):
                raise
            raise InvalidValue(f"{path} is damaged; remove it to start again") from exc
        self.position, self.needs_state, self.is_in_gap = stored.position, stored.needs_state, stored.is_in_gap
        self._names, self._pending = stored.names, deque(pending)
        self._state_times = {(device, path): at for device, path, at in stored.state_times}
        self._newest_state_time = max(self._state_times.values(), default=-1)

    def _accept_event(self, event: Event) -> None:
        if event.kind is EventKind.GAP:
            # The lost entries may have changed any value since the last entry.
            self._collect(self._evaluator.feed(Row(self._evaluator.now, RowKind.GAP)))
            self.is_in_gap = self.needs_state = True
            # If the log was reset, new entries may have earlier times.
            self._state_times.clear()
            return
        if event.kind is EventKind.UNKNOWN or event.device_id is None:
            return
        self._advance(_logged_at(event))
        if event.endpoint_name is not None:
            self._names[event.device_id] = event.endpoint_name
        if self._is_in_state(event, event.device_id):
            return
        if self._devices is not None and event.device_id not in self._devices:
            return
        if event.kind in _ABSENT:
            self._collect(self._evaluator.feed(Row(self._evaluator.now, RowKind.ABSENT, event.device_id)))
        elif (
            event.path is not None
            and event.value is not None
            # The evaluator would store the resource.
            and self._is_selected(event.path)
            and _is_report(event.kind, event.value)
        ):
            self._feed(RowKind.REPORTED, event.device_id, event.path, event.value)

    def _is_in_state(self, event: Event, device: str) -> bool:
        """Return whether an entry precedes the state, which was read after the position in the log."""
        if event.logged_at is None or not self._state_times:
            return False
        at = _milliseconds(event.logged_at)
        if at > self._newest_state_time:
            # All later entries follow the state, even if the clock of the service is set back.
            self._state_times.clear()
        path = "" if event.kind in _ABSENT else event.path or ""
        return at < self._state_times.get((device, path), -1)

    def _feed(self, kind: RowKind, device: str, path: str, value: Value | None, since: int | None = None) -> None:
        scalar = None if value is None else scalar_of(value)
        self._collect(self._evaluator.feed(Row(self._evaluator.now, kind, device, path, scalar, since)))

    def _advance(self, at: datetime) -> None:
        if self.is_in_gap:
            self.is_in_gap = False
            # The log may have been reset together with the clock of the service.
            self._evaluator.now = min(self._evaluator.now, _milliseconds(at))
            self._collect(self._evaluator.feed(Row(_milliseconds(at), RowKind.GAP_END)))
        self._collect(self._evaluator.advance(_milliseconds(at)))

    def _collect(self, changes: Iterator[Change]) -> None:
        self._pending.extend(changes)

    def _is_selected(self, path: str) -> bool:
        found = self._selected.get(path)
        if found is None:
            found = any(clause.matches(path) for one in self._conditions for clause in one.clauses)
            self._selected[path] = found
        return found


def scalar_of(value: Value) -> Scalar | None:
    """Return the value that a condition compares, as in the columns of tables; ``None`` if there is none."""
    python: PythonValue | InstanceValues | None = value.python
    if isinstance(python, bool):
        return python
    if value.kind is ValueKind.NUMBER and isinstance(python, int | float):
        number = float(python)
        # NaN is missing in tables, too.
        return number if number == number else None  # noqa: PLR0124 - NaN is not equal to itself
    return plain_text(value) if value.kind in _TEXTS else None


def _is_report(kind: EventKind, value: Value) -> bool:
    # The response to a write or to an execute operation has no value.
    is_read = kind is EventKind.ASYNC_RESPONSE and value.kind is not ValueKind.NONE
    return is_read or kind is EventKind.OBSERVATION


_TEXTS = (ValueKind.TEXT, ValueKind.TIME, ValueKind.OBJLINK, ValueKind.MULTIPLE)


def _logged_at(event: Event) -> datetime:
    """Return the time at which the service received an event.

    If the service does not send it, it is estimated as in tables: no later than the client received it.
    """
    if event.logged_at is not None:
        return event.logged_at
    return event.received_at if event.changed_at is None else min(event.changed_at, event.received_at)


def _milliseconds(at: datetime) -> int:
    return (at - _EPOCH) // _MILLISECOND


def _instant(milliseconds: int) -> datetime:
    return _EPOCH + milliseconds * _MILLISECOND
