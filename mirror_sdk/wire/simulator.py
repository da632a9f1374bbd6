"""The models of the simulator, which controls simulated devices. Source: wire.md 8."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mirror_sdk.wire.directory import PRINTABLE, check_printable
from mirror_sdk.wire.model import Timestamp, WireModel
from mirror_sdk.wire.paths import PATH_PATTERN, check_path

ResponseMode = Literal["normal", "reject", "silent"]


_Name = Annotated[str, Field(max_length=64, json_schema_extra=PRINTABLE), AfterValidator(check_printable)]


class SimulatorResourceBody(WireModel):
    """The value and the flags of a resource. An absent flag stays unchanged, or is ``False`` for a new resource.

    Attributes:
        value: The value in the device as a string.
        observable: Whether applications can subscribe to the resource. This is not allowed for an executable resource.
        auto_observable: Whether the device sends changes without a subscription. Applications can then also subscribe
            to the resource. This is not allowed for an executable resource.
        writable: Whether the resource can be written.
        executable: Whether the resource can be executed.
    """

    value: Annotated[str, Field(max_length=65536)] | None = None
    observable: bool | None = None
    auto_observable: bool | None = None
    writable: bool | None = None
    executable: bool | None = None


class SimulatorNewResource(SimulatorResourceBody):
    """A resource of a new simulated device.

    Attributes:
        path: The resource path.
    """

    path: Annotated[str, Field(json_schema_extra={"pattern": PATH_PATTERN}), AfterValidator(check_path)]


class SimulatorNewDevice(WireModel):
    """A simulated device to add, which registers at once.

    Attributes:
        endpoint_name: The name with which the device registers.
        endpoint_type: The type with which the device registers.
        queue_mode: Whether the device sleeps between contacts, and receives its requests at the next contact. An
            extension of the specification.
        resources: The resources of the device.
    """

    endpoint_name: Annotated[_Name, Field(min_length=1)]
    endpoint_type: _Name = "default"
    queue_mode: bool = False
    resources: list[SimulatorNewResource] = []


class SimulatorDeviceAdded(WireModel):
    """The id of the device that was added.

    Attributes:
        id: The id of the device.
    """

    id: str


class SimulatorDevicePatch(WireModel):
    """A change of the behavior of a simulated device.

    Attributes:
        online: Whether the device is connected.
        answer: How it responds to requests: normally, with a rejection, or never.
        latency_seconds: How many seconds the device takes to respond.
    """

    online: bool | None = None
    answer: ResponseMode | None = None
    latency_seconds: Annotated[float, Field(ge=0, le=3600)] | None = None


class SimulatorResource(WireModel):
    """A resource of a simulated device.

    Attributes:
        path: The resource path.
        value: The value in the device as a string.
        observable: Whether applications can subscribe to the resource. This is not allowed for an executable resource.
        auto_observable: Whether the device sends changes without a subscription. Applications can then also subscribe
            to the resource. This is not allowed for an executable resource.
        writable: Whether the resource can be written.
        executable: Whether the resource can be executed.
    """

    path: str
    value: str
    observable: bool
    auto_observable: bool
    writable: bool
    executable: bool


class SimulatorDevice(WireModel):
    """A simulated device and its state.

    Attributes:
        id: The id of the device.
        endpoint_name: The name with which the device registers.
        endpoint_type: The type with which the device registers.
        queue_mode: Whether the device sleeps between contacts, and receives its requests at the next contact. An
            extension of the specification.
        online: Whether the device is connected.
        registered: Whether the device is registered.
        answer: How it responds to requests: normally, with a rejection, or never.
        latency_seconds: How many seconds the device takes to respond.
        resources: The resources of the device with their values.
    """

    id: str
    endpoint_name: str
    endpoint_type: str
    queue_mode: bool
    online: bool
    registered: bool
    answer: ResponseMode
    latency_seconds: float
    resources: list[SimulatorResource]


class SimulatorDeviceList(WireModel):
    """All simulated devices.

    Attributes:
        data: The simulated devices.
    """

    object: Literal["list"] = "list"
    data: list[SimulatorDevice]


class SimulatorClock(WireModel):
    """The server's clock. Only a manual clock can be advanced.

    Attributes:
        now: The time of the clock.
        manual: Whether the clock stands still until it is advanced.
    """

    now: Timestamp
    manual: bool = False


class SimulatorAdvance(WireModel):
    """A request to advance the manual clock.

    Attributes:
        advance_seconds: How many seconds to advance the clock. The clock stops before the year 9999.
    """

    advance_seconds: Annotated[float, Field(gt=0, le=366 * 24 * 3600)]
