"""The routes of the simulator, which control the device side of simulated devices. Source: wire.md 8."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from flask import Blueprint, Response

from mirror_sdk.wire.simulator import (
    SimulatorAdvance,
    SimulatorClock,
    SimulatorDeviceAdded,
    SimulatorDeviceList,
    SimulatorDevicePatch,
    SimulatorNewDevice,
    SimulatorResourceBody,
)
from mirror_server.core.errors import ApiError
from mirror_server.service.keys import Scope
from mirror_server.views import serialize
from mirror_server.views.deferred_responses import DeferredResponse
from mirror_server.views.description import ResponseSpec, described, json_of
from mirror_server.views.requests import leader_only, read_body, read_path, requires, services
from mirror_server.views.responses import empty_response, json_response, when_read

if TYPE_CHECKING:
    from mirror_server.extensions.simulator.control import SimulatorControl

T = TypeVar("T")

PREFIX = "/sim/v1"
_TIMEOUT_SECONDS = 600
_DONE = ResponseSpec(204, "Done.")
_CLOCK = json_of(SimulatorClock, "a clock that can be advanced")

routes = Blueprint("simulator", __name__, url_prefix=PREFIX)
"""The routes of the simulator.

If there are no simulated devices, each route responds with 404 and names the option that adds some.
"""


@routes.get("/devices")
@requires(Scope.ADMIN)
@leader_only()
@described(
    "Simulator",
    ResponseSpec(200, "All simulated devices.", json_of(SimulatorDeviceList, "one device")),
    is_extension=True,
)
def list_simulated_devices() -> Response:
    """Return the simulated devices, with the current values on the devices."""
    backend = _control().backend

    def read() -> Response:
        listed = [asdict(state) for state in backend.list_states()]
        return json_response({"object": "list", "data": listed})

    return when_read(read, lambda response: response, is_long=True)


@routes.post("/devices")
@requires(Scope.ADMIN)
@leader_only()
@described(
    "Simulator",
    ResponseSpec(201, "The device was added.", json_of(SimulatorDeviceAdded, "201")),
    body=json_of(SimulatorNewDevice, "with resources", "only a name"),
    errors=(409,),
    is_extension=True,
)
def add_simulated_device() -> Response:
    """Add a simulated device, which registers immediately."""
    body = read_body(SimulatorNewDevice)
    return _run(lambda control: control.add_device(body), lambda device_id: json_response({"id": device_id}, 201))


@routes.patch("/devices/<device_id>")
@requires(Scope.ADMIN)
@leader_only()
@described(
    "Simulator",
    ResponseSpec(204, "Done."),
    body=json_of(SimulatorDevicePatch, "goes offline", "rejects", "a device that responds slowly"),
    is_extension=True,
)
def set_behavior(device_id: str) -> Response:
    """Change how a simulated device behaves."""
    body = read_body(SimulatorDevicePatch)
    return _run(lambda control: control.set_behavior(device_id, body), lambda _: empty_response())


@routes.put("/devices/<device_id>/resources/<path:path>")
@requires(Scope.ADMIN)
@leader_only()
@described(
    "Simulator",
    _DONE,
    body=json_of(SimulatorResourceBody, "a new value", "a new resource with its flags"),
    is_extension=True,
)
def put_simulated_resource(device_id: str, path: str) -> Response:
    """Change the value or the flags of a resource, or add a resource to the device."""
    resource_path, body = read_path(path), read_body(SimulatorResourceBody)
    return _run(lambda control: control.put_resource(device_id, resource_path, body), lambda _: empty_response())


@routes.delete("/devices/<device_id>/resources/<path:path>")
@requires(Scope.ADMIN)
@leader_only()
@described("Simulator", _DONE, is_extension=True)
def delete_simulated_resource(device_id: str, path: str) -> Response:
    """Remove a resource from the device. The mirror keeps the resource."""
    resource_path = read_path(path)
    return _run(lambda control: control.backend.remove_resource(device_id, resource_path), lambda _: empty_response())


@routes.post("/devices/<device_id>/registration")
@requires(Scope.ADMIN)
@leader_only()
@described("Simulator", _DONE, is_extension=True)
def register(device_id: str) -> Response:
    """Make the device send a full registration."""
    return _run(lambda control: control.backend.register(device_id), lambda _: empty_response())


@routes.put("/devices/<device_id>/registration")
@requires(Scope.ADMIN)
@leader_only()
@described("Simulator", _DONE, is_extension=True)
def update_registration(device_id: str) -> Response:
    """Make the device send a registration update."""
    return _run(lambda control: control.backend.update(device_id), lambda _: empty_response())


@routes.delete("/devices/<device_id>/registration")
@requires(Scope.ADMIN)
@leader_only()
@described("Simulator", _DONE, is_extension=True)
def deregister(device_id: str) -> Response:
    """Make the device deregister."""
    return _run(lambda control: control.backend.deregister(device_id), lambda _: empty_response())


@routes.get("/clock")
@requires(Scope.ADMIN)
@leader_only()
@described("Simulator", ResponseSpec(200, "The clock.", _CLOCK), is_extension=True)
def get_clock() -> Response:
    """Return the current time by the clock of the server, and whether that clock is manual."""
    return json_response(_clock(_control()))


@routes.post("/clock")
@requires(Scope.ADMIN)
@leader_only()
@described(
    "Simulator",
    ResponseSpec(200, "The time, after all actions that were due.", _CLOCK),
    body=json_of(SimulatorAdvance, "an hour"),
    errors=(409,),
    is_extension=True,
)
def advance_clock() -> Response:
    """Advance a manual clock."""
    seconds = read_body(SimulatorAdvance).advance_seconds
    control = _control()
    return _run(lambda _: control.advance(seconds), lambda _: json_response(_clock(control)))


def _control() -> SimulatorControl:
    # Imported here, because most servers have no simulated devices.
    from mirror_server.extensions.simulator.control import SimulatorControl  # noqa: PLC0415

    try:
        return services().part(SimulatorControl)
    except LookupError:
        message = "this server has no simulated devices; start it with --simulate N (0 is enough)"
        raise ApiError(404, message) from None


def _clock(control: SimulatorControl) -> dict[str, Any]:
    return {"now": serialize.timestamp(control.clock.now()), "manual": control.clock.is_manual}


def _run(act: Callable[[SimulatorControl], T], render: Callable[[T], Response]) -> Response:
    """Run an operation on the devices, and respond when all of its effects are on disk."""

    def expired() -> Response:
        message = f"the operation takes longer than {_TIMEOUT_SECONDS} s and continues; check the devices before you"
        raise ApiError(503, f"{message} repeat it. Advance the clock by less at a time")

    return DeferredResponse(_control().run(act), _TIMEOUT_SECONDS, render=render, expired=expired)
