"""What the bench says and hears of simulated devices. Source: wire.md 8."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_sdk.wire.bench import AnswerMode


@dataclass(frozen=True, slots=True)
class SimulatedResource:
    """A resource inside a simulated device, with the device's own value as text."""

    path: str
    value: str = ""
    observable: bool = False
    auto_observable: bool = False
    writable: bool = False
    executable: bool = False


@dataclass(frozen=True, slots=True)
class SimulatedState:
    """A simulated device and its state, as of one instant."""

    id: str
    endpoint_name: str
    endpoint_type: str
    queue_mode: bool
    online: bool
    registered: bool
    answer: AnswerMode
    latency_seconds: float
    resources: tuple[SimulatedResource, ...]


class UnknownSimulatedDevice(LookupError):
    """No simulated device has this id."""

    def __init__(self, device_id: str) -> None:
        super().__init__(f"{device_id!r} is no simulated device; GET /sim/v1/devices lists them")
        self.device_id = device_id


class BenchRefused(ValueError):
    """The bench cannot do this; ``field`` names what stands in the way, ``message`` says what to do."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.message = message
