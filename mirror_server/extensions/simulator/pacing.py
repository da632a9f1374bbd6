"""Lets a manual clock pass by itself, besides being advanced."""

from __future__ import annotations

import threading
import time

from mirror_server.core.errors import ApiError
from mirror_server.extensions.simulator.control import SimulatorControl
from mirror_server.hooks import extends
from mirror_server.store.backend import StorageFailed

_TICK_SECONDS = 1.0


class Pacing:
    """Advances the manual clock of the simulator every second, for as long as it runs.

    Args:
        control: Whose clock it is.
        pace: How many seconds of it pass in a second of real time; 0 lets it stand still.
    """

    def __init__(self, control: SimulatorControl, pace: float) -> None:
        self._control = control
        self._pace = pace
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pacing", daemon=True)

    @extends(specname="started")
    def start(self) -> None:
        """Start, unless the pace is 0."""
        if self._pace:
            self._thread.start()

    @extends(specname="stop", tryfirst=True)
    def close(self) -> None:
        """Stop, before the simulator does."""
        self._closed.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        last = time.monotonic()
        while not self._closed.wait(_TICK_SECONDS):
            now = time.monotonic()
            self._advance((now - last) * self._pace)
            last = now

    def _advance(self, seconds: float) -> None:
        try:
            self._control.run(lambda control: control.advance(seconds)).result()
        except (StorageFailed, ApiError):
            # Told by whoever cannot store; time stands still until it can be stored again, and at its end for good.
            return
