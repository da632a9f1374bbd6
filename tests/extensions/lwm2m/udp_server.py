"""A plain UDP socket as a server, and devices that are registered with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mirror_server.clock import ManualClock
from mirror_server.extensions.lwm2m.coap.limits import Tuning
from mirror_server.extensions.lwm2m.device.device import LwM2MDevice
from mirror_server.extensions.lwm2m.device.resources import DeviceResource

LIMIT_SECONDS = 60
ACK_CREATED = bytes.fromhex("64 41")
"""An acknowledgement, version 1, with a token of 4 bytes, 2.01."""


class UdpServer(asyncio.DatagramProtocol):
    """A server that only queues datagrams."""

    def __init__(self) -> None:
        self.arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self.peer: Any = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.peer = addr
        self.arrived.put_nowait(data)

    @property
    def port(self) -> int:
        return self.transport.get_extra_info("sockname")[1]

    @property
    def url(self) -> str:
        return f"coap://127.0.0.1:{self.port}"

    async def next(self) -> bytes:
        async with asyncio.timeout(LIMIT_SECONDS):
            return await self.arrived.get()

    def send(self, text: str | bytes) -> None:
        self.transport.sendto(bytes.fromhex(text) if isinstance(text, str) else text, self.peer)

    async def exchange(self, text: str) -> str:
        """Send a datagram, and return the next one received. Both are in hexadecimal digits."""
        self.send(text)
        return (await self.next()).hex(" ")


@asynccontextmanager
async def udp_server(host: str = "127.0.0.1") -> AsyncIterator[UdpServer]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(UdpServer, local_addr=(host, 0))
    try:
        yield server
    finally:
        transport.close()
        await asyncio.sleep(0)


def thermometer() -> list[DeviceResource]:
    return [
        DeviceResource("/3/0/4", on_execute=lambda argument: None),
        DeviceResource("/3303/0/5700", 21.5),
        DeviceResource("/3311/0/5850", False, writable=True),
        DeviceResource("/3311/0/5851", 40, writable=True, accepts=lambda value: value != 13),
    ]


def set_tuning(device: LwM2MDevice, tuning: Tuning | None) -> None:
    """Set the tuning of a registered device. If set before, a slow machine would cause retransmissions."""
    if tuning is not None:
        device._tuning = device._open_socket()._tuning = tuning


Registering = tuple[LwM2MDevice, asyncio.Task[None], bytes]


@asynccontextmanager
async def registering(server: UdpServer, host: str = "127.0.0.1", **options: Any) -> AsyncIterator[Registering]:
    """Yield a device, the task of its registration, and the request, which has no response yet."""
    options = {"clock": ManualClock(1_000_000), "resources": thermometer()} | options
    device = LwM2MDevice(f"coap://{host}:{server.port}", "probe", options.pop("resources"), **options)
    try:
        task = asyncio.create_task(device.register())
        yield device, task, await server.next()
    finally:
        await device.close()


@asynccontextmanager
async def registered(
    server: UdpServer, location: str = "82 7264 02 6131", tuning: Tuning | None = None, **options: Any
) -> AsyncIterator[LwM2MDevice]:
    """Yield a device that is registered, by default as ``/rd/a1``. The tuning is set afterwards."""
    async with registering(server, **options) as (device, task, request):
        # Location-Path is option 8.
        server.send(ACK_CREATED + request[2:8] + bytes.fromhex(location))
        await task
        set_tuning(device, tuning)
        yield device
