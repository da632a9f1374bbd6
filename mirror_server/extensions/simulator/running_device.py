"""A simulated device while the simulator runs: when it is awake, what it sent last, what it is to do next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror_server.clock import Timer
from mirror_server.core.instants import Instant, after_seconds
from mirror_server.devices.link import Content, DeviceResponse, Observation
from mirror_server.extensions.simulator.device import CONTACT_SECONDS, RunningResource, SensorReading, SimulatedDevice

AWAKE_SECONDS = 10


class LastSent(NamedTuple):
    """What the service last heard of a resource; ``text`` is ``None`` where it surely was another value."""

    text: str | None
    sent_at: Instant


@dataclass(slots=True, eq=False)
class RunningDevice:
    """The running side of one device.

    Nothing of it is stored: after a restart the device learns what it sent from what the service heard. ``held`` are
    changes that wait for their ``pmin``; ``timer`` is the one timer of the device's rhythms, ``in_flight`` who is to
    hear of the commands the device has in hand.
    """

    device: SimulatedDevice
    sent: dict[str, LastSent] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    timer: Timer | None = None
    in_flight: dict[int, Callable[[DeviceResponse], None]] = field(default_factory=dict)

    @property
    def connected(self) -> bool:
        """Whether the device takes part at all, if only now and then."""
        return self.device.online and self.device.registered

    def reachable(self, now: Instant) -> bool:
        """Whether a command sent now arrives."""
        return self.connected and (not self.device.queue_mode or self.device.awoken_at <= now < self.awake_until)

    @property
    def awake_until(self) -> Instant:
        """The instant until which a device in queue mode is reachable."""
        return after_seconds(self.device.awoken_at, AWAKE_SECONDS)

    @property
    def contact_due_at(self) -> Instant:
        """When a device in queue mode next makes contact."""
        return self.device.next_beat_after(self.device.awoken_at, CONTACT_SECONDS)

    def wake(self, now: Instant) -> None:
        """The device speaks with the service: it is reachable for a while, and its next contact is the next beat."""
        self.device.awoken_at = now

    def contact_due(self, now: Instant) -> bool:
        """Whether a device in queue mode is to make contact."""
        return self.device.queue_mode and now >= _counted(self.device.awoken_at, self.contact_due_at, now)

    def update_due(self, now: Instant) -> bool:
        """Whether the registration is to be updated."""
        return now >= _counted(self.device.renewed_at, self.device.update_due_at, now)

    def note_sent(self, path: str, now: Instant) -> None:
        """The service knows the value of a resource as it is now."""
        self.sent[path] = LastSent(self.device.reading(path, now).text, now)
        self.held.discard(path)

    def note_baseline(self, now: Instant) -> None:
        """A new device sends nothing until something changes. Source: specification 2.2, empty values at first."""
        for path, resource in self.device.resources.items():
            if resource.auto_observable:
                resource.baseline_at = now
                self.note_sent(path, now)

    def recall(self, heard: Mapping[str, LastSent]) -> None:
        """Learn what was sent from what the service heard of the resources; their baseline stands for the others."""
        baseline = {
            path: LastSent(None, resource.baseline_at)
            for path, resource in self.device.resources.items()
            if resource.baseline_at is not None
        }
        known = {path: sent for path, sent in heard.items() if path in self.device.resources}
        for path, sent in (baseline | known).items():
            is_old = self.device.resources[path].value_at <= sent.sent_at
            text = self.device.reading(path, sent.sent_at).text if sent.text is None and is_old else sent.text
            self.sent[path] = LastSent(text, sent.sent_at)

    def report(self, now: Instant, only: str | None = None) -> list[Observation]:
        """Take what is to be sent now, of all resources or of one."""
        observations = []
        for path in self.device.reported_paths():
            if only is None or path == only:
                reading = self.device.reading(path, now)
                if self._is_to_be_sent(path, reading.text, now):
                    self.sent[path] = LastSent(reading.text, now)
                    observations.append(self._observation(path, reading))
        return observations

    def _is_to_be_sent(self, path: str, text: str, now: Instant) -> bool:
        resource, sent = self.device.resources[path], self.sent.get(path)
        self.held.discard(path)
        if sent is None:
            return True
        if now < _counted(sent.sent_at, after_seconds(sent.sent_at, resource.pmin_seconds), now):
            if text != sent.text:
                self.held.add(path)
            return False
        if text != sent.text or resource.pmax_seconds is None:
            return text != sent.text
        return now >= _counted(sent.sent_at, after_seconds(sent.sent_at, resource.pmax_seconds), now)

    def _observation(self, path: str, reading: SensorReading) -> Observation:
        return Observation(self.device.device_id, path, Content(reading.text.encode()), reading.measured_at)

    def next_due_at(self, now: Instant) -> Instant | None:
        """When the device next has something to do on its own account; ``None`` while it is not connected."""
        if not self.connected:
            return None
        update_due_at = _counted(self.device.renewed_at, self.device.update_due_at, now)
        if self.device.queue_mode:
            return min(update_due_at, _counted(self.device.awoken_at, self.contact_due_at, now))
        dues = [update_due_at]
        for path in self.device.reported_paths():
            dues += self._report_dues(path, self.device.resources[path], now)
        return min(dues)

    def _report_dues(self, path: str, resource: RunningResource, now: Instant) -> list[Instant]:
        dues: list[Instant] = []
        sent, rule = self.sent.get(path), self.device.modeled(path)
        earliest_at = _counted(sent.sent_at, after_seconds(sent.sent_at, resource.pmin_seconds), now) if sent else now
        if path in self.held:
            dues.append(earliest_at)
        elif rule is not None:
            dues.append(max(earliest_at, self.device.next_beat_after(now, rule.period_seconds)))
        if resource.pmax_seconds is not None and sent:
            dues.append(_counted(sent.sent_at, after_seconds(sent.sent_at, resource.pmax_seconds), now))
        return dues


def _counted(since: Instant, due_at: Instant, now: Instant) -> Instant:
    """When something is due that is counted from an instant; at once where that is yet to come.

    The clock was ahead then and was set right: the device would do nothing before that time comes again.
    """
    return due_at if since <= now else now
