"""A third-party LwM2M client: it registers, gets requests and notifies, also after a kill of the server."""

from __future__ import annotations

import select
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

from ports import free_port
from process_server import Application, decoded, wait_until
from resource_paths import SWITCH

pytestmark = pytest.mark.process

SOURCES = Path(__file__).parent / "third_party_device"
TEMPERATURE, UNITS, RESET = "/3303/0/5700", "/3303/0/5701", "/3303/0/5605"


class ThirdPartyDevice:
    """A device of coap-node in a separate process."""

    def __init__(self, folder: Path, name: str, port: int) -> None:
        self._process = subprocess.Popen(
            ["node", "device.js", name, str(port)],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def read_line(self, seconds: float = 20) -> str:
        """Return the next line of its output."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        assert ready, f"no line within {seconds} s"
        return self._process.stdout.readline().rstrip("\n")

    def run(self, command: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        return self.read_line()

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the client, installed from its lock file."""
    folder = tmp_path_factory.mktemp("foreign") / "device"
    shutil.copytree(SOURCES, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    return folder


def paths(application: Application, device_id: str) -> set[str]:
    return {each["resource_path"] for each in application.json("GET", f"/v3/devices/{device_id}/echo")["resources"]}


def request(application: Application, device_id: str, async_id: str, **body: str) -> dict[str, object]:
    """Submit a device request, and return its async response."""
    application.json("POST", f"/v2/device-requests/{device_id}", params={"async-id": async_id}, json=body)
    response: dict[str, object] = application.response(async_id)
    return response


def notified_values(application: Application) -> list[str]:
    """Return the values of all notifications."""
    return [decoded(entry["payload"]) for kind, entry in application.entries() if kind == "notifications"]


def test_third_party_device_gets_requests_notifies_and_survives_server_kill(installed, start_server):
    port = free_port(socket.SOCK_DGRAM)
    server = start_server("--coap", f"127.0.0.1:{port}")
    device = ThirdPartyDevice(installed, "foreign", port)
    application = server.application()

    assert device.run("register") == "register 2.01"
    devices = application.json("GET", "/v3/devices")["data"]
    device_id = next(each["id"] for each in devices if each["endpoint_name"] == "foreign")
    updates: list[str] = []

    def is_discovered() -> bool:
        # On a slow machine, the client may not listen yet when the discovery starts. An update repeats the discovery.
        # The client sends an update only if the lifetime changes.
        if server.stderr.count("could not be sent") > len(updates):
            updates.append(device.run(f"update {299 - len(updates)}"))
        return {TEMPERATURE, UNITS, RESET, SWITCH} <= paths(application, device_id)

    # It registers object instances without resources, which are discovered.
    wait_until(is_discovered, "the discovered resources")
    assert set(updates) <= {"update 2.04"}

    read = request(application, device_id, "read", method="GET", uri=TEMPERATURE)
    assert (read["status"], decoded(str(read["payload"]))) == (200, "21")
    assert (
        request(application, device_id, "write", method="PUT", uri=SWITCH, **{"payload-b64": "MQ=="})["status"] == 200
    )
    assert decoded(str(request(application, device_id, "written", method="GET", uri=SWITCH)["payload"])) == "1"
    rejected = request(application, device_id, "refused", method="PUT", uri=TEMPERATURE, **{"payload-b64": "MQ=="})
    assert (rejected["status"], rejected["error"]) == (400, "METHOD_NOT_ALLOWED")
    # With a content format it would treat the request as a create, and exit.
    assert request(application, device_id, "execute", method="POST", uri=RESET)["status"] == 200
    assert device.read_line() == "executed"

    application.json("PUT", f"/v2/subscriptions/{device_id}{TEMPERATURE}")
    wait_until(lambda: application.resource(device_id, TEMPERATURE)["subscribed"], "the subscription")
    assert device.run("set 22.5") == "set"
    wait_until(lambda: "22.5" in notified_values(application), "its notification")

    server.kill()
    server.start()

    assert device.run("update 200") == "update 2.04"
    assert device.run("set 23.5") == "set"
    wait_until(lambda: "23.5" in notified_values(application), "its notification after the kill")
    assert device.run("leave") == "leave 2.02"
    assert "de-registrations" in [kind for kind, _ in application.entries()]
    assert "Traceback" not in server.stderr
    device.close()
