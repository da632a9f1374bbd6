"""Controls the simulated devices; a future is done when all that was caused is on disk. Source: wire.md 8."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TypeVar

from mirror_sdk.wire.simulator import SimulatorDevicePatch, SimulatorNewDevice, SimulatorResourceBody
from mirror_server.clock import Clock, ManualClock
from mirror_server.core.errors import ApiError
from mirror_server.core.instants import from_datetime
from mirror_server.extensions.simulator.backend import SimulatorBackend
from mirror_server.extensions.simulator.device import (
    BACKEND,
    SimulatedResource,
    SimulatorError,
    UnknownSimulatedDevice,
    flags_of,
)
from mirror_server.hooks import extends
from mirror_server.store import devices
from mirror_server.store.database import Database
from mirror_server.store.session import MANUAL_CLOCK, Session

T = TypeVar("T")

_STORE_SECONDS = 30

CLOCK_ENDS_AT = from_datetime(datetime(9999, 1, 1, tzinfo=UTC))
"""A manual clock stops before. Times are told up to the end of that year, and what is kept ends later than now."""


class SimulatorControl:
    """Plays the simulated devices and the manual clock; what it is told is done one after the other.

    Args:
        backend: The simulated devices.
        count: The least number of devices.
        clock: Domain time.
        database: Waited for, so that what is done is on disk.
        advanced: Called when the clock was advanced.
    """

    def __init__(
        self, *, backend: SimulatorBackend, count: int, clock: Clock, database: Database, advanced: Callable[[], None]
    ) -> None:
        self.backend = backend
        self._count = count
        self.clock = clock
        self._database = database
        self._advanced = advanced
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="simulator")

    @extends
    def connect_devices(self) -> None:
        """Start the devices."""
        self.backend.start(self._count)

    @extends
    def disconnect_devices(self) -> None:
        """Stop the devices."""
        self.backend.stop()

    def run(self, act: Callable[[SimulatorControl], T]) -> Future[T]:
        """Do something with the devices; the future is done when all it caused is on disk.

        The future raises :class:`~mirror_server.store.backend.StorageFailed` when nothing can be stored, and a ApiError
        (503) where other changes hold up the database for too long.
        """
        return self._thread.submit(self._act, act)

    def add_device(self, body: SimulatorNewDevice) -> str:
        """Add a device; gives its id.

        Raises:
            SimulatorError: A real device has the name; see also :meth:`SimulatorBackend.add`.
        """
        with self._database.read() as session:
            known = devices.find_by_endpoint_name(session, body.endpoint_name)
            if known is not None and known.backend != BACKEND:
                message = f"a real device is named {body.endpoint_name!r}; take another name"
                raise SimulatorError("endpoint_name", message)
        resources = []
        for each in body.resources:
            flags = {flag: bool(state) for flag, state in flags_of(each).items()}
            resources.append(SimulatedResource(each.path, each.value or "", **flags))
        return self.backend.add(body.endpoint_name, body.endpoint_type, body.queue_mode, resources)

    def set_behavior(self, device_id: str, patch: SimulatorDevicePatch) -> None:
        """Change how a device behaves."""
        self.backend.set_behavior(device_id, patch.online, patch.answer, patch.latency_seconds)

    def put_resource(self, device_id: str, path: str, body: SimulatorResourceBody) -> None:
        """Have the device change a value or flag of its own."""
        self.backend.set_value(device_id, path, body.value, **flags_of(body))

    def advance(self, seconds: float) -> None:
        """Advance the manual clock, with all that becomes due on the way.

        Raises:
            ApiError: The clock is not manual, or would pass its end (400).
        """
        if not isinstance(self.clock, ManualClock):
            raise ApiError(400, "the clock runs by itself; start the server with --clock manual to advance it")
        milliseconds = round(seconds * 1000)
        # Stored first: after a crash half-way the clock must not stand before what happened already.
        until_at = self.clock.now() + milliseconds
        if until_at >= CLOCK_ENDS_AT:
            left_seconds = (CLOCK_ENDS_AT - 1 - self.clock.now()) // 1000
            raise ApiError.of_field(
                "advance_seconds", f"the clock stops before the year 9999, {left_seconds} s from now"
            )
        self._store(lambda session: session.put_setting(MANUAL_CLOCK, str(until_at)))
        self.clock.advance(milliseconds, settle=self._database.settle)
        self._advanced()

    @extends(specname="stop")
    def close(self) -> None:
        """Stop the thread."""
        self._thread.shutdown()

    def _act(self, act: Callable[[SimulatorControl], T]) -> T:
        # What a device does cannot be undone, so it is not begun where it could not be stored.
        self._store(Session.probe)
        try:
            result = act(self)
        except UnknownSimulatedDevice as error:
            raise ApiError(404, str(error), reason="DEVICE_NOT_FOUND") from None
        except SimulatorError as error:
            raise ApiError.of_field(error.field, error.message) from None
        if not self._database.settle(_STORE_SECONDS):
            message = f"what this caused was not stored within {_STORE_SECONDS} s, and is tried again"
            raise ApiError(503, f"{message}; look at the device before you repeat it", reason="STORAGE_FAILED")
        return result

    def _store(self, work: Callable[[Session], object]) -> None:
        """Store something before a device does anything.

        Raises:
            ApiError: Other changes held up the database for too long (503); nothing was done.
        """
        try:
            self._database.write(work, _STORE_SECONDS)
        except TimeoutError:
            message = f"other changes held up the database for {_STORE_SECONDS} s; nothing was done, so try again later"
            raise ApiError(503, message, retry_after_seconds=_STORE_SECONDS) from None
