"""Who observes what on a device, and when a change is due to be told. Source: RFC 7641; LwM2M core 5.1.2 and 6.4."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_server.core.instants import Instant, after_seconds
from mirror_server.extensions.lwm2m.device.resources import Attributes, outer_paths
from mirror_server.extensions.lwm2m.links import is_within

_SEQUENCES = 1 << 24


@dataclass(slots=True)
class DeviceObservation:
    """An observation of a resource or an instance, and what was sent of it last."""

    path: str
    token: bytes
    content_format: int
    sent: bytes
    sent_at: Instant


class Observations:
    """The observations of a device.

    Attributes:
        sequence: The Observe option that was used last; it goes round after 24 bits.
    """

    def __init__(self) -> None:
        self.sequence = 0
        self._by_token: dict[bytes, DeviceObservation] = {}
        self._attributes: dict[str, Attributes] = {}

    def __len__(self) -> int:
        return len(self._by_token)

    def all(self) -> list[DeviceObservation]:
        """All, in the order they began."""
        return list(self._by_token.values())

    def next_sequence(self) -> int:
        """The Observe option of the next message."""
        self.sequence = (self.sequence + 1) % _SEQUENCES
        return self.sequence

    def begin(self, observation: DeviceObservation) -> None:
        """Begin one; it takes the place of those it overlaps with, as it does in stacks that keep one for a path."""
        for other in self.all():
            if is_within(other.path, observation.path) or is_within(observation.path, other.path):
                del self._by_token[other.token]
        self._by_token[observation.token] = observation

    def end(self, token: bytes) -> None:
        """End the one with this token, if there is one."""
        self._by_token.pop(token, None)

    def forget(self) -> None:
        """End all."""
        self._by_token.clear()

    def touched_by(self, path: str) -> list[DeviceObservation]:
        """Those that a change of a resource concerns."""
        return [each for each in self._by_token.values() if is_within(path, each.path)]

    def own_attributes(self, path: str) -> Attributes:
        """The attributes that were written to this very path."""
        return self._attributes.get(path, Attributes())

    def set_attributes(self, path: str, attributes: Attributes) -> None:
        """Keep attributes that were written."""
        self._attributes[path] = attributes

    def attributes(self, path: str) -> Attributes:
        """The attributes that count for a path: its own, then those around it."""
        found = Attributes()
        for each in outer_paths(path):
            found = found.or_else(self.own_attributes(each))
        return found

    def earliest_at(self, observation: DeviceObservation) -> Instant:
        """When the next change may be told."""
        return after_seconds(observation.sent_at, self.attributes(observation.path).pmin_seconds or 0)

    def latest_at(self, observation: DeviceObservation) -> Instant | None:
        """When the value is to be told in any case."""
        seconds = self.attributes(observation.path).pmax_seconds
        return (
            None if seconds is None else max(after_seconds(observation.sent_at, seconds), self.earliest_at(observation))
        )
