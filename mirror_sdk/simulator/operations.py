"""The requests of the simulator, and how their responses are read. Nothing in here does I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TypeVar

from mirror_sdk._protocol.flow import Flow
from mirror_sdk._protocol.operation_base import HTTPResponse, Operation, read_json
from mirror_sdk._protocol.operations import checked_body, nothing, of_device, of_resource
from mirror_sdk.device_lookup import ANY_ID, DeviceLike, known_id, unknown_device
from mirror_sdk.errors import InvalidValue
from mirror_sdk.values import TEXT_PLAIN, encode
from mirror_sdk.wire import routes
from mirror_sdk.wire.simulator import (
    SimulatorAdvance,
    SimulatorClock,
    SimulatorDevice,
    SimulatorDeviceAdded,
    SimulatorDeviceList,
    SimulatorDevicePatch,
    SimulatorNewDevice,
    SimulatorResourceBody,
)

T = TypeVar("T")

_LONGEST_ADVANCE_SECONDS = 600
"""The timeout of an advance of the clock, since everything that becomes due happens before its response."""


def list_simulator_devices() -> Operation[list[SimulatorDevice]]:
    """List the simulated devices and their state."""
    return Operation("GET", routes.SIMULATOR_DEVICES, _read_devices)


def add_simulator_device(device: Mapping[str, object]) -> Operation[str]:
    """Add a simulated device, and return its id. Raises ``ValueError`` for an invalid one."""
    return Operation("POST", routes.SIMULATOR_DEVICES, _read_id, json=checked_body(SimulatorNewDevice, device))


def patch_simulator_device(device_id: str, settings: Mapping[str, object]) -> Operation[None]:
    """Change the behavior of a simulated device. Raises ``ValueError`` for invalid settings."""
    route = of_device(routes.SIMULATOR_DEVICE, device_id)
    return Operation("PATCH", route, nothing, json=checked_body(SimulatorDevicePatch, settings))


def put_simulator_resource(device_id: str, path: str, value: object, flags: Mapping[str, object]) -> Operation[None]:
    """Change a value of a simulated device, or add a resource.

    Raises:
        ValueError: The value or a flag cannot be sent.
        InvalidValue: The value does not match the declaration of the path, or has several instances.
    """
    route = of_resource(routes.SIMULATOR_RESOURCE, device_id, path)
    if isinstance(value, Mapping):
        cure = "pass one value; a real device can have several instances"
        raise InvalidValue(f"{path}: a resource of a simulated device has one value, as text; {cure}")
    # This is not a write: measured values are declared read-only.
    text = value if isinstance(value, str) else encode(value, path, TEXT_PLAIN, allow_read_only=True)[0].decode()
    return Operation("PUT", route, nothing, json=checked_body(SimulatorResourceBody, {"value": text, **flags}))


def delete_simulator_resource(device_id: str, path: str) -> Operation[None]:
    """Remove a resource of a simulated device."""
    return Operation("DELETE", of_resource(routes.SIMULATOR_RESOURCE, device_id, path), nothing)


def simulator_registration(device_id: str, method: str) -> Operation[None]:
    """Register a simulated device (``POST``), update its registration (``PUT``) or deregister it (``DELETE``)."""
    return Operation(method, of_device(routes.SIMULATOR_REGISTRATION, device_id), nothing)


def get_simulator_clock() -> Operation[SimulatorClock]:
    """Read the service's clock."""
    return Operation("GET", routes.SIMULATOR_CLOCK, read_json(SimulatorClock.model_validate_json))


def advance_simulator_clock(amount: float | timedelta) -> Operation[SimulatorClock]:
    """Advance the service's manual clock. Raises ``ValueError`` for an invalid amount."""
    seconds = amount.total_seconds() if isinstance(amount, timedelta) else amount
    return Operation(
        "POST",
        routes.SIMULATOR_CLOCK,
        read_json(SimulatorClock.model_validate_json),
        json=checked_body(SimulatorAdvance, {"advance_seconds": seconds}),
        hold_seconds=_LONGEST_ADVANCE_SECONDS,
    )


def send_to_simulator(device: DeviceLike, operation: Callable[[str], Operation[T]]) -> Flow[T]:
    """Send a command to a simulated device.

    The simulator itself translates an endpoint name into a device id, so the key needs no ``read`` scope.

    Raises:
        NotFound: There is no such simulated device.
        TypeError: ``device`` is not a device.
        ValueError: An argument cannot be sent; the message names it.
    """
    if known_id("device_id", device) is None:
        # Invalid arguments are rejected before any request.
        operation(ANY_ID)
    device_id = yield from simulator_id_of(device)
    response: T = yield operation(device_id)
    return response


def simulator_id_of(device: DeviceLike) -> Flow[str]:
    """Return the id of a simulated device.

    Raises:
        TypeError: ``device`` is not a device.
        UnknownDevice: No simulated device has this name.
    """
    device_id = known_id("device_id", device)
    if device_id is None:
        listed: list[SimulatorDevice] = yield list_simulator_devices()
        # An id takes precedence over an equal name of another device.
        ids = {one.endpoint_name: one.id for one in listed} | {one.id: one.id for one in listed}
        device_id = ids.get(str(device))
        if device_id is None:
            raise (yield from unknown_device([str(device)], [one.endpoint_name for one in listed]))
    return device_id


def _read_devices(response: HTTPResponse) -> list[SimulatorDevice]:
    return read_json(SimulatorDeviceList.model_validate_json)(response).data


def _read_id(response: HTTPResponse) -> str:
    return read_json(SimulatorDeviceAdded.model_validate_json)(response).id
