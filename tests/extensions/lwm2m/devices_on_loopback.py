"""Our own devices on a separate event loop."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from typing import Any, TypeVar

from bare_coap import BareDevice, send_until

from mirror_server.views.serialize import timestamp

T = TypeVar("T")

LIMIT_SECONDS = 60


def until(condition: Callable[[], T]) -> T:
    """Wait until a condition is true, and return its value."""
    ends_at = time.monotonic() + LIMIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < ends_at, "the condition did not become true"
        time.sleep(0.005)
    return found


def find_device(server: Any, key: str, name: str = "sensor-1") -> Any:
    """Return a device of the directory by its name."""
    devices = server.call(key, "GET", "/v3/devices").json["data"]
    return next(device for device in devices if device["endpoint_name"] == name)


def connection(server: Any, key: str, name: str = "sensor-1") -> Any:
    """Return the connection and the registration times of a device."""
    backends, device_id = server.services.backends, find_device(server, key, name)["id"]
    device, found = server.services.devices.device(device_id), backends.describe(device_id)
    return {
        **({} if found is None else asdict(found)),
        "reachable": bool(device.registered) and backends.is_reachable(device_id),
        "lifetime_seconds": device.lifetime_seconds,
        "registration_expires_at": timestamp(device.registration_expires_at),
        "last_contact_at": timestamp(device.last_contact_at),
    }


def reported(server: Any, key: str, device_id: str, path: str = "/3303/0/5700") -> str | None:
    """Return the reported value of a resource as text."""
    value = server.resource(key, device_id, path)["reported"].get("value")
    return None if value is None else base64.b64decode(value).decode()


def wait_for_values(server: Any, key: str, device_id: str, *values: str) -> None:
    """Wait until the application has received exactly these values of a device."""
    until(lambda: server.observed(key) == [(device_id, value) for value in values])


def registered(server: Any, key: str, device: BareDevice, **parameters: str) -> str:
    """Send a full registration of a device of raw datagrams, and return the id of the device."""
    before = device.created
    send_until(device, device.registration(**parameters), lambda: device.created > before)
    found: str = find_device(server, key, device.name)["id"]
    return found


class DeviceSide:
    """An event loop on a separate thread, with devices."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="devices", daemon=True)
        self._thread.start()
        self.devices: list[Any] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(LIMIT_SECONDS)

    def call(self, act: Callable[..., T], *arguments: Any) -> T:
        async def called() -> T:
            return act(*arguments)

        return self.run(called())

    def device(self, name: str = "sensor-1", *resources: Any, **options: Any) -> Any:
        """Return a device that is not registered yet. By default it is a thermometer with a switch."""
        # They need an extra.
        from udp_server import thermometer  # noqa: PLC0415

        from mirror_server.extensions.lwm2m.device.device import LwM2MDevice  # noqa: PLC0415

        scheme = "coaps" if "key" in options else "coap"

        async def made() -> Any:
            return LwM2MDevice(f"{scheme}://127.0.0.1:{self.port}", name, resources or thermometer(), **options)

        device = self.run(made())
        self.devices.append(device)
        return device

    def close(self) -> None:
        for device in self.devices:
            self.run(device.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_SECONDS)
        self._loop.close()
