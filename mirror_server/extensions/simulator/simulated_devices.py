"""Connects the simulated devices with the life of the server."""

from __future__ import annotations

from mirror_server.extensions.simulator.bench import Bench
from mirror_server.extensions.simulator.pacing import Pacing
from mirror_server.extensions.simulator.simulator import Simulator
from mirror_server.hooks import extends


class SimulatedDevices:
    """The simulated devices of one server, and what lets time pass for them.

    Args:
        simulator: The devices.
        count: How many there are to be at least.
        bench: What plays them.
        pacing: What advances their clock.
    """

    def __init__(self, simulator: Simulator, count: int, bench: Bench, pacing: Pacing) -> None:
        self._simulator = simulator
        self._count = count
        self._bench = bench
        self._pacing = pacing

    @extends
    def connect_devices(self) -> None:
        """Have them go on."""
        self._simulator.start(self._count)

    @extends
    def disconnect_devices(self) -> None:
        """Have them stand still."""
        self._simulator.stop()

    @extends
    def started(self) -> None:
        """Let time pass by itself."""
        self._pacing.start()

    @extends
    def stop(self) -> None:
        """End it."""
        self._pacing.close()
        self._bench.close()
