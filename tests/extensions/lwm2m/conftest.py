"""A server with a CoAP port inside the test, and a CoAP endpoint with a device made of a plain socket."""

from __future__ import annotations

import itertools
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from devices_on_loopback import DeviceSide, find_device, until
from ports import free_port

from mirror_server.config import ListenAddress


@pytest.fixture
def device_side() -> Iterator[DeviceSide]:
    side = DeviceSide(free_port(socket.SOCK_DGRAM))
    yield side
    side.close()


@pytest.fixture
def real(new_server: Any, device_side: DeviceSide) -> Any:
    """A server that listens for real devices, with a manual clock."""
    return new_server(coap=ListenAddress("127.0.0.1", device_side.port))


@pytest.fixture
def key(real: Any) -> str:
    """The key of a new application."""
    return real.key()


@pytest.fixture
def register(real: Any, key: str, device_side: DeviceSide) -> Callable[..., tuple[Any, str]]:
    """Register a device, and return it with its id. By default it is a thermometer with a switch."""

    def register(name: str = "sensor-1", *resources: Any, **options: Any) -> tuple[Any, str]:
        device = device_side.device(name, *resources, **options)
        device_side.run(device.register())
        return device, find_device(real, key, name)["id"]

    return register


@pytest.fixture
def command(real: Any, key: str) -> Callable[..., tuple[int, str | None]]:
    """Submit a device request, wait for its async response, and return status and category."""
    async_ids = (f"asked-{number}" for number in itertools.count(1))

    def command(device_id: str, method: str, path: str, **body: Any) -> tuple[int, str | None]:
        async_id = next(async_ids)
        real.submit(key, device_id, async_id, method, path, **body)
        return until(lambda: real.responses(key).get(async_id))

    return command


@pytest.fixture
def handler() -> Any:
    """The handler of the endpoint, which records its calls."""
    from coap_device import RecordingHandler  # noqa: PLC0415 - needs an extra

    return RecordingHandler()


@pytest.fixture
def options() -> dict[str, Any]:
    """Limits, tuning and host of the endpoint."""
    return {}


@pytest.fixture
async def endpoint(handler: Any, options: dict[str, Any]) -> AsyncIterator[Any]:
    """An endpoint on a free port."""
    from coap_device import listening  # noqa: PLC0415 - needs an extra

    async with listening(handler, **options) as endpoint:
        yield endpoint


@pytest.fixture
async def device(endpoint: Any) -> AsyncIterator[Any]:
    """A plain socket that knows the address of the endpoint."""
    from coap_device import Device  # noqa: PLC0415 - needs an extra

    device = Device(endpoint.coap_address)
    yield device
    device.close()


@pytest.fixture
async def server() -> AsyncIterator[Any]:
    """A plain UDP socket as the server of devices."""
    from udp_server import udp_server  # noqa: PLC0415 - needs an extra

    async with udp_server() as server:
        yield server
