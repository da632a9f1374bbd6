"""The requests of the simulator, and the readers of their responses. This module performs no I/O."""

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
"""The timeout for advancing the clock, because all actions that become due take place before the response."""


def list_simulator_devices() -> Operation[list[SimulatorDevice]]:
    """Return the operation that lists the simulated devices and their state."""
    return Operation("GET", routes.SIMULATOR_DEVICES, _read_devices)


def add_simulator_device(device: Mapping[str, object]) -> Operation[str]:
    """Return the operation that adds a simulated device. Its result is the id of the device.

    Raises:
        ValueError: The device is not valid.
    """
    return Operation("POST", routes.SIMULATOR_DEVICES, _read_id, json=checked_body(SimulatorNewDevice, device))


def patch_simulator_device(device_id: str, settings: Mapping[str, object]) -> Operation[None]:
    """Return the operation that changes the behavior of a simulated device.

    Raises:
        ValueError: A setting is not valid.
    """
    route = of_device(routes.SIMULATOR_DEVICE, device_id)
    return Operation("PATCH", route, nothing, json=checked_body(SimulatorDevicePatch, settings))


def put_simulator_resource(device_id: str, path: str, value: object, flags: Mapping[str, object]) -> Operation[None]:
    """Return the operation that changes a value of a simulated device or adds a resource.

    Raises:
        ValueError: The value or a flag is not valid and cannot be sent.
        InvalidValue: The value does not match the declaration of the path, or has several instances.
    """
    route = of_resource(routes.SIMULATOR_RESOURCE, device_id, path)
    if isinstance(value, Mapping):
        cure = "pass one value; a real device can have several instances"
        raise InvalidValue(f"{path}: a resource of a simulated device has one value, as text; {cure}")
    # Read-only resources are allowed, because this is a measured value and not a write.
    text = value if isinstance(value, str) else encode(value, path, TEXT_PLAIN, allow_read_only=True)[0].decode()
    return Operation("PUT", route, nothing, json=checked_body(SimulatorResourceBody, {"value": text, **flags}))


def delete_simulator_resource(device_id: str, path: str) -> Operation[None]:
    """Return the operation that removes a resource of a simulated device."""
    return Operation("DELETE", of_resource(routes.SIMULATOR_RESOURCE, device_id, path), nothing)


def simulator_registration(device_id: str, method: str) -> Operation[None]:
    """Return the operation that registers (POST), updates (PUT) or deregisters (DELETE) a simulated device."""
    return Operation(method, of_device(routes.SIMULATOR_REGISTRATION, device_id), nothing)


def get_simulator_clock() -> Operation[SimulatorClock]:
    """Return the operation that reads the service's clock."""
    return Operation("GET", routes.SIMULATOR_CLOCK, read_json(SimulatorClock.model_validate_json))


def advance_simulator_clock(amount: float | timedelta) -> Operation[SimulatorClock]:
    """Return the operation that advances the service's manual clock.

    Raises:
        ValueError: The amount is not valid.
    """
    seconds = amount.total_seconds() if isinstance(amount, timedelta) else amount
    return Operation(
        "POST",
        routes.SIMULATOR_CLOCK,
        read_json(SimulatorClock.model_validate_json),
        json=checked_body(SimulatorAdvance, {"advance_seconds": seconds}),
        hold_seconds=_LONGEST_ADVANCE_SECONDS,
    )


def send_to_simulator(device: DeviceLike, operation: Callable[[str], Operation[T]]) -> Flow[T]:
    """Send a request to the simulator that concerns a simulated device.

    The endpoint name is looked up in the simulator's list of devices, so the key needs no ``read`` scope.

    Raises:
        NotFound: There is no such simulated device.
        TypeError: ``device`` is not a device.
        ValueError: An argument is not valid and cannot be sent. The message contains its name.
    """
    if known_id("device_id", device) is None:
        # Check the arguments before any request is sent.
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
        # The id of a device takes precedence over an equal name of another device.
        ids = {one.endpoint_name: one.id for one in listed} | {one.id: one.id for one in listed}
        device_id = ids.get(str(device))
        if device_id is None:
            raise (yield from unknown_device([str(device)], [one.endpoint_name for one in listed]))
    return device_id


def _read_devices(response: HTTPResponse) -> list[SimulatorDevice]:
    return read_json(SimulatorDeviceList.model_validate_json)(response).data


def _read_id(response: HTTPResponse) -> str:
    return read_json(SimulatorDeviceAdded.model_validate_json)(response).id
