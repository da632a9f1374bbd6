"""Devices that run on their own. They measure, update their registrations, sleep in queue mode, and reconnect.

They run on the event loop of the caller or on a separate thread.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from mirror_server.clock import Clock
from mirror_server.core.timestamps import Instant, after_seconds
from mirror_server.extensions.lwm2m.device.coap_socket import PreSharedKey
from mirror_server.extensions.lwm2m.device.device import LwM2MDevice, RegistrationRejected
from mirror_server.extensions.lwm2m.device.kinds import ModelledDevice
from mirror_server.extensions.lwm2m.registration_parameters import Version
from mirror_server.extensions.lwm2m.transport_api import NoResponse, Unreachable

AWAKE_SECONDS = 93
"""The time for which a device in queue mode listens after its last message. Source: LwM2M core 6.5."""
CONTACT_SECONDS = 15 * 60
"""The interval at which a device in queue mode wakes up."""
PING_SECONDS = 30
"""The time without a message over DTLS after which a device pings the server.

A restarted server does not know the session, so it cannot send requests before the device reconnects. Without DTLS, the
server knows the address of the device.
"""
_DEREGISTER_SECONDS = 5
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5, 300
_CONCURRENT_REGISTRATIONS = 20
"""The maximum number of devices that register concurrently. With more devices, messages would be lost."""
_JOIN_SECONDS = 30.0


class DeviceRunner:
    """Runs one device until its task is cancelled.

    Args:
        device: The device to run.
        model: The model of the device's values.
        clock: The clock for measurements, updates and sleep.
        log: A function that is called with a line of text for each event.
    """

    def __init__(self, device: LwM2MDevice, model: ModelledDevice, clock: Clock, log: Callable[[str], None]) -> None:
        self._device = device
        self._model = model
        self._clock = clock
        self._log = log
        self._renewed_at: Instant = 0
        self._contact_at: Instant = 0
        self._retry_at: Instant | None = None
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._wake_up = asyncio.Event()
        device.session_lost = self._note_lost_session

    async def start(self) -> None:
        """Register the device.

        Raises:
            RegistrationRejected: The server rejected the registration.
            NoResponse: The server did not respond.
            Unreachable: Nothing can be sent to the server.
            ImportError: DTLSSocket is not installed.
        """
        self._model.measure(self._device)
        await self._device.register()
        self._note_contact()
        self._log(f"registered as /rd/{self._device.registration_id} from port {self._device.port}")

    async def run(self) -> None:
        """Measure, update and sleep in a loop. This never returns."""
        while True:
            await self._wait_until(self._next_due_at())
            await self._perform_due()

    async def stop(self) -> None:
        """Deregister the device if the server responds, and close the device."""
        try:
            async with asyncio.timeout(_DEREGISTER_SECONDS):
                if self._device.is_registered:
                    if self._device.is_asleep:
                        await self._device.wake()
                    await self._device.deregister()
                    self._log("deregistered")
        except (TimeoutError, NoResponse, Unreachable, RegistrationRejected) as error:
            self._log(f"not deregistered: {str(error) or 'the server did not respond'}")
        finally:
            await self._device.close()

    async def _wait_until(self, due_at: Instant) -> None:
        """Wait until this time, or until the DTLS session is lost."""
        loop = asyncio.get_running_loop()
        self._wake_up.clear()

        def call() -> None:
            # The clock may call this function on another thread.
            loop.call_soon_threadsafe(self._wake_up.set)

        timer = self._clock.call_at(due_at, call)
        try:
            await self._wake_up.wait()
        finally:
            timer.cancel()

    async def _perform_due(self) -> None:
        now = self._clock.now()
        self._model.measure(self._device)
        ping_at = self._ping_at()
        if ping_at is not None and now >= ping_at:
            await self._device.ping()
        if now >= self._renewal_at():
            await self._renew()
        elif (asleep_at := self._asleep_at()) is not None and now >= asleep_at:
            self._log("sleeps")
            self._contact_at = self._model.next_contact_at(CONTACT_SECONDS)
            self._device.sleep()

    def _renewal_at(self) -> Instant:
        if self._retry_at is not None:
            return self._retry_at
        # This time has already passed, so a device that has lost its session renews its registration immediately.
        if not self._device.is_connected:
            return self._renewed_at
        renewal_at = after_seconds(self._renewed_at, self._device.lifetime_seconds / 2)
        return min(renewal_at, self._contact_at) if self._device.is_asleep else renewal_at

    def _asleep_at(self) -> Instant | None:
        if not self._device.queue_mode or self._device.is_asleep:
            return None
        return after_seconds(max(self._renewed_at, self._device.last_seen_at), AWAKE_SECONDS)

    def _ping_at(self) -> Instant | None:
        device = self._device
        if not device.server.is_secure or device.queue_mode or not device.is_connected or self._retry_at is not None:
            return None
        return after_seconds(max(self._renewed_at, device.last_seen_at), PING_SECONDS)

    def _next_due_at(self) -> Instant:
        times = [self._renewal_at(), self._ping_at(), self._model.next_measurement_at(), self._asleep_at()]
        return min(due_at for due_at in times if due_at is not None)

    def _note_lost_session(self, reason: str) -> None:
        self._log(f"{reason}; reconnecting")
        self._wake_up.set()

    def _note_contact(self) -> None:
        self._renewed_at, self._retry_at, self._pause_seconds = self._clock.now(), None, _FIRST_PAUSE_SECONDS

    async def _renew(self) -> None:
        try:
            await self._make_contact()
        except (NoResponse, Unreachable, RegistrationRejected) as error:
            self._retry_at = after_seconds(self._clock.now(), self._pause_seconds)
            self._log(f"{error}; retrying in {self._pause_seconds} s")
            self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
        else:
            self._note_contact()

    async def _make_contact(self) -> None:
        """Wake up if the device is asleep. Update the registration, or register again."""
        try:
            if self._device.is_asleep:
                self._log("wakes")
                await self._device.wake()
            elif self._device.is_registered:
                await self._device.update()
        except RegistrationRejected as error:
            # The server no longer has the registration. The device has cleared it, and registers again below.
            if error.code != "4.04":
                raise
        if not self._device.is_registered:
            await self._device.register()
            self._log(f"registered again as /rd/{self._device.registration_id}")


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """The options that all devices of a fleet have in common. See :class:`LwM2MDevice`.

    ``formats`` are the supported content formats. By default, all formats of the version are supported.
    """

    server: str
    version: Version = "1.0"
    lifetime_seconds: int = 86400
    queue_mode: bool = False
    key: PreSharedKey | None = None
    formats: frozenset[int] | None = None
    seed: int = 0


class DeviceFleet:
    """Devices of the simulator's kinds that run on one event loop.

    Args:
        options: The options that all devices have in common.
        devices: The name and the kind of each device.
        clock: The clock of all devices.
        log: A function that is called with a line of text for each event.

    Attributes:
        devices: The devices by name.
    """

    FAILURES = (RegistrationRejected, NoResponse, Unreachable)

    def __init__(
        self, options: DeviceOptions, devices: Sequence[tuple[str, str]], clock: Clock, log: Callable[[str], None]
    ) -> None:
        self.devices: dict[str, LwM2MDevice] = {}
        self._runners: list[DeviceRunner] = []
        self._tasks: list[asyncio.Task[None]] = []
        for name, kind in devices:
            self._add(options, name, kind, clock, log)

    def _add(self, options: DeviceOptions, name: str, kind: str, clock: Clock, log_line: Callable[[str], None]) -> None:
        def log(line: str) -> None:
            log_line(f"{name}: {line}")

        def executed(path: str, argument: bytes) -> None:
            log(f"executed {path} {argument.decode(errors='replace')}".rstrip())

        model = ModelledDevice(kind, name, options.seed, clock.now, executed)
        device = LwM2MDevice(
            options.server,
            name,
            model.resources,
            endpoint_type=model.endpoint_type,
            lifetime_seconds=options.lifetime_seconds,
            version=options.version,
            queue_mode=options.queue_mode,
            key=options.key,
            clock=clock,
        )
        if options.formats is not None:
            device.behavior.formats = options.formats
        self.devices[name] = device
        self._runners.append(DeviceRunner(device, model, clock, log))

    async def start(self) -> None:
        """Register all devices and start to run them.

        Raises:
            RegistrationRejected: The server rejected a registration.
            NoResponse: The server did not respond.
            Unreachable: Nothing can be sent to the server.
            ImportError: DTLSSocket is not installed.
        """
        gate = asyncio.Semaphore(_CONCURRENT_REGISTRATIONS)

        async def start(runner: DeviceRunner) -> None:
            async with gate:
                await runner.start()

        starts = [asyncio.create_task(start(runner)) for runner in self._runners]
        try:
            await asyncio.gather(*starts)
        except BaseException:
            for each in starts:
                each.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
            raise
        self._tasks = [asyncio.create_task(runner.run()) for runner in self._runners]

    async def stop(self) -> None:
        """Deregister all devices and close their sockets."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(runner.stop() for runner in self._runners))


class BackgroundFleet:
    """A fleet on a separate thread, for programs that have no event loop.

    The devices register when the fleet is created. They deregister at the end of a ``with`` block::

        options = DeviceOptions("coap://127.0.0.1:5683")
        with BackgroundFleet(options, [("my-sensor", "thermometer")], clock, print) as background:
            background.call(background.fleet.devices["my-sensor"].sleep)
            background.call(background.fleet.devices["my-sensor"].wake)

    Args:
        options: The options that all devices have in common.
        devices: The name and the kind of each device.
        clock: The clock of all devices.
        log: A function that is called on the thread of the fleet with a line of text for each event.

    Raises:
        RegistrationRejected: The server rejected a registration.
        NoResponse: The server did not respond.
        Unreachable: Nothing can be sent to the server.
    """

    def __init__(
        self, options: DeviceOptions, devices: Sequence[tuple[str, str]], clock: Clock, log: Callable[[str], None]
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lwm2m devices", daemon=True)
        self._thread.start()
        self.fleet = DeviceFleet(options, devices, clock, log)
        try:
            asyncio.run_coroutine_threadsafe(self.fleet.start(), self._loop).result()
        except BaseException:
            self.close()
            raise

    def call(self, action: Callable[[], object]) -> None:
        """Call a function or coroutine function on the thread of the fleet, and wait until it has ended."""

        async def act() -> None:
            done = action()
            if inspect.isawaitable(done):
                await done

        asyncio.run_coroutine_threadsafe(act(), self._loop).result()

    def close(self) -> None:
        """Deregister the devices, and end the thread."""
        if not self._thread.is_alive():
            return
        asyncio.run_coroutine_threadsafe(self.fleet.stop(), self._loop).result(_JOIN_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_JOIN_SECONDS)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
