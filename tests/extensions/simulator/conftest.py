"""A server with simulated devices, and a simulator with a service that records the calls it receives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from service_diary import ServiceDiary

from mirror_server.clock import ManualClock
from mirror_server.core.timestamps import Instant, from_datetime
from mirror_server.devices.interface import DeviceCommand, DeviceResponse, Observation, Observe
from mirror_server.extensions.simulator.backend import SimulatorBackend
from mirror_server.extensions.simulator.device import SimulatedResource, SimulatedState
from mirror_server.extensions.simulator.store import LastObserved
from tests.server.conftest import USUAL_RESOURCE, Server

BEGIN_AT = from_datetime(datetime(2026, 11, 20, 12, 0, tzinfo=UTC))


class SimulatorDiary(ServiceDiary):
    """A diary that also has the saved documents and the last received values."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.last_observed: dict[tuple[str, str], LastObserved] = {}

    def observed(self, observations: Sequence[Observation]) -> Future[None]:
        for each in observations:
            self.note_received(each.device_id, each.path, each.content.payload.decode())
        return super().observed(observations)

    def note_received(self, device_id: str, path: str, text: str) -> None:
        self.last_observed[device_id, path] = LastObserved(device_id, path, text, self._clock.now())

    def names(self) -> list[str]:
        """Return the names of the events in order, except for saves."""
        return [name for name, _, _ in self.entries if name != "saved"]


class DocumentShelf:
    """Documents in memory. Saves are recorded in the diary, between the events."""

    def __init__(self, diary: SimulatorDiary) -> None:
        self._diary = diary
        self.documents: dict[str, str] = {}

    def load(self) -> dict[str, str]:
        return dict(self.documents)

    def last_observed(self) -> list[LastObserved]:
        return list(self._diary.last_observed.values())

    def save(self, documents: Mapping[str, str]) -> None:
        self.documents.update(documents)
        self._diary.write("saved", sorted(documents))


class World:
    def __init__(self, seed: int = 7, begin_at: Instant = BEGIN_AT) -> None:
        self.seed = seed
        self.clock = ManualClock(begin_at)
        self.diary = SimulatorDiary(self.clock)
        self.shelf = DocumentShelf(self.diary)
        self.simulator = self._new_simulator()

    def _new_simulator(self) -> SimulatorBackend:
        return SimulatorBackend(events=self.diary, store=self.shelf, clock=self.clock, seed=self.seed)

    def restart(self, count: int = 0, *, after_seconds: float = 0, seed: int | None = None) -> None:
        """Start a new process on the same documents. The old timers are gone, and the diary is new."""
        self.seed = self.seed if seed is None else seed
        self.clock = ManualClock(self.clock.now() + round(after_seconds * 1000))
        documents, last_observed = self.shelf.documents, self.diary.last_observed
        self.diary = SimulatorDiary(self.clock)
        self.diary.last_observed = last_observed
        self.shelf = DocumentShelf(self.diary)
        self.shelf.documents = documents
        self.simulator = self._new_simulator()
        self.simulator.start(count)

    def advance(self, seconds: float) -> None:
        self.clock.advance(round(seconds * 1000))

    def add(self, name: str = "device", *, queue_mode: bool = False, **resources: Any) -> str:
        """Add a device with one resource for each ``temperature={...}`` given by a short name."""
        simulated_resources = [SimulatedResource(path=PATHS[short], **fields) for short, fields in resources.items()]
        return self.simulator.add(name, "Test", queue_mode, simulated_resources)

    def seeded(self, endpoint_name: str, count: int = 6) -> str:
        """Start seeded devices, and return the id of one."""
        self.simulator.start(count)
        return self.id_of(endpoint_name)

    def id_of(self, endpoint_name: str) -> str:
        return next(state.id for state in self.simulator.list_states() if state.endpoint_name == endpoint_name)

    def state(self, device_id: str) -> SimulatedState:
        return next(state for state in self.simulator.list_states() if state.id == device_id)

    def value(self, device_id: str, path: str) -> str:
        return next(resource.value for resource in self.state(device_id).resources if resource.path == path)

    def send_all(self, device_id: str, command: DeviceCommand) -> list[DeviceResponse]:
        """Send a command, and append its response to the returned list when it arrives."""
        responses: list[DeviceResponse] = []

        def take(response: DeviceResponse) -> None:
            self.diary.write("answered", response)
            if isinstance(command, Observe) and response.content is not None:
                self.diary.note_received(device_id, command.path, response.content.payload.decode())
            responses.append(response)

        self.simulator.send(device_id, command, take)
        return responses

    def send(self, device_id: str, command: DeviceCommand) -> DeviceResponse:
        """Send a command with an immediate response."""
        (answer,) = self.send_all(device_id, command)
        return answer


PATHS = {"temperature": "/3303/0/5700", "door": "/3200/0/5500", "switch": "/3311/0/5850", "reboot": "/3/0/4"}


@pytest.fixture
def world() -> World:
    """An empty simulator of seed 7 on Friday, 2026-11-20 12:00 UTC."""
    return World()


@pytest.fixture
def new_world() -> type[World]:
    return World


class SimulatedServer(Server):
    """A server with simulated devices."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **{"simulate": 0, **settings})

    def advance(self, key: str, seconds: float) -> None:
        assert self.call(key, "POST", "/sim/v1/clock", json={"advance_seconds": seconds}).status_code == 200

    def add_device(self, key: str, name: str, *resources: dict[str, Any], **more: Any) -> str:
        body = {"endpoint_name": name, "resources": list(resources or (USUAL_RESOURCE,)), **more}
        answer = self.call(key, "POST", "/sim/v1/devices", json=body)
        assert answer.status_code == 201, answer.get_data()
        device_id: str = answer.json["id"]
        return device_id

    def set_value(self, key: str, device_id: str, value: str, path: str = "/3303/0/5700", **flags: Any) -> None:
        url = f"/sim/v1/devices/{device_id}/resources{path}"
        assert self.call(key, "PUT", url, json={"value": value, **flags}).status_code == 204

    def patch(self, key: str, device_id: str, **behavior: Any) -> None:
        assert self.call(key, "PATCH", f"/sim/v1/devices/{device_id}", json=behavior).status_code == 204

    def registration(self, key: str, device_id: str, method: str) -> None:
        assert self.call(key, method, f"/sim/v1/devices/{device_id}/registration").status_code == 204


@pytest.fixture
def simulated_server(tmp_path: Path) -> Iterator[SimulatedServer]:
    running = SimulatedServer(tmp_path)
    yield running
    running.services.close()


@pytest.fixture(scope="module")
def shared_simulated_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedServer]:
    """One server for all tests of a module that change no shared state."""
    running = SimulatedServer(tmp_path_factory.mktemp("simulated"))
    yield running
    running.services.close()
