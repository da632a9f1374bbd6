"""Devices that go on by themselves: they measure, update their registrations, sleep in queue mode, and try again.

They run on the caller's event loop, or on a thread with a loop of its own.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from mirror_server.clock import Clock
from mirror_server.core.instants import Instant, after_seconds
from mirror_server.extensions.lwm2m.device.coap_socket import PreSharedKey
from mirror_server.extensions.lwm2m.device.device import LwM2MDevice, RegistrationRejected
from mirror_server.extensions.lwm2m.device.kinds import ModelledDevice
from mirror_server.extensions.lwm2m.registration import Version
from mirror_server.extensions.lwm2m.transport_api import NoResponse, Unreachable

AWAKE_SECONDS = 93
"""How long a device in queue mode listens after its last message (MAX_TRANSMIT_WAIT). Source: LwM2M core 6.5."""
CONTACT_SECONDS = 15 * 60
"""How often a device in queue mode comes out of its sleep."""
PING_SECONDS = 30
"""How long a device hears nothing over DTLS before it asks whether the server is there.

A server that was restarted does not know the session and cannot send requests. Without DTLS it knows the device by its
address.
"""
_FAREWELL_SECONDS = 5
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 5, 300
_AT_ONCE = 20
"""How many devices register at the same time: more would only lose messages."""
_JOIN_SECONDS = 30.0


class DeviceRunner:
    """One device that goes on until its task is cancelled.

    Args:
        device: The device.
        model: What it measures.
        clock: What measurements, updates and sleep follow.
        say: Takes what happens, as a line for people.
    """

    def __init__(self, device: LwM2MDevice, model: ModelledDevice, clock: Clock, say: Callable[[str], None]) -> None:
        self._device = device
        self._model = model
        self._clock = clock
        self._say = say
        self._renewed_at: Instant = 0
        self._contact_at: Instant = 0
        self._retry_at: Instant | None = None
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._due = asyncio.Event()
        device.session_lost = self._note_lost_session

    async def start(self) -> None:
        """Register.

        Raises:
            RegistrationRejected: The server does not take the device.
            NoResponse: The server did not answer.
            Unreachable: There is no way to the server.
            ImportError: What DTLS needs is not installed.
        """
        self._model.measure(self._device)
        await self._device.register()
        self._note_contact()
        self._say(f"registered as /rd/{self._device.registration_id} from port {self._device.port}")

    async def run(self) -> None:
        """Go on; does not end by itself."""
        while True:
            await self._until(self._next_due_at())
            await self._go_on()

    async def stop(self) -> None:
        """Deregister if the server hears it, and close."""
        try:
            async with asyncio.timeout(_FAREWELL_SECONDS):
                if self._device.is_registered:
                    if self._device.is_asleep:
                        await self._device.wake()
                    await self._device.deregister()
                    self._say("deregistered")
        except (TimeoutError, NoResponse, Unreachable, RegistrationRejected) as error:
            self._say(f"not deregistered: {str(error) or 'the server did not answer'}")
        finally:
            await self._device.close()

    async def _until(self, due_at: Instant) -> None:
        """Wait until something is due, or the session is lost."""
        loop = asyncio.get_running_loop()
        self._due.clear()

        def call() -> None:
            loop.call_soon_threadsafe(self._due.set)

        timer = self._clock.call_at(due_at, call)
        try:
            await self._due.wait()
        finally:
            timer.cancel()

    async def _go_on(self) -> None:
        now = self._clock.now()
        self._model.measure(self._device)
        ping_at = self._ping_at()
        if ping_at is not None and now >= ping_at:
            await self._device.ping()
        if now >= self._renewal_at():
            await self._renew()
        elif (asleep_at := self._asleep_at()) is not None and now >= asleep_at:
            self._say("sleeps")
            self._contact_at = self._model.next_contact_at(CONTACT_SECONDS)
            self._device.sleep()

    def _renewal_at(self) -> Instant:
        if self._retry_at is not None:
            return self._retry_at
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
        dues = [self._renewal_at(), self._ping_at(), self._model.next_measurement_at(), self._asleep_at()]
        return min(due_at for due_at in dues if due_at is not None)

    def _note_lost_session(self, reason: str) -> None:
        self._say(f"{reason}; connects anew")
        self._due.set()

    def _note_contact(self) -> None:
        self._renewed_at, self._retry_at, self._pause_seconds = self._clock.now(), None, _FIRST_PAUSE_SECONDS

    async def _renew(self) -> None:
        try:
            await self._make_contact()
        except (NoResponse, Unreachable, RegistrationRejected) as error:
            self._retry_at = after_seconds(self._clock.now(), self._pause_seconds)
            self._say(f"{error}; tries again in {self._pause_seconds} s")
            self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
        else:
            self._note_contact()

    async def _make_contact(self) -> None:
        """Come out of the sleep if it sleeps, and be registered."""
        try:
            if self._device.is_asleep:
                self._say("wakes")
                await self._device.wake()
            elif self._device.is_registered:
                await self._device.update()
        except RegistrationRejected as refused:
            if refused.code != "4.04":
                raise
        if not self._device.is_registered:
            await self._device.register()
            self._say(f"registered anew as /rd/{self._device.registration_id}")


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """The common options of a fleet; see :class:`LwM2MDevice`. Without ``formats`` it speaks all of the version."""

    server: str
    version: Version = "1.0"
    lifetime_seconds: int = 86400
    queue_mode: bool = False
    key: PreSharedKey | None = None
    formats: frozenset[int] | None = None
    seed: int = 0


class DeviceFleet:
    """Devices of the simulator's kinds, to be used on one event loop.

    Args:
        options: What they have in common.
        devices: Name and kind of each.
        clock: What they follow.
        say: Takes what happens, as lines for people.

    Attributes:
        devices: The devices by their names.
    """

    FAILURES = (RegistrationRejected, NoResponse, Unreachable)

    def __init__(
        self, options: DeviceOptions, devices: Sequence[tuple[str, str]], clock: Clock, say: Callable[[str], None]
    ) -> None:
        self.devices: dict[str, LwM2MDevice] = {}
        self._runners: list[DeviceRunner] = []
        self._tasks: list[asyncio.Task[None]] = []
        for name, kind in devices:
            self._add(options, name, kind, clock, say)

    def _add(self, options: DeviceOptions, name: str, kind: str, clock: Clock, show: Callable[[str], None]) -> None:
        def say(line: str) -> None:
            show(f"{name}: {line}")

        def executed(path: str, argument: bytes) -> None:
            say(f"executed {path} {argument.decode(errors='replace')}".rstrip())

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
        self._runners.append(DeviceRunner(device, model, clock, say))

    async def start(self) -> None:
        """Register all, and let them go on.

        Raises:
            RegistrationRejected: The server does not take a device.
            NoResponse: The server did not answer.
            Unreachable: There is no way to the server.
            ImportError: What DTLS needs is not installed.
        """
        gate = asyncio.Semaphore(_AT_ONCE)

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
        """Deregister all, and close their sockets."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(runner.stop() for runner in self._runners))


class BackgroundFleet:
    """A fleet on a thread of its own, for programs without an event loop.

    It registers when it is made; in a ``with`` statement it deregisters at the end::

        options = DeviceOptions("coap://127.0.0.1:5683")
        with BackgroundFleet(options, [("my-sensor", "thermometer")], clock, print) as one:
            one.call(one.fleet.devices["my-sensor"].sleep)
            one.call(one.fleet.devices["my-sensor"].wake)

    Args:
        options: What the devices have in common.
        devices: Name and kind of each.
        clock: What they follow.
        say: Takes what happens, as lines for people; on the thread of the fleet.

    Raises:
        RegistrationRejected: The server does not take a device.
        NoResponse: The server did not answer.
        Unreachable: There is no way to the server.
    """

    def __init__(
        self, options: DeviceOptions, devices: Sequence[tuple[str, str]], clock: Clock, say: Callable[[str], None]
    ) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lwm2m devices", daemon=True)
        self._thread.start()
        self.fleet = DeviceFleet(options, devices, clock, say)
        try:
            asyncio.run_coroutine_threadsafe(self.fleet.start(), self._loop).result()
        except BaseException:
            self.close()
            raise

    def call(self, action: Callable[[], object]) -> None:
        """Do something with the devices on their thread, and wait for its end; also a coroutine function."""

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
