"""The bench: the device's side of simulated devices. Source: wire.md 8."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from flask import Blueprint, Response

from mirror_sdk.wire.bench import BenchAdvance, BenchDevicePatch, BenchNewDevice, BenchResourceBody
from mirror_server.core.errors import Refusal
from mirror_server.service.bench import Bench
from mirror_server.service.keys import Scope
from mirror_server.views import serialize
from mirror_server.views.answers import empty_answer, json_answer, when_read
from mirror_server.views.deferred import Deferred
from mirror_server.views.requests import leader_only, read_body, read_path, requires, services

T = TypeVar("T")

PREFIX = "/sim/v1"
_TIMEOUT_SECONDS = 600

routes = Blueprint("bench", __name__, url_prefix=PREFIX)
"""The routes of the bench; without simulated devices each is a 404 that says how to get some."""


@routes.get("/devices")
@requires(Scope.ADMIN)
@leader_only()
def list_devices() -> Response:
    """The simulated devices with their own values."""
    simulator = _bench().simulator

    def read() -> Response:
        listed = [serialize.simulated_device(state) for state in simulator.list_states()]
        return json_answer({"object": "list", "data": listed})

    return when_read(read, lambda answer: answer, is_long=True)


@routes.post("/devices")
@requires(Scope.ADMIN)
@leader_only()
def add_device() -> Response:
    """Add a simulated device, and register it."""
    body = read_body(BenchNewDevice)
    return _run(lambda bench: bench.add_device(body), lambda device_id: json_answer({"id": device_id}, 201))


@routes.patch("/devices/<device_id>")
@requires(Scope.ADMIN)
@leader_only()
def patch_device(device_id: str) -> Response:
    """Change how a simulated device behaves."""
    body = read_body(BenchDevicePatch)
    return _run(lambda bench: bench.set_behaviour(device_id, body), lambda _: empty_answer())


@routes.put("/devices/<device_id>/resources/<path:path>")
@requires(Scope.ADMIN)
@leader_only()
def put_resource(device_id: str, path: str) -> Response:
    """Give a device a value of its own, or a new resource."""
    resource_path, body = read_path(path), read_body(BenchResourceBody)
    return _run(lambda bench: bench.put_resource(device_id, resource_path, body), lambda _: empty_answer())


@routes.delete("/devices/<device_id>/resources/<path:path>")
@requires(Scope.ADMIN)
@leader_only()
def delete_resource(device_id: str, path: str) -> Response:
    """Take a resource from a device."""
    resource_path = read_path(path)
    return _run(lambda bench: bench.simulator.remove_resource(device_id, resource_path), lambda _: empty_answer())


@routes.post("/devices/<device_id>/registration")
@requires(Scope.ADMIN)
@leader_only()
def register(device_id: str) -> Response:
    """Have a device register."""
    return _run(lambda bench: bench.simulator.register(device_id), lambda _: empty_answer())


@routes.put("/devices/<device_id>/registration")
@requires(Scope.ADMIN)
@leader_only()
def update_registration(device_id: str) -> Response:
    """Have a device update its registration."""
    return _run(lambda bench: bench.simulator.update(device_id), lambda _: empty_answer())


@routes.delete("/devices/<device_id>/registration")
@requires(Scope.ADMIN)
@leader_only()
def deregister(device_id: str) -> Response:
    """Have a device deregister."""
    return _run(lambda bench: bench.simulator.deregister(device_id), lambda _: empty_answer())


@routes.get("/clock")
@requires(Scope.ADMIN)
@leader_only()
def get_clock() -> Response:
    """What the server's clock shows."""
    return json_answer(_clock(_bench()))


@routes.post("/clock")
@requires(Scope.ADMIN)
@leader_only()
def advance_clock() -> Response:
    """Move a manual clock on, with all that becomes due meanwhile."""
    seconds = read_body(BenchAdvance).advance_seconds
    bench = _bench()
    return _run(lambda _: bench.advance(seconds), lambda _: json_answer(_clock(bench)))


def _bench() -> Bench:
    bench = services().bench
    if bench is None:
        raise Refusal(404, "this server has no simulated devices; start it with --simulate N (0 will do)")
    return bench


def _clock(bench: Bench) -> dict[str, Any]:
    return {"now": serialize.timestamp(bench.clock.now()), "manual": bench.clock.is_manual}


def _run(act: Callable[[Bench], T], render: Callable[[T], Response]) -> Response:
    """Do something with the devices, and answer when all it caused is on disk."""

    def expired() -> Response:
        message = f"not done within {_TIMEOUT_SECONDS} s, and goes on; look at the devices before you repeat it, and"
        raise Refusal(503, f"{message} advance the clock by less at a time")

    return Deferred(_bench().run(act), _TIMEOUT_SECONDS, render=render, expired=expired)
