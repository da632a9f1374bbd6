"""The bench: the device's side of simulated devices. Source: wire.md 8."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from flask import Blueprint, Response

from mirror_sdk.wire.bench import BenchAdvance, BenchDevicePatch, BenchNewDevice, BenchResourceBody
from mirror_server import present
from mirror_server.bench import Bench
from mirror_server.core.errors import Refusal
from mirror_server.keys import Scope
from mirror_server.views.answers import empty_answer, json_answer
from mirror_server.views.deferred import Deferred
from mirror_server.views.requests import read_body, read_path, requires

T = TypeVar("T")

PREFIX = "/sim/v1"
_TIMEOUT_SECONDS = 600


def blueprint(bench: Bench | None) -> Blueprint:
    """The routes of the bench; without simulated devices they are all a 404 that says how to get some."""
    routes = Blueprint("bench", __name__, url_prefix=PREFIX)

    def run(act: Callable[[Bench], T], render: Callable[[T], Response]) -> Response:
        return _when_done(_there(bench).run(act), render)

    @routes.get("/devices")
    @requires(Scope.ADMIN)
    def list_devices() -> Response:
        states = _there(bench).simulator.list_states()
        return json_answer({"object": "list", "data": [present.simulated_device(state) for state in states]})

    @routes.post("/devices")
    @requires(Scope.ADMIN)
    def add_device() -> Response:
        body = read_body(BenchNewDevice)
        return run(lambda there: there.add_device(body), lambda device_id: json_answer({"id": device_id}, 201))

    @routes.patch("/devices/<device_id>")
    @requires(Scope.ADMIN)
    def patch_device(device_id: str) -> Response:
        body = read_body(BenchDevicePatch)
        return run(lambda there: there.set_behaviour(device_id, body), lambda _: empty_answer())

    @routes.put("/devices/<device_id>/resources/<path:path>")
    @requires(Scope.ADMIN)
    def put_resource(device_id: str, path: str) -> Response:
        resource_path, body = read_path(path), read_body(BenchResourceBody)
        return run(lambda there: there.put_resource(device_id, resource_path, body), lambda _: empty_answer())

    @routes.delete("/devices/<device_id>/resources/<path:path>")
    @requires(Scope.ADMIN)
    def delete_resource(device_id: str, path: str) -> Response:
        resource_path = read_path(path)
        return run(lambda there: there.simulator.remove_resource(device_id, resource_path), lambda _: empty_answer())

    @routes.post("/devices/<device_id>/registration")
    @requires(Scope.ADMIN)
    def register(device_id: str) -> Response:
        return run(lambda there: there.simulator.register(device_id), lambda _: empty_answer())

    @routes.put("/devices/<device_id>/registration")
    @requires(Scope.ADMIN)
    def update_registration(device_id: str) -> Response:
        return run(lambda there: there.simulator.update(device_id), lambda _: empty_answer())

    @routes.delete("/devices/<device_id>/registration")
    @requires(Scope.ADMIN)
    def deregister(device_id: str) -> Response:
        return run(lambda there: there.simulator.deregister(device_id), lambda _: empty_answer())

    @routes.get("/clock")
    @requires(Scope.ADMIN)
    def get_clock() -> Response:
        return json_answer(_clock(_there(bench)))

    @routes.post("/clock")
    @requires(Scope.ADMIN)
    def advance_clock() -> Response:
        seconds = read_body(BenchAdvance).advance_seconds
        there = _there(bench)
        return run(lambda _: there.advance(seconds), lambda _: json_answer(_clock(there)))

    return routes


def _there(bench: Bench | None) -> Bench:
    if bench is None:
        raise Refusal(404, "this server has no simulated devices; start it with --simulate N (0 will do)")
    return bench


def _clock(bench: Bench) -> dict[str, Any]:
    return {"now": present.timestamp(bench.clock.now()), "manual": bench.is_manual}


def _when_done(future: Future[T], render: Callable[[T], Response]) -> Response:
    def expired() -> Response:
        raise Refusal(500, f"not done within {_TIMEOUT_SECONDS} s; advance by less at a time")

    return Deferred(future, _TIMEOUT_SECONDS, render=render, expired=expired)
