"""What simulated devices do, on their own account or when told to: their lock, their timers, their calls."""

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
from mirror_server.core.instants import Instant, after_seconds
from mirror_server.devices.link import DeviceCommand, DeviceResponse, Observation, Observe, Outcome
from mirror_server.extensions.simulator.command_responses import changes_device, respond
from mirror_server.extensions.simulator.device import SimulatedDevice
from mirror_server.extensions.simulator.running_device import RunningDevice
from mirror_server.extensions.simulator.store import LastObserved
from mirror_server.service.devices import DeviceService

_log = logging.getLogger(__name__)

_WAIT_SECONDS = 30.0


class SimulatorStore(Protocol):
    """Where simulated devices are kept: device id -> JSON document."""

    def load(self) -> dict[str, str]:
        """All documents."""
        ...

    def last_observed(self) -> list[LastObserved]:
        """What the service has heard of these devices: what it has not is to be sent once more."""
        ...

    def save(self, documents: Mapping[str, str]) -> None:
        """Put documents in line for the disk, before all that the simulator tells the service later; never blocks."""
        ...


class Outbox:
    """Calls to the service, made one after another by one thread at a time.

    Two threads that called the service by themselves could overtake each other, and the mirror would keep the older of
    two values. So whoever comes first makes all calls that wait, while no lock is held.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], object]] = deque()
        self._drainer: int | None = None
        self._added = 0
        self._called = 0

    def add(self, calls: Iterable[Callable[[], object]]) -> int:
        """Put calls at the end; gives the number of the last one, for :meth:`wait_until_called`."""
        with self._changed:
            before = len(self._waiting)
            self._waiting.extend(calls)
            self._added += len(self._waiting) - before
            return self._added

    def drain(self) -> None:
        """Make the calls that wait, unless another thread is at it, or this one further up its stack."""
        with self._changed:
            if self._drainer is not None:
                return
            self._drainer = threading.get_ident()
        while (call := self._next()) is not None:
            try:
                call()
            except Exception:
                _log.exception("the service failed to take what a simulated device told it")
            except BaseException:
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
        """Wait, at most half a minute, until another thread has made this call; the one that drains never waits."""
        with self._changed:
            if self._drainer == threading.get_ident():
                return
            if not self._changed.wait_for(lambda: self._called >= number, _WAIT_SECONDS):
                _log.warning("the service did not take what a simulated device told it within %s s", _WAIT_SECONDS)


@dataclass(slots=True)
class Turn:
    """What is decided at one instant: devices to store, devices whose next timer may be another one, things to tell."""

    now: Instant
    unsaved: dict[str, SimulatedDevice] = field(default_factory=dict)
    touched: dict[str, RunningDevice] = field(default_factory=dict)
    calls: list[Callable[[], object]] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)

    def touch(self, running: RunningDevice) -> None:
        """The device's next timer is to be looked after."""
        self.touched[running.device.device_id] = running

    def save(self, running: RunningDevice) -> None:
        """The device is to be stored."""
        self.touch(running)
        self.unsaved[running.device.device_id] = running.device


class SimulatedFleet:
    """The devices while they run. Everything is called inside a turn, or, where nothing is decided, a look."""

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
        """Look inside, under the lock; gives the present instant."""
        with self._lock:
            yield self._clock.now()

    @contextmanager
    def turn(self, *, wait: bool = True) -> Iterator[Turn]:
        """Decide inside, under the lock; afterwards what was decided is stored, and then told without the lock.

        Args:
            wait: Whether to return only when all is told, also where another thread tells it. A thread of the service
                must not wait so: the other thread may need it.
        """
        with self.reading() as now:
            turn = Turn(now)
            yield turn
            for running in turn.touched.values():
                self._arm(running, now)
            if turn.unsaved:
                self._store.save({device_id: device.to_json() for device_id, device in turn.unsaved.items()})
            if turn.observations:
                turn.calls.append(partial(self._events.observed, turn.observations))
            last_call = self._outbox.add(turn.calls)
        self._outbox.drain()
        if wait:
            self._outbox.wait_until_called(last_call)

    def adopt(self, device: SimulatedDevice) -> RunningDevice:
        """Take a device in."""
        running = self.running[device.device_id] = RunningDevice(device)
        return running

    def retire(self) -> None:
        """Let go of all devices: another process has them now."""
        with self._lock:
            for running in self.running.values():
                running.in_flight.clear()
                if running.timer is not None:
                    running.timer.cancel()
                    running.timer = None
            self.running.clear()

    def go_on(self, turn: Turn, running: RunningDevice) -> None:
        """The device does what its rhythm says, if something of it is due."""
        turn.touch(running)
        if running.connected:
            self._live(turn, running, contact=running.contact_due(turn.now))

    def come_online(self, turn: Turn, running: RunningDevice) -> None:
        """The device is back: it makes contact, or registers again when its registration outlived its lifetime."""
        if running.connected:
            self._live(turn, running, contact=True)

    def register(self, turn: Turn, running: RunningDevice) -> None:
        """The device makes a full registration."""
        registration = running.device.register(turn.now)
        running.wake(turn.now)
        turn.save(running)
        turn.calls.append(partial(self._events.registered, registration))
        self.report(turn, running)

    def update(self, turn: Turn, running: RunningDevice) -> None:
        """The device updates its registration, with its structure if the service knows another one."""
        device = running.device
        device.renewed_at = turn.now
        resources = None if device.is_introduced() else device.introduce()
        running.wake(turn.now)
        turn.save(running)
        turn.calls.append(partial(self._events.registration_updated, device.device_id, resources))
        self.report(turn, running)

    def deregister(self, turn: Turn, running: RunningDevice) -> None:
        """The device leaves."""
        running.device.registered = False
        running.device.forget_observations()
        turn.save(running)
        turn.calls.append(partial(self._events.deregistered, running.device.device_id))
        self.drop_commands(turn, running)

    def report(self, turn: Turn, running: RunningDevice, only: str | None = None) -> None:
        """The device sends what changed, of all resources or of one."""
        turn.touch(running)
        if running.connected:
            turn.observations += running.report(turn.now, only)

    def drop_commands(self, turn: Turn, running: RunningDevice) -> None:
        """The device loses the commands it has in hand."""
        turn.calls += [partial(answer, DeviceResponse(Outcome.UNAVAILABLE)) for answer in running.in_flight.values()]
        running.in_flight.clear()

    def receive(
        self, turn: Turn, running: RunningDevice, command: DeviceCommand, answer: Callable[[DeviceResponse], None]
    ) -> None:
        """A command reaches the device, which does it and answers when its latency has passed."""
        if running.device.latency_seconds == 0:
            self._respond(turn, running, command, answer)
            return
        number = next(self._command_numbers)
        running.in_flight[number] = answer
        due_at = after_seconds(turn.now, running.device.latency_seconds)
        self._clock.call_at(due_at, partial(self._respond_late, running, number, command))

    def _respond_late(self, running: RunningDevice, number: int, command: DeviceCommand) -> None:
        with self.turn() as turn:
            answer = running.in_flight.pop(number, None)
            if answer is not None:
                self._respond(turn, running, command, answer)

    def _respond(
        self, turn: Turn, running: RunningDevice, command: DeviceCommand, answer: Callable[[DeviceResponse], None]
    ) -> None:
        if running.device.answer == "silent":
            return
        response = respond(running.device, command, turn.now)
        turn.calls.append(partial(answer, response))
        if response.outcome is Outcome.DONE and changes_device(command):
            if isinstance(command, Observe):
                running.note_sent(command.path, turn.now)
            turn.save(running)
            self.report(turn, running, only=command.path)

    def _contact(self, turn: Turn, running: RunningDevice) -> None:
        running.wake(turn.now)
        turn.save(running)
        turn.calls.append(partial(self._events.contact, running.device.device_id))

    def _live(self, turn: Turn, running: RunningDevice, *, contact: bool) -> None:
        """The device does what is due; in queue mode it reports only when it is awake for something else."""
        if running.device.lapsed(turn.now):
            self.register(turn, running)
            return
        if running.update_due(turn.now):
            self.update(turn, running)
        if contact:
            self._contact(turn, running)
        if contact or not running.device.queue_mode:
            self.report(turn, running)

    def _arm(self, running: RunningDevice, now: Instant) -> None:
        """See that the device's one timer comes no later than what is due next.

        An earlier timer stays: what it is for may be due at this very instant, and is not yet done.
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
            if running.timer is None or running.timer.due_at != due_at:
                return
            running.timer = None
            self.go_on(turn, running)
