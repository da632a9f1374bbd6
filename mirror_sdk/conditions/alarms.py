# Made from async_alarms.py by .ci/make_sync_twins.py: a change belongs there, not here.
"""An iterator over the alarms of conditions, which reads the notification log."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

from mirror_sdk._fork import cannot_be_pickled, import_locked
from mirror_sdk._protocol import operations as _operations
from mirror_sdk._protocol.event_buffer import Patience
from mirror_sdk._protocol.fan_out import gather_requests
from mirror_sdk._protocol.gap_warnings import warn_of_gap
from mirror_sdk._protocol.log_cursor import poll_limit
from mirror_sdk._protocol.log_reader import LogReader
from mirror_sdk._protocol.rule_changes import add_rules
from mirror_sdk._session.client_session import ClientSession
from mirror_sdk._warnings import SourceLine, warn
from mirror_sdk.conditions.alarm import Alarm
from mirror_sdk.conditions.condition import Condition
from mirror_sdk.conditions.coverage import missing_paths, rules_for, uncovered
from mirror_sdk.conditions.live import LiveConditions, WatchSettings
from mirror_sdk.device import DeviceObject
from mirror_sdk.device_lookup import DevicesLike
from mirror_sdk.errors import ConditionWarning, InvalidValue, MirrorError, NotFound, NotSubscribedWarning
from mirror_sdk.wire.routes import DEFAULT_HOLD_SECONDS

if TYPE_CHECKING:
    from mirror_sdk.conditions.state_file import StateFile

_SAVE_SECONDS = 10.0
"""The time between two saves of the position in the log while there are no alarms."""
_DESIRED_SECONDS = 30.0
"""The time between two reads of the desired values, which the log does not contain."""


class Alarms(Iterator[Alarm]):
    """An iterator over the alarms of conditions as they start and end; see ``client.watch_conditions()``.

    With ``with client.watch_conditions(...) as alarms:``, it releases the state file at the end. An alarm counts as
    processed when the next one is requested, or when the block ends without an error.
    """

    def __init__(
        self,
        session: ClientSession,
        conditions: Sequence[Condition],
        *,
        devices: DevicesLike | None,
        state_file: str | PathLike[str] | None,
        subscribe: bool,
        timeout_seconds: float,
        outage_seconds: float | None,
        called_from: SourceLine | None,
    ) -> None:
        self._session = session
        self._conditions = conditions
        self._devices = devices
        self._device_ids: list[str] | None = None
        self._path = None if state_file is None else Path(state_file).absolute()
        self._subscribe = subscribe
        self._timeout_seconds = timeout_seconds
        self._outage_seconds = outage_seconds
        self._called_from = called_from
        self._clock = session.sender.clock.waiting_seconds
        self._lock = threading.Lock()
        self._live: LiveConditions | None = None
        self._reader: LogReader | None = None
        self._file: StateFile | None = None
        self._settings: WatchSettings | None = None
        self._is_delivered = False
        self._is_checked = False
        self._is_over = False
        self._saved_at = self._read_desired_at = -math.inf
        # The last known time of the service's clock, and the time of the local clock at that moment.
        self._served: tuple[datetime, float] | None = None
        self._is_resumed = False
        self._started()

    def __reduce__(self) -> NoReturn:
        """Raise an error, because this object cannot be pickled."""
        raise cannot_be_pickled(self, "call client.watch_conditions() there")

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Alarm:
        with self._lock:
            if self._is_over:
                raise StopIteration
            live, reader = self._started()
            self._acknowledge(live)
            # The time that the program spends on an alarm does not count as waiting.
            patience = Patience(self._timeout_seconds, self._outage_seconds, self._clock)
            is_at_end = False
            while live.alarm is None and (patience.left_seconds > 0 or not is_at_end):
                is_at_end = self._step(live, reader, patience)
            if live.alarm is None:
                self._save(live)
                raise StopIteration
            self._is_delivered = True
            return live.alarm

    def __enter__(self) -> Self:
        with self._lock:
            self._started()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            if error is None and self._live is not None:
                self._acknowledge(self._live)
                self._save(self._live)
            self._is_over = True
            self._release()

    def close(self) -> None:
        """Release the state file. The alarm that was returned last is repeated by the next watch with the file."""
        with self._lock:
            self._is_over = True
            self._release()

    def _started(self) -> tuple[LiveConditions, LogReader]:
        if self._live is None or self._reader is None:
            try:
                self._live, self._reader = self._start()
            except BaseException:
                self._release()
                raise
        return self._live, self._reader

    def _start(self) -> tuple[LiveConditions, LogReader]:
        if self._devices is not None:
            self._device_ids = sorted(self._session.ids_of(self._devices))
        live = LiveConditions(self._conditions, self._device_ids, self._called_from)
        texts = [str(one) for one in self._conditions]
        self._settings = WatchSettings(self._session.base_url, self._session.key_mark, texts, self._device_ids)
        self._load(live)
        if self._subscribe:
            self._session.run(add_rules(rules_for(self._conditions, self._device_ids), apply_now=True))
        # A webhook only delivers new events, so its reader accepts no position.
        reader = self._session.new_reader(after=live.position)
        if not reader.has_position:
            reader.go_to_end(poll_limit(self._timeout_seconds, self._timeout_seconds))
            live.start(reader.position, reader.served_at or self._session.sender.clock.now())
        else:
            self._is_resumed = True
        self._served = live.now, self._clock()
        return live, reader

    def _load(self, live: LiveConditions) -> None:
        """Open the state file, and restore its content."""
        if self._path is None or self._settings is None:
            return
        if self._session.callbacks is not None:
            raise InvalidValue("state_file= is not available with a webhook, which only delivers new events; omit it")
        import_locked("mirror_sdk.conditions.state_file")
        from mirror_sdk.conditions.state_file import StateFile

        self._file = StateFile(self._path)
        content = self._file.read()
        if content is not None:
            live.load(content, self._settings, self._path)

    def _step(self, live: LiveConditions, reader: LogReader, patience: Patience) -> bool:
        """Read once, and return whether the end of the log was reached."""
        began_at = self._clock()
        is_desired_old = live.compares_desired and began_at - self._read_desired_at >= _DESIRED_SECONDS
        if (live.needs_state or is_desired_old) and not live.is_in_gap and reader.pause_seconds <= 0:
            failure: MirrorError | None = None
            try:
                self._read_state(live)
            except MirrorError as error:
                reader.failed(failure := error, self._clock() - began_at)
            patience.note(failure, began_at)
            return failure is not None
        hold_seconds = min(max(patience.left_seconds, 0), DEFAULT_HOLD_SECONDS, self._seconds_to_deadline(live))
        batch = reader.read(hold_seconds, patience.poll_limit_seconds(hold_seconds))
        patience.note(reader.last_failure, began_at)
        if reader.last_failure is not None:
            return True
        # The position has moved, so nothing may interrupt the evaluation.
        warn_of_gap(batch.gap, (), self._called_from)
        # If the log was reset, only the next read returns the time of the service.
        until = batch.served_at or (None if batch.gap is not None else self._service_time(began_at))
        live.accept(batch, reader.position, self._session.sender.clock.now(), until)
        if until is not None:
            self._served, self._is_resumed = (until, self._clock()), False
        if self._clock() - self._saved_at >= _SAVE_SECONDS:
            self._save(live)
        return not batch.entries and not live.needs_state

    def _read_state(self, live: LiveConditions) -> None:
        """Evaluate the current state of the registered devices."""
        needs_state = live.needs_state
        filters: list[dict[str, object]] = [{"state": "registered"}]
        if self._device_ids is not None:
            size = _operations.DEVICES_AT_A_TIME
            starts = range(0, len(self._device_ids), size)
            filters = [filters[0] | {"id__in": self._device_ids[first : first + size]} for first in starts]
        ids: list[str] = []
        for one in filters:
            found = self._session.collect(partial(_operations.list_devices, one, limit=None), None)
            ids += [device.id for device in found]
        devices = gather_requests(self._read_device, ids)
        present = [one for one in devices if one is not None]
        subscribed = live.accept_state(present, reported=needs_state)
        self._read_desired_at = self._clock()
        if needs_state:
            # The state may differ when it is read again. An alarm that is repeated after a crash must keep its id.
            self._save(live)
        self._warn_of_uncovered(subscribed, {path for one in present for path in one.resources})

    def _read_device(self, device_id: str) -> DeviceObject | None:
        try:
            return self._session.read_device(device_id, lambda found: found)
        except NotFound:
            # The device was deleted in the meantime.
            return None

    def _warn_of_uncovered(self, subscribed: Sequence[str], existing: Collection[str]) -> None:
        """Warn once of paths that no device has, and of paths without a rule or subscription."""
        if self._is_checked:
            return
        self._is_checked = True
        missing = missing_paths(self._conditions, existing)
        if existing and missing:
            warn(
                f"no registered device has {', '.join(missing)}, so such a condition causes no alarm at the moment;"
                " client.devices.resources(device) shows the paths of a device",
                ConditionWarning,
                self._called_from,
            )
        if self._subscribe:
            return
        try:
            rules = self._session.sender.send(_operations.get_presubscriptions(), None).rules
        except MirrorError:
            # The warning is optional.
            return
        paths = uncovered(self._conditions, rules, subscribed)
        if paths:
            warn(
                f"no rule or subscription of this key covers {', '.join(paths)}, so their values do not arrive; pass"
                " subscribe=True, or add rules with client.subscriptions.rules.add()",
                NotSubscribedWarning,
                self._called_from,
            )

    def _seconds_to_deadline(self, live: LiveConditions) -> float:
        # The time that has passed since the last run is unknown, so the first read does not wait.
        if self._is_resumed:
            return 0.0
        deadline = live.next_deadline
        if deadline is None:
            return math.inf
        # At least a second, because the service's clock may be slower than the local clock, or stand still.
        return max((deadline - self._service_time(self._clock())).total_seconds(), 1.0)

    def _service_time(self, at: float) -> datetime:
        """Return the service's time at a time of the local clock."""
        if self._served is None:
            return self._session.sender.clock.now()
        served_at, local_at = self._served
        return served_at + timedelta(seconds=max(at - local_at, 0.0))

    def _acknowledge(self, live: LiveConditions) -> None:
        """Remove the alarm that the program has processed."""
        if self._is_delivered:
            live.pop()
            self._is_delivered = False
            self._save(live)

    def _save(self, live: LiveConditions) -> None:
        if self._file is not None and self._settings is not None and live.position is not None:
            self._file.write(live.dump(self._settings))
        self._saved_at = self._clock()

    def _release(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()
