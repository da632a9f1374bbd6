"""The actions of simulated devices, both spontaneous and on command, with their lock, timers and calls."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from mirror_server.clock import Clock
from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.devices.interface import DeviceCommand, DeviceResponse, Observation, Observe, Outcome
from mirror_server.extensions.simulator.command_responses import changes_device, respond
from mirror_server.extensions.simulator.device import SimulatedDevice
from mirror_server.extensions.simulator.running_device import RunningDevice
from mirror_server.extensions.simulator.store import LastObserved
from mirror_server.service.devices import DeviceService

_log = logging.getLogger(__name__)

_WAIT_SECONDS = 30.0


class SimulatorStore(Protocol):
    """The storage of simulated devices as JSON documents by device id."""

    def load(self) -> dict[str, str]:
        """Return all documents by device id."""
        ...

    def last_observed(self) -> list[LastObserved]:
        """Return the last values that the service received from the devices. All other values are sent again."""
        ...

    def save(self, documents: Mapping[str, str]) -> None:
        """Queue documents, which are stored before all later calls to the service. This never blocks."""
        ...


class Outbox:
    """A queue of calls to the service, which are made one after another by one thread at a time.

    If two threads called the service directly, one could overtake the other, and the mirror would store the older of
    two values last. So the first thread makes all waiting calls, and holds no lock while it does so.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], object]] = deque()
        self._drainer: int | None = None
        self._added = 0
        self._called = 0

    def add(self, calls: Iterable[Callable[[], object]]) -> int:
        """Append functions to the queue. Return the number of the last one, which :meth:`wait_until_called` takes."""
        with self._changed:
            before = len(self._waiting)
            self._waiting.extend(calls)
            self._added += len(self._waiting) - before
            return self._added

    def drain(self) -> None:
        """Call the queued functions in order, until the queue is empty.

        If another thread or an outer call of this method is already doing so, this method returns at once.
        """
        with self._changed:
            if self._drainer is not None:
                return
            self._drainer = threading.get_ident()
        while (call := self._next()) is not None:
            try:
                call()
            except Exception:
                _log.exception("the service failed to process a message of a simulated device")
            except BaseException:
                # After an error, no thread would make the remaining calls without this.
                self._stop_draining()
                raise

    def _next(self) -> Callable[[], object] | None:
        with self._changed:
            self._called = self._added - len(self._waiting)
            self._changed.notify_all()
            if self._waiting:
                return self._waiting.popleft()
            self._drainer = None
            return None

    def _stop_draining(self) -> None:
        with self._changed:
            self._drainer = None

    def wait_until_called(self, number: int) -> None:
        """Wait until another thread has made the call with this number, at most half a minute.

        The thread that is making the calls never waits, because it would wait for itself.
        """
        with self._changed:
            if self._drainer == threading.get_ident():
                return
            if not self._changed.wait_for(lambda: self._called >= number, _WAIT_SECONDS):
                _log.warning("the service did not process the messages of simulated devices within %s s", _WAIT_SECONDS)


@dataclass(slots=True)
class Turn:
    """A turn of the fleet: all decisions at one time.

    A turn collects the devices to store, the devices whose timers may change, and the calls to make to the service.
    """

    now: Instant
    unsaved: dict[str, SimulatedDevice] = field(default_factory=dict)
    changed: dict[str, RunningDevice] = field(default_factory=dict)
    calls: list[Callable[[], object]] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)

    def mark_changed(self, running: RunningDevice) -> None:
        """Mark a device whose timer may have to change."""
        self.changed[running.device.device_id] = running

    def save(self, running: RunningDevice) -> None:
        """Mark a device that must be stored."""
        self.mark_changed(running)
        self.unsaved[running.device.device_id] = running.device


class SimulatedFleet:
    """The running devices. Call its methods within a :meth:`turn`, or within :meth:`reading` to read only."""

    def __init__(self, *, events: DeviceService, store: SimulatorStore, clock: Clock) -> None:
        self.running: dict[str, RunningDevice] = {}
        self._events = events
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._outbox = Outbox()
        self._command_numbers = itertools.count()

    @contextmanager
    def reading(self) -> Iterator[Instant]:
        """Hold the lock for reading, and yield the current time."""
        with self._lock:
            yield self._clock.now()

    @contextmanager
    def turn(self, *, wait: bool = True) -> Iterator[Turn]:
        """Hold the lock while the caller makes decisions, and yield a new turn.

        At the end the devices are stored, the lock is released, and the service is called.

        Args:
            wait: Whether to wait until all calls are made, even if another thread makes them. A thread of the service
                must not wait, because the other thread may need it.
        """
        with self.reading() as now:
            turn = Turn(now)
            yield turn
            for running in turn.changed.values():
                self._set_timer(running, now)
            if turn.unsaved:
                self._store.save({device_id: device.to_json() for device_id, device in turn.unsaved.items()})
            if turn.observations:
                turn.calls.append(partial(self._events.observed, turn.observations))
            # The calls are queued while the lock is held, so that they are in the same order as the decisions.
            last_call = self._outbox.add(turn.calls)
        self._outbox.drain()
        if wait:
            self._outbox.wait_until_called(last_call)

    def add(self, device: SimulatedDevice) -> RunningDevice:
        """Add a device to the running devices."""
        running = self.running[device.device_id] = RunningDevice(device)
        return running

    def remove_all(self) -> None:
        """Remove all devices, because another process is running them now."""
        with self._lock:
            for running in self.running.values():
                running.in_flight.clear()
                if running.timer is not None:
                    running.timer.cancel()
                    running.timer = None
            self.running.clear()

    def resume(self, turn: Turn, running: RunningDevice) -> None:
        """Let a device continue, and perform all of its actions that are due."""
        turn.mark_changed(running)
        if running.connected:
            self._perform_due(turn, running, contact=running.contact_due(turn.now))

    def come_online(self, turn: Turn, running: RunningDevice) -> None:
        """Let a device that is online again contact the service, or register if its registration has expired."""
        if running.connected:
            self._perform_due(turn, running, contact=True)

    def register(self, turn: Turn, running: RunningDevice) -> None:
        """Make the device send a full registration."""
        registration = running.device.register(turn.now)
        running.wake(turn.now)
        turn.save(running)
        turn.calls.append(partial(self._events.registered, registration))
        self.report(turn, running)

    def update(self, turn: Turn, running: RunningDevice) -> None:
        """Make the device send a registration update, with its resources if they have changed."""
        device = running.device
        device.renewed_at = turn.now
        resources = None if device.is_introduced() else device.introduce()
        running.wake(turn.now)
        turn.save(running)
        turn.calls.append(partial(self._events.registration_updated, device.device_id, resources))
        self.report(turn, running)

    def deregister(self, turn: Turn, running: RunningDevice) -> None:
        """Make the device deregister."""
        running.device.registered = False
        running.device.forget_observations()
        turn.save(running)
        turn.calls.append(partial(self._events.deregistered, running.device.device_id))
        self.drop_commands(turn, running)

    def report(self, turn: Turn, running: RunningDevice, only: str | None = None) -> None:
        """Make the device send the changed values of all resources, or of the one resource ``only``."""
        turn.mark_changed(running)
        if running.connected:
            turn.observations += running.report(turn.now, only)

    def drop_commands(self, turn: Turn, running: RunningDevice) -> None:
        """Fail all commands to which the device has not responded yet."""
        turn.calls += [
            partial(on_response, DeviceResponse(Outcome.UNAVAILABLE)) for on_response in running.in_flight.values()
        ]
        running.in_flight.clear()

    def receive(
        self, turn: Turn, running: RunningDevice, command: DeviceCommand, on_response: Callable[[DeviceResponse], None]
    ) -> None:
        """Make the device execute a command and respond after its latency."""
        if running.device.latency_seconds == 0:
            self._respond(turn, running, command, on_response)
            return
        number = next(self._command_numbers)
        running.in_flight[number] = on_response
        due_at = after_seconds(turn.now, running.device.latency_seconds)
        self._clock.call_at(due_at, partial(self._respond_late, running, number, command))

    def _respond_late(self, running: RunningDevice, number: int, command: DeviceCommand) -> None:
        with self.turn() as turn:
            on_response = running.in_flight.pop(number, None)
            if on_response is not None:
                self._respond(turn, running, command, on_response)

    def _respond(
        self, turn: Turn, running: RunningDevice, command: DeviceCommand, on_response: Callable[[DeviceResponse], None]
    ) -> None:
        if running.device.answer == "silent":
            return
        response = respond(running.device, command, turn.now)
        turn.calls.append(partial(on_response, response))
        if response.outcome is Outcome.DONE and changes_device(command):
            if isinstance(command, Observe):
                # The response already contains the value, so the value is not sent again.
                running.note_sent(command.path, turn.now)
            turn.save(running)
            self.report(turn, running, only=command.path)

    def _contact(self, turn: Turn, running: RunningDevice) -> None:
        running.wake(turn.now)
        turn.save(running)
        turn.calls.append(partial(self._events.contact, running.device.device_id))

    def _perform_due(self, turn: Turn, running: RunningDevice, *, contact: bool) -> None:
        """Perform all actions that are due. In queue mode the device reports values only together with a contact."""
        if running.device.is_registration_expired(turn.now):
            self.register(turn, running)
            return
        if running.update_due(turn.now):
            self.update(turn, running)
        if contact:
            self._contact(turn, running)
        if contact or not running.device.queue_mode:
            self.report(turn, running)

    def _set_timer(self, running: RunningDevice, now: Instant) -> None:
        """Set the timer of a device to the time of its next action, unless the timer is already earlier.

        An earlier timer stays, because its action may be due now and not yet performed.
        """
        due_at = running.next_due_at(now)
        timer = running.timer
        if timer is not None and due_at is not None and timer.due_at <= due_at:
            return
        if timer is not None:
            timer.cancel()
        running.timer = None if due_at is None else self._clock.call_at(due_at, partial(self._wake, running, due_at))

    def _wake(self, running: RunningDevice, due_at: Instant) -> None:
        with self.turn() as turn:
            # Another timer may have replaced this one while the call waited for the lock.
            if running.timer is None or running.timer.due_at != due_at:
                return
            running.timer = None
            self.resume(turn, running)
