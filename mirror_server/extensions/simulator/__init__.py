"""Simulated devices with their measurements and responses, and the routes at ``/sim/v1`` that control them."""

# Start reading with ``control``, then ``backend`` and ``device``.

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mirror_server.extensions.simulator.settings import SimulatorSettings
from mirror_server.hooks import extends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flask import Blueprint

    from mirror_server.config import Settings
    from mirror_server.server import Services
    from mirror_server.store.backend import Storage


@extends
def settings() -> type:
    """Return the class of the simulator settings."""
    return SimulatorSettings


@extends
def commands() -> dict[str, Sequence[str]]:
    """Return the module of the command ``demo``."""
    return {"mirror_server.extensions.simulator.demo": ["demo"]}


@extends
def storage() -> Storage:
    """Return the database table with the states of simulated devices."""
    from mirror_server.store.backend import Storage
    from mirror_server.store.schema import Branch

    delete = "DELETE FROM simulated_devices WHERE device_id = :device_id"
    return Storage(
        branch=Branch("simulator", Path(__file__).parent / "migrations"),
        erase=lambda session, device_id, _: {"simulated_devices": session.run(delete, device_id=device_id)},
    )


@extends
def shared_settings(settings: Settings) -> str:
    """Return the option for simulated devices, which must be the same for all processes on one database."""
    return "without --simulate" if settings.of(SimulatorSettings).simulate is None else "with --simulate"


@extends
def build(services: Services) -> Sequence[object]:
    """Create the simulated devices and their control, if they are enabled."""
    chosen = services.settings.of(SimulatorSettings)
    if chosen.simulate is None:
        return []
    from mirror_server.extensions.simulator.backend import SimulatorBackend
    from mirror_server.extensions.simulator.clock_pacer import ClockPacer
    from mirror_server.extensions.simulator.control import SimulatorControl
    from mirror_server.extensions.simulator.store import StoredSimulation

    database, clock, store = services.database, services.clock, StoredSimulation(services.database)
    backend = SimulatorBackend(events=services.devices, store=store, clock=clock, seed=chosen.seed)
    services.backends.add(backend)
    advanced = services.extensions.hook.clock_advanced
    control = SimulatorControl(
        backend=backend, count=chosen.simulate, clock=clock, database=database, advanced=advanced
    )
    return [control, ClockPacer(control, chosen.pace)]


@extends
def blueprints() -> list[Blueprint]:
    """Return the routes of the simulator.

    If there are no simulated devices, each route responds with 404 and names the option that adds some.
    """
    from mirror_server.extensions.simulator.views import routes

    return [routes]


@extends
def openapi_exclusions(settings: Settings) -> Sequence[str]:
    """Exclude the routes of the simulator from the OpenAPI description if there are no simulated devices."""
    from mirror_server.extensions.simulator.views import PREFIX

    return [PREFIX] if settings.of(SimulatorSettings).simulate is None else []
