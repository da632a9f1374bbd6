"""Several devices that go on by themselves, on the caller's event loop or on a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from mirror_server.clock import Clock
from mirror_server.extensions.lwm2m.device.coap_socket import PreSharedKey
from mirror_server.extensions.lwm2m.device.device import LwM2MDevice, RegistrationRefused, Version
from mirror_server.extensions.lwm2m.device.kinds import ModelledDevice
from mirror_server.extensions.lwm2m.device.runner import DeviceRunner
from mirror_server.extensions.lwm2m.exchange import NoAnswer, Unreachable

_AT_ONCE = 20
"""How many devices register at the same time: more would only lose messages."""
_JOIN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """What the devices of a fleet have in common; see :class:`LwM2MDevice`. Without ``formats`` all of the version."""

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

    FAILURES = (RegistrationRefused, NoAnswer, Unreachable)

    def __init__(
        self,
        options: DeviceOptions,
        devices: Sequence[tuple[str, str]],
        clock: Clock,
        say: Callable[[str], None],
    ) -> None:
        self.devices: dict[str, LwM2MDevice] = {}
        self._runners: list[DeviceRunner] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._options = options
        self._clock = clock
        self._say = say
        for name, kind in devices:
            self._add(name, kind)

    def _add(self, name: str, kind: str) -> None:
        options = self._options

        def say(line: str) -> None:
            self._say(f"{name}: {line}")

        def executed(path: str, argument: bytes) -> None:
            say(f"executed {path} {argument.decode(errors='replace')}".rstrip())

        model = ModelledDevice(kind, name, options.seed, self._clock.now, executed)
        device = LwM2MDevice(
            options.server,
            name,
            model.resources,
            endpoint_type=model.endpoint_type,
            lifetime_seconds=options.lifetime_seconds,
            version=options.version,
            queue_mode=options.queue_mode,
            key=options.key,
            clock=self._clock,
        )
        if options.formats is not None:
            device.behaviour.formats = options.formats
        self.devices[name] = device
        self._runners.append(DeviceRunner(device, model, self._clock, say))

    async def start(self) -> None:
        """Register all, and let them go on.

        Raises:
            RegistrationRefused: The server does not take a device.
            NoAnswer: The server did not answer.
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
        RegistrationRefused: The server does not take a device.
        NoAnswer: The server did not answer.
        Unreachable: There is no way to the server.
    """

    def __init__(
        self,
        options: DeviceOptions,
        devices: Sequence[tuple[str, str]],
        clock: Clock,
        say: Callable[[str], None],
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
