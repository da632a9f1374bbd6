"""Servers on one PostgreSQL database: the leader listens for CoAP, and the next leader takes over the port."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

from bare_coap import POST, BareDevice, Devices, send_until
from devices_on_loopback import DeviceSide, until
from resource_paths import TEMPERATURE

from mirror_server.config import ListenAddress
from mirror_server.core.commands import CommandRequest
from mirror_server.extensions.lwm2m.backend import LwM2MBackend
from mirror_server.server import Services
from mirror_server.service.commands import CommandSubmission
from mirror_server.store import commands, devices, resources
from mirror_server.store.devices import Condition


@pytest.fixture
def pair(open_services: Callable[..., Services], device_side: DeviceSide) -> list[Services]:
    """Two servers. The first one is the leader and listens on the port."""
    opened = [open_services(coap=ListenAddress("127.0.0.1", device_side.port)) for _ in range(2)]
    until(lambda: opened[0].part(LwM2MBackend).endpoint)
    return opened


def device_id(services: Services) -> str:
    with services.database.read() as session:
        (row,) = devices.page(
            session, [Condition("endpoint_name", "IN", ("sensor-1",))], after=None, descending=False, limit=1
        )
    return row.device_id


def read(services: Services, device: str, async_id: str) -> Callable[[], bytes | None]:
    """Submit a read. Return a function that returns the value once the read is done."""
    submission = CommandSubmission("app", device, CommandRequest("GET", TEMPERATURE), async_id)
    services.commands.submit(submission).result(60)

    def value() -> bytes | None:
        with services.database.read() as session:
            waits = async_id in (command.async_id for command in commands.waiting(session, device))
            return None if waits else resources.stored_value(session, device, TEMPERATURE).value

    return value


def test_next_leader_listens_on_the_port_and_reaches_devices(pair, device_side):
    first, second = pair
    assert second.part(LwM2MBackend).endpoint is None
    device = device_side.device()
    device_side.run(device.register())
    sensor_id, location = device_id(first), device.registration_id
    # Submitted to the follower.
    assert float(until(read(second, sensor_id, "first"))) == 21.5
    first.close()
    until(lambda: second.part(LwM2MBackend).endpoint)
    device_side.call(device.set_value, TEMPERATURE, 22.5)
    assert float(until(read(second, sensor_id, "second"))) == 22.5
    device_side.run(device.update())
    assert device.registration_id == location


def test_execute_in_flight_at_leader_change_is_not_sent_again(pair, device_side):
    first, second = pair
    with Devices() as devices:
        device = devices.add(BareDevice(device_side.port, "sensor-1", {TEMPERATURE: "21.5", "/3/0/4": ""}))
        send_until(device, device.registration(), lambda: device.location)
        sensor_id = device_id(first)
        device.silent = True
        second.commands.submit(CommandSubmission("app", sensor_id, CommandRequest("POST", "/3/0/4"), "x")).result(60)
        until(lambda: device.requests)
        first.close()
        device.silent = False
        until(lambda: second.part(LwM2MBackend).endpoint)
        device.send(device.update())
        assert until(read(second, sensor_id, "next")) == b"21.5"
        assert len({request.number for request in device.requests if request.code == POST}) == 1
