"""A running simulated device: when it is awake, the last values it sent, and its next action."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror_server.clock import Timer
from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.devices.interface import Content, DeviceResponse, Observation
from mirror_server.extensions.simulator.device import CONTACT_SECONDS, RunningResource, SensorReading, SimulatedDevice

AWAKE_SECONDS = 10


class LastSent(NamedTuple):
    """The last value of a resource that the service received.

    ``text`` is ``None`` if the current value certainly differs.
    """

    text: str | None
    sent_at: Instant


@dataclass(slots=True, eq=False)
class RunningDevice:
    """The running side of one device.

    It is not stored. After a restart it is restored from the values that the service received. ``delayed`` has paths
    of changes that wait for ``pmin``. ``timer`` is the device's only timer. ``in_flight`` has the callbacks of
    commands without a response.
    """

    device: SimulatedDevice
    sent: dict[str, LastSent] = field(default_factory=dict)
    delayed: set[str] = field(default_factory=set)
    timer: Timer | None = None
    in_flight: dict[int, Callable[[DeviceResponse], None]] = field(default_factory=dict)

    @property
    def connected(self) -> bool:
        """Whether the device is online and registered, at least from time to time."""
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
        """The next contact of a device in queue mode."""
        return self.device.next_period_after(self.device.awoken_at, CONTACT_SECONDS)

    def wake(self, now: Instant) -> None:
        """Record a contact. The device is then reachable for a while, and its next contact is one interval later."""
        self.device.awoken_at = now

    def contact_due(self, now: Instant) -> bool:
        """Whether the contact of a device in queue mode is due."""
        return self.device.queue_mode and now >= _counted(self.device.awoken_at, self.contact_due_at, now)

    def update_due(self, now: Instant) -> bool:
        """Whether the update of the registration is due."""
        return now >= _counted(self.device.renewed_at, self.device.update_due_at, now)

    def note_sent(self, path: str, now: Instant) -> None:
        """Record that the service has the current value of a resource."""
        self.sent[path] = LastSent(self.device.reading(path, now).text, now)
        self.delayed.discard(path)

    def note_baseline(self, now: Instant) -> None:
        """Make a new device send nothing until a value changes. Source: specification 2.2, empty values at first."""
        for path, resource in self.device.resources.items():
            if resource.auto_observable:
                resource.baseline_at = now
                self.note_sent(path, now)

    def recall(self, last_sent: Mapping[str, LastSent]) -> None:
        """Restore the sent values from the values that the service received.

        For other resources the baseline is used.
        """
        baseline = {
            path: LastSent(None, resource.baseline_at)
            for path, resource in self.device.resources.items()
            if resource.baseline_at is not None
        }
        known = {path: sent for path, sent in last_sent.items() if path in self.device.resources}
        for path, sent in (baseline | known).items():
            # The models are functions of time, so the value of that time is known, unless another one was set since.
            is_old = self.device.resources[path].value_at <= sent.sent_at
            text = self.device.reading(path, sent.sent_at).text if sent.text is None and is_old else sent.text
            self.sent[path] = LastSent(text, sent.sent_at)

    def report(self, now: Instant, only: str | None = None) -> list[Observation]:
        """Return the values that are due, of all resources or of one, and record them as sent."""
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
        self.delayed.discard(path)
        if sent is None:
            return True
        if now < _counted(sent.sent_at, after_seconds(sent.sent_at, resource.pmin_seconds), now):
            if text != sent.text:
                self.delayed.add(path)
            return False
        if text != sent.text or resource.pmax_seconds is None:
            return text != sent.text
        return now >= _counted(sent.sent_at, after_seconds(sent.sent_at, resource.pmax_seconds), now)

    def _observation(self, path: str, reading: SensorReading) -> Observation:
        return Observation(self.device.device_id, path, Content(reading.text.encode()), reading.measured_at)

    def next_due_at(self, now: Instant) -> Instant | None:
        """Return the instant of the device's next action by itself, or ``None`` while it is not connected."""
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
        if path in self.delayed:
            dues.append(earliest_at)
        elif rule is not None:
            dues.append(max(earliest_at, self.device.next_period_after(now, rule.period_seconds)))
        if resource.pmax_seconds is not None and sent:
            dues.append(_counted(sent.sent_at, after_seconds(sent.sent_at, resource.pmax_seconds), now))
        return dues


def _counted(since: Instant, due_at: Instant, now: Instant) -> Instant:
    """Return when an action is due that is counted from an instant; at once if that instant is in the future.

    The clock was ahead at that time and has been corrected. Otherwise the device would do nothing until then.
    """
    return due_at if since <= now else now
