"""The control of the simulated devices and of the manual clock. Source: wire.md 8."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TypeVar

from mirror_sdk.wire.simulator import SimulatorDevicePatch, SimulatorNewDevice, SimulatorResourceBody
from mirror_server.clock import Clock, ManualClock
from mirror_server.core.errors import ApiError
from mirror_server.core.timestamps import from_datetime
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
"""The end of a manual clock, which stops before this time.

Timestamps cannot be after the year 9999. The last year is left for retention periods, which end after the current time.
"""


class SimulatorControl:
    """Controls the simulated devices and the manual clock. Operations run one after another on one thread.

    Args:
        backend: The simulated devices.
        count: The minimum number of devices.
        clock: The clock of the server.
        database: The database. An operation waits until its changes are stored in the database.
        advanced: A function that is called after the clock was advanced.
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
        """Start the simulated devices."""
        self.backend.start(self._count)

    @extends
    def disconnect_devices(self) -> None:
        """Stop the simulated devices."""
        self.backend.stop()

    def run(self, act: Callable[[SimulatorControl], T]) -> Future[T]:
        """Run an operation on the devices. The future completes when all effects of the operation are on disk.

        The future raises :class:`~mirror_server.store.backend.StorageFailed` if nothing can be stored. It raises an
        ApiError (503) if other changes delay the database for too long.
        """
        return self._thread.submit(self._act, act)

    def add_device(self, body: SimulatorNewDevice) -> str:
        """Add a device and return its id.

        Raises:
            SimulatorError: A real device has the same name. See also :meth:`SimulatorBackend.add`.
        """
        with self._database.read() as session:
            known = devices.find_by_endpoint_name(session, body.endpoint_name)
            if known is not None and known.backend != BACKEND:
                message = f"a real device is named {body.endpoint_name!r}; use another name"
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
        """Change the value or the flags of a resource."""
        self.backend.set_value(device_id, path, body.value, **flags_of(body))

    def advance(self, seconds: float) -> None:
        """Advance the manual clock and perform all actions that become due.

        Raises:
            ApiError: The clock is not a manual clock, or it would pass its end (400).
        """
        if not isinstance(self.clock, ManualClock):
            raise ApiError(400, "the clock advances by itself; to control it, start the server with --clock manual")
        milliseconds = round(seconds * 1000)
        # The new time is stored first, so that after a crash the clock is not earlier than the stored events.
        until_at = self.clock.now() + milliseconds
        if until_at >= CLOCK_ENDS_AT:
            left_seconds = (CLOCK_ENDS_AT - 1 - self.clock.now()) // 1000
            message = (
                f"advance_seconds={seconds:g} would pass the year 9999, where the manual clock ends; pass at most"
                f" {left_seconds}"
            )
            raise ApiError.of_field("advance_seconds", message)
        self._store(lambda session: session.put_setting(MANUAL_CLOCK, str(until_at)))
        self.clock.advance(milliseconds, settle=self._database.settle)
        self._advanced()

    @extends(specname="stop")
    def close(self) -> None:
        """Stop the thread of the operations."""
        self._thread.shutdown()

    def _act(self, act: Callable[[SimulatorControl], T]) -> T:
        # Actions of devices cannot be rolled back, so an operation is not started if the database cannot store its
        # changes.
        self._store(Session.probe)
        try:
            result = act(self)
        except UnknownSimulatedDevice as error:
            raise ApiError(404, str(error), reason="DEVICE_NOT_FOUND") from None
        except SimulatorError as error:
            raise ApiError.of_field(error.field, error.message) from None
        if not self._database.settle(_STORE_SECONDS):
            message = f"the changes were not stored within {_STORE_SECONDS} s; the server retries"
            raise ApiError(503, f"{message}; check the device before you repeat the request", reason="STORAGE_FAILED")
        return result

    def _store(self, work: Callable[[Session], object]) -> None:
        """Store a change before a device does anything.

        Raises:
            ApiError: Other changes delayed the database for too long, so nothing was done (503).
        """
        try:
            self._database.write(work, _STORE_SECONDS)
        except TimeoutError:
            message = f"other changes delayed the database for {_STORE_SECONDS} s; nothing was done, so try again later"
            raise ApiError(503, message, retry_after_seconds=_STORE_SECONDS) from None
