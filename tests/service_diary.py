"""A record of the events that a device backend sends to the service, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from mirror_server.clock import ManualClock
from mirror_server.core.timestamps import Instant
from mirror_server.devices.interface import Observation, Registration


class ServiceDiary:
    """A stand-in for the service that records every event with its instant."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.entries: list[tuple[str, Instant, Any]] = []
        self.changed: dict[str, Any] = {}
        """The changed fields of the last registration update."""
        self.on_contact: Callable[[str], None] = lambda device_id: None

    def write(self, name: str, what: Any, result: Any = None) -> Future[Any]:
        self.entries.append((name, self._clock.now(), what))
        future: Future[Any] = Future()
        future.set_result(result)
        return future

    def registered(self, registration: Registration) -> Future[str]:
        device_id = registration.device_id or f"id-of-{registration.endpoint_name}"
        return self.write("registered", registration, device_id)

    def registration_updated(self, device_id: str, resources: Any = None, **changed: Any) -> Future[None]:
        self.changed = changed
        return self.write("updated", (device_id, resources))

    def deregistered(self, device_id: str) -> Future[None]:
        return self.write("deregistered", device_id)

    def contact(self, device_id: str) -> None:
        self.write("contact", device_id)
        self.on_contact(device_id)

    def observed(self, observations: Sequence[Observation]) -> Future[None]:
        return self.write("observed", list(observations))

    def observation_ended(self, device_id: str, path: str) -> Future[None]:
        return self.write("ended", (device_id, path))

    def all(self, name: str) -> list[Any]:
        return [what for entry, _, what in self.entries if entry == name]

    def times(self, name: str) -> list[Instant]:
        return [at for entry, at, _ in self.entries if entry == name]

    def observations(self, path: str | None = None) -> list[Observation]:
        return [each for sent in self.all("observed") for each in sent if path in {None, each.path}]

    def values(self, path: str | None = None) -> list[str]:
        return [observation.content.payload.decode() for observation in self.observations(path)]
