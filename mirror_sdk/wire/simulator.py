"""The simulator, which controls simulated devices. Source: wire.md 8."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from mirror_sdk.wire.directory import PRINTABLE, check_printable
from mirror_sdk.wire.model import Timestamp, WireModel
from mirror_sdk.wire.paths import PATH_PATTERN, check_path

ResponseMode = Literal["normal", "reject", "silent"]


_Name = Annotated[str, Field(max_length=64, json_schema_extra=PRINTABLE), AfterValidator(check_printable)]


class SimulatorResourceBody(WireModel):
    """A resource's value and flags; a flag that is absent is unchanged (``False`` for a new resource).

    Attributes:
        value: The device's own value, as text.
        observable: Whether the resource can be subscribed; one that is executable cannot.
        auto_observable: Whether the device sends changes without a subscription; the resource can then be subscribed,
            too. Not for one that is executable.
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
    """A simulated device to add; it registers at once.

    Attributes:
        endpoint_name: The name the device registers with.
        endpoint_type: The type the device registers with.
        queue_mode: Whether the device sleeps, and receives its requests at its next contact; an extension.
        resources: Its resources.
    """

    endpoint_name: Annotated[_Name, Field(min_length=1)]
    endpoint_type: _Name = "default"
    queue_mode: bool = False
    resources: list[SimulatorNewResource] = []


class SimulatorDeviceAdded(WireModel):
    """The id of the device that was added.

    Attributes:
        id: The device's id.
    """

    id: str


class SimulatorDevicePatch(WireModel):
    """The behavior of a simulated device from now on.

    Attributes:
        online: Whether the device is connected.
        answer: How it responds to requests: normally, with a rejection, or never.
        latency_seconds: How long it takes to respond.
    """

    online: bool | None = None
    answer: ResponseMode | None = None
    latency_seconds: Annotated[float, Field(ge=0, le=3600)] | None = None


class SimulatorResource(WireModel):
    """A resource inside a simulated device, with the device's own value as text.

    Attributes:
        path: The resource path.
        value: The device's own value, as text.
        observable: Whether the resource can be subscribed; one that is executable cannot.
        auto_observable: Whether the device sends changes without a subscription; the resource can then be subscribed,
            too. Not for one that is executable.
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
        id: The device's id.
        endpoint_name: The name the device registers with.
        endpoint_type: The type the device registers with.
        queue_mode: Whether the device sleeps, and receives its requests at its next contact; an extension.
        online: Whether the device is connected.
        registered: Whether the device is registered.
        answer: How it responds to requests: normally, with a rejection, or never.
        latency_seconds: How long it takes to respond.
        resources: Its resources and their values.
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
        data: The devices.
    """

    object: Literal["list"] = "list"
    data: list[SimulatorDevice]


class SimulatorClock(WireModel):
    """The server's clock; it can be advanced only when it is manual.

    Attributes:
        now: The time of the clock.
        manual: Whether the clock stands still until it is advanced.
    """

    now: Timestamp
    manual: bool = False


class SimulatorAdvance(WireModel):
    """The advance of the manual clock.

    Attributes:
        advance_seconds: The seconds to advance; the clock stops before the year 9999.
    """

    advance_seconds: Annotated[float, Field(gt=0, le=366 * 24 * 3600)]
