"""Real devices during a kill of the service: nothing is lost or done twice."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

from bare_coap import POST, BareDevice, Devices, send_until
from ports import free_port
from process_server import Application, ServerProcess, decoded, wait_until
from resource_paths import REBOOT, SWITCH, TEMPERATURE

pytestmark = pytest.mark.process


class Field:
    """A server with a CoAP port, an application, and devices with a receiving thread."""

    def __init__(self, server: ServerProcess, port: int, devices: Devices) -> None:
        self.server, self.port, self.devices = server, port, devices
        self.application: Application = server.application()

    def device(self, name: str, **more: str) -> BareDevice:
        """Create a device that has not registered yet."""
        return self.devices.add(BareDevice(self.port, name, {TEMPERATURE: "20", SWITCH: "0", REBOOT: ""}, **more))

    def registered(self, name: str, **parameters: str) -> BareDevice:
        device = self.device(name)
        send_until(device, device.registration(**parameters), lambda: device.location)
        return device

    def subscribe(self, device: BareDevice) -> str:
        """Observe its temperature and return the device's id."""
        listed = self.application.json("GET", "/v3/devices")["data"]
        device_id: str = next(each["id"] for each in listed if each["endpoint_name"] == device.name)
        self.application.json("PUT", f"/v2/subscriptions/{device_id}{TEMPERATURE}")
        wait_until(lambda: TEMPERATURE in device.observed, f"an observation of {device.name}")
        return device_id

    def reported(self, device_id: str) -> list[str]:
        """Return the notified values of one device."""
        entries = list(self.application.entries())
        return [
            decoded(each["payload"]) for kind, each in entries if kind == "notifications" and each["ep"] == device_id
        ]


@pytest.fixture
def field(start_server: Callable[..., ServerProcess]) -> Iterator[Field]:
    port = free_port(socket.SOCK_DGRAM)
    with Devices() as devices:
        yield Field(start_server("--coap", f"127.0.0.1:{port}"), port, devices)


def test_a_kill_with_observations_and_commands_under_way_loses_nothing_and_executes_nothing_twice(field):
    """A write is sent again, because writing the same value twice does no harm."""
    application = field.application
    awake = [field.registered(f"awake-{number}") for number in range(3)]
    asleep = field.registered("asleep", b="UQ")
    ids = [field.subscribe(device) for device in awake]
    asleep_id = field.subscribe(asleep)
    for device in (*awake[:2], asleep):
        device.silent = True
    assert application.write(asleep_id, SWITCH, "1", "to-the-sleeper").status_code == 202
    assert application.write(ids[0], SWITCH, "1", "under-way").status_code == 202
    url = f"/v2/device-requests/{ids[1]}"
    application.json("POST", url, params={"async-id": "executed"}, json={"method": "POST", "uri": REBOOT})
    for device, path in ((awake[0], SWITCH), (awake[1], REBOOT)):
        wait_until(lambda device=device, path=path: any(each.path == path for each in device.requests), "the command")
    reported = [field.reported(device_id) for device_id in ids]

    field.server.kill()
    for device in awake:
        device.values[TEMPERATURE] = "33"
    for device in (*awake, asleep):
        device.observed.clear()
        device.silent = False
    field.server.start()

    for device, device_id, before in zip(awake, ids, reported, strict=True):
        wait_until(lambda device=device: TEMPERATURE in device.observed, "the next observation")
        wait_until(lambda device_id=device_id: "33" in field.reported(device_id), "what changed meanwhile")
        assert field.reported(device_id)[: len(before)] == before
        device.send(device.notification(TEMPERATURE, "34"))
        wait_until(lambda device_id=device_id: field.reported(device_id)[-1] == "34", "its notification")
    assert application.response("under-way")["status"] == 200
    executed = application.response("executed")
    assert (executed["status"], executed["error"]) == (504, "TIMEOUT")
    assert (
        len({request.number for request in awake[1].requests if request.code == POST and request.path == REBOOT}) == 1
    )
    send_until(asleep, asleep.update(), lambda: asleep.values[SWITCH] == "1")
    assert application.response("to-the-sleeper")["status"] == 200
    assert awake[0].values[SWITCH] == "1"
    assert "Traceback" not in field.server.stderr
