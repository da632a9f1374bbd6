"""A killed service does not execute anything twice."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

from bare_coap import POST, BareDevice, Devices, send_until
from ports import free_port
from process_server import ServerProcess, wait_until

pytestmark = pytest.mark.process

REBOOT, SWITCH = "/3/0/4", "/3311/0/5850"


@pytest.mark.parametrize("binding", ["U", "UQ"])
def test_execute_outstanding_at_a_kill_is_not_sent_again(
    start_server: Callable[..., ServerProcess], binding: str
) -> None:
    """A write is, because to write the same value twice does no harm."""
    port = free_port(socket.SOCK_DGRAM)
    server = start_server("--coap", f"127.0.0.1:{port}")
    application = server.application()
    with Devices() as devices:
        device = devices.add(BareDevice(port, "boiler", {REBOOT: "", SWITCH: "0"}))
        send_until(device, device.registration(b=binding), lambda: device.location)
        device_id = str(application.json("GET", "/v3/devices")["data"][0]["id"])
        device.silent = True
        url = f"/v2/device-requests/{device_id}"
        application.json("POST", url, params={"async-id": "x"}, json={"method": "POST", "uri": REBOOT})
        application.write(device_id, SWITCH, "1", "w")
        wait_until(lambda: device.asked, "the execute on its way")

        server.kill()
        device.silent = False
        server.start()

        response = application.response("x")
        assert (response["status"], response["error"]) == (504, "TIMEOUT")
        device.send(device.update())
        assert application.response("w")["status"] == 200
        executes = {asked.number for asked in device.asked if asked.code == POST and asked.path == REBOOT}
        assert len(executes) == 1
        assert device.values[SWITCH] == "1"
