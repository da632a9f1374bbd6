"""What simulated devices do, on their own account or when told to: their lock, their timers, their words."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol

from mirror_server.clock import Clock
from mirror_server.core.instants import Instant, after_seconds
from mirror_server.devices.commands import changes_device, respond
from mirror_server.devices.device import SimulatedDevice
from mirror_server.devices.line import Line
from mirror_server.devices.link import Answer, DeviceCommand, DeviceEvents, Observation, Observe, Outcome
from mirror_server.devices.outbox import Outbox


class Heard(NamedTuple):
    """When the service last heard of a resource by an observation; the value, unless it has read another since."""

    device_id: str
    path: str
    text: str | None
    heard_at: Instant


class SimulatorStore(Protocol):
    """Where simulated devices are kept: device id -> JSON document."""

    def load(self) -> dict[str, str]:
        """All documents."""
        ...

    def heard(self) -> list[Heard]:
        """What the service has heard of these devices: what it has not is to be sent once more."""
        ...

    def save(self, documents: Mapping[str, str]) -> None:
        """Put documents in line for the disk, before all that the simulator tells the service later; never blocks."""
        ...


@dataclass(slots=True)
class Turn:
    """What is decided at one instant: devices to store, lines whose next timer may be another one, things to tell."""

    now: Instant
    unsaved: dict[str, SimulatedDevice] = field(default_factory=dict)
    touched: dict[str, Line] = field(default_factory=dict)
    calls: list[Callable[[], object]] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)

    def touch(self, line: Line) -> None:
        """The line's next timer is to be looked after."""
        self.touched[line.device.device_id] = line

    def save(self, line: Line) -> None:
        """The line's device is to be stored."""
        self.touch(line)
        self.unsaved[line.device.device_id] = line.device


class Fleet:
    """All lines. Everything is called inside a turn, or, where nothing is decided, a look."""

    def __init__(self, *, events: DeviceEvents, store: SimulatorStore, clock: Clock) -> None:
        self.lines: dict[str, Line] = {}
        self._events = events
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._outbox = Outbox()
        self._command_numbers = itertools.count()

    @contextmanager
    def look(self) -> Iterator[Instant]:
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
        with self.look() as now:
            turn = Turn(now)
            yield turn
            for line in turn.touched.values():
                self._arm(line, now)
            if turn.unsaved:
                self._store.save({device_id: device.to_json() for device_id, device in turn.unsaved.items()})
            if turn.observations:
                turn.calls.append(partial(self._events.observed, turn.observations))
            last_call = self._outbox.add(turn.calls)
        self._outbox.speak()
        if wait:
            self._outbox.wait_until_told(last_call)

    def adopt(self, device: SimulatedDevice) -> Line:
        """Take a device in."""
        line = self.lines[device.device_id] = Line(device)
        return line

    def retire(self) -> None:
        """Let go of all devices: another process has them now."""
        with self._lock:
            for line in self.lines.values():
                line.in_flight.clear()
                if line.timer is not None:
                    line.timer.cancel()
                    line.timer = None
            self.lines.clear()

    def go_on(self, turn: Turn, line: Line) -> None:
        """The device does what its rhythm says, if something of it is due."""
        turn.touch(line)
        if line.connected:
            self._live(turn, line, contact=line.contact_due(turn.now))

    def come_online(self, turn: Turn, line: Line) -> None:
        """The device is back: it makes contact, or registers again when its registration outlived its lifetime."""
        if line.connected:
            self._live(turn, line, contact=True)

    def register(self, turn: Turn, line: Line) -> None:
        """The device makes a full registration."""
        registration = line.device.register(turn.now)
        line.wake(turn.now)
        turn.save(line)
        turn.calls.append(partial(self._events.registered, registration))
        self.report(turn, line)

    def update(self, turn: Turn, line: Line) -> None:
        """The device updates its registration, with its structure if the service knows another one."""
        device = line.device
        device.renewed_at = turn.now
        resources = None if device.is_introduced() else device.introduce()
        line.wake(turn.now)
        turn.save(line)
        turn.calls.append(partial(self._events.registration_updated, device.device_id, resources))
        self.report(turn, line)

    def deregister(self, turn: Turn, line: Line) -> None:
        """The device leaves."""
        line.device.registered = False
        line.device.forget_observations()
        turn.save(line)
        turn.calls.append(partial(self._events.deregistered, line.device.device_id))
        self.drop_commands(turn, line)

    def report(self, turn: Turn, line: Line, only: str | None = None) -> None:
        """The device sends what changed, of all resources or of one."""
        turn.touch(line)
        if line.connected:
            turn.observations += line.report(turn.now, only)

    def drop_commands(self, turn: Turn, line: Line) -> None:
        """The device loses the commands it has in hand."""
        turn.calls += [partial(answer, Answer(Outcome.UNAVAILABLE)) for answer in line.in_flight.values()]
        line.in_flight.clear()

    def receive(self, turn: Turn, line: Line, command: DeviceCommand, answer: Callable[[Answer], None]) -> None:
        """A command reaches the device, which does it and answers when its latency has passed."""
        if line.device.latency_seconds == 0:
            self._respond(turn, line, command, answer)
            return
        number = next(self._command_numbers)
        line.in_flight[number] = answer
        due_at = after_seconds(turn.now, line.device.latency_seconds)
        self._clock.call_at(due_at, partial(self._respond_late, line, number, command))

    def _respond_late(self, line: Line, number: int, command: DeviceCommand) -> None:
        with self.turn() as turn:
            answer = line.in_flight.pop(number, None)
            if answer is not None:
                self._respond(turn, line, command, answer)

    def _respond(self, turn: Turn, line: Line, command: DeviceCommand, answer: Callable[[Answer], None]) -> None:
        if line.device.answer == "silent":
            return
        response = respond(line.device, command, turn.now)
        turn.calls.append(partial(answer, response))
        if response.outcome is Outcome.DONE and changes_device(command):
            if isinstance(command, Observe):
                line.note_sent(command.path, turn.now)
            turn.save(line)
            self.report(turn, line, only=command.path)

    def _contact(self, turn: Turn, line: Line) -> None:
        line.wake(turn.now)
        turn.save(line)
        turn.calls.append(partial(self._events.contact, line.device.device_id))

    def _live(self, turn: Turn, line: Line, *, contact: bool) -> None:
        """The device does what is due; in queue mode it reports only when it is awake for something else."""
        if line.device.lapsed(turn.now):
            self.register(turn, line)
            return
        if turn.now >= line.device.update_due_at:
            self.update(turn, line)
        if contact:
            self._contact(turn, line)
        if contact or not line.device.queue_mode:
            self.report(turn, line)

    def _arm(self, line: Line, now: Instant) -> None:
        """See that the line's one timer comes no later than what is due next.

        An earlier timer stays: what it is for may be due at this very instant, and is not yet done.
        """
        due_at = line.next_due_at(now)
        timer = line.timer
        if timer is not None and due_at is not None and timer.due_at <= due_at:
            return
        if timer is not None:
            timer.cancel()
        line.timer = None if due_at is None else self._clock.call_at(due_at, partial(self._wake, line, due_at))

    def _wake(self, line: Line, due_at: Instant) -> None:
        with self.turn() as turn:
            if line.timer is None or line.timer.due_at != due_at:
                return
            line.timer = None
            self.go_on(turn, line)
