"""A background thread that advances a manual clock continuously."""

from __future__ import annotations

import threading
import time

from mirror_server.core.errors import ApiError
from mirror_server.extensions.simulator.control import SimulatorControl
from mirror_server.hooks import extends
from mirror_server.store.backend import StorageFailed

_TICK_SECONDS = 1.0


class ClockPacer:
    """Advances the manual clock of the simulator every second while the server runs.

    Args:
        control: The control of the simulator, which advances the clock.
        pace: The number of seconds by which the clock advances per second of real time. If it is 0, the
            clock is not advanced.
    """

    def __init__(self, control: SimulatorControl, pace: float) -> None:
        self._control = control
        self._pace = pace
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pacing", daemon=True)

    @extends(specname="started")
    def start(self) -> None:
        """Start advancing the clock, unless the pace is 0."""
        if self._pace:
            self._thread.start()

    @extends(specname="stop", tryfirst=True)
    def close(self) -> None:
        """Stop advancing the clock, before the simulator stops."""
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
            # The writer logs the error. The clock stands still until changes can be stored, or forever if it has
            # reached its end.
            return
