"""The state of a running simulated device: when it is awake, which values it sent last, and its next action."""

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

    ``text`` is ``None`` if that value is unknown.
    """

    text: str | None
    sent_at: Instant


@dataclass(slots=True, eq=False)
class RunningDevice:
    """The state of a device that exists only while it runs.

    This state is not stored. After a restart it is restored from the values that the service received. ``delayed``
    contains the paths whose changes wait for ``pmin``. ``timer`` is the only timer of the device. ``in_flight``
    contains the callbacks of the commands that have no response yet.
    """

    device: SimulatedDevice
    sent: dict[str, LastSent] = field(default_factory=dict)
    delayed: set[str] = field(default_factory=set)
    timer: Timer | None = None
    in_flight: dict[int, Callable[[DeviceResponse], None]] = field(default_factory=dict)

    @property
    def connected(self) -> bool:
        """Whether the device is online and registered. In queue mode, it may still be asleep."""
        return self.device.online and self.device.registered

    def reachable(self, now: Instant) -> bool:
        """Return whether a command that is sent now reaches the device."""
        return self.connected and (not self.device.queue_mode or self.device.awoken_at <= now < self.awake_until)

    @property
    def awake_until(self) -> Instant:
        """The time until which a device in queue mode is reachable."""
        return after_seconds(self.device.awoken_at, AWAKE_SECONDS)

    @property
    def contact_due_at(self) -> Instant:
        """The time of the next regular contact of a device in queue mode."""
        return self.device.next_period_after(self.device.awoken_at, CONTACT_SECONDS)

    def wake(self, now: Instant) -> None:
        """Record a contact. The device is then reachable for a while, and its next contact is one interval later."""
        self.device.awoken_at = now

    def contact_due(self, now: Instant) -> bool:
        """Return whether the regular contact of a device in queue mode is due."""
        return self.device.queue_mode and now >= _counted(self.device.awoken_at, self.contact_due_at, now)

    def update_due(self, now: Instant) -> bool:
        """Return whether the registration update is due."""
        return now >= _counted(self.device.renewed_at, self.device.update_due_at, now)

    def note_sent(self, path: str, now: Instant) -> None:
        """Record that the service has received the current value of a resource."""
        self.sent[path] = LastSent(self.device.reading(path, now).text, now)
        self.delayed.discard(path)

    def note_baseline(self, now: Instant) -> None:
        """Make a new device send nothing before a value changes. Source: specification 2.2, empty values at first."""
        for path, resource in self.device.resources.items():
            if resource.auto_observable:
                resource.baseline_at = now
                self.note_sent(path, now)

    def recall(self, last_sent: Mapping[str, LastSent]) -> None:
        """Restore the last sent values from the values that the service received.

        If the service has no value of a resource, the value at the time of the baseline is used.
        """
        baseline = {
            path: LastSent(None, resource.baseline_at)
            for path, resource in self.device.resources.items()
            if resource.baseline_at is not None
        }
        known = {path: sent for path, sent in last_sent.items() if path in self.device.resources}
        for path, sent in (baseline | known).items():
            # The models are functions of time, so the value at that time can be computed, unless another value was set
            # since then.
            is_old = self.device.resources[path].value_at <= sent.sent_at
            text = self.device.reading(path, sent.sent_at).text if sent.text is None and is_old else sent.text
            self.sent[path] = LastSent(text, sent.sent_at)

    def report(self, now: Instant, only: str | None = None) -> list[Observation]:
        """Return the values that are due, of all resources or of the one resource ``only``, and record them as sent."""
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
        """Return the time of the device's next spontaneous action, or ``None`` while the device is not connected."""
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
    """Return when an action is due whose interval starts at ``since``. If ``since`` is in the future, it is due now.

    In that case the clock was ahead at ``since`` and has been corrected. Without this rule, the device would do nothing
    until the clock reaches ``since``.
    """
    return due_at if since <= now else now
