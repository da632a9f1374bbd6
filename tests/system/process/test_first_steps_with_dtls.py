"""The cells of the first notebook with devices of ``mirror-device`` that have keys: unchanged but for the names.

What the bench plays in it, a light without power and a day that passes, is left out: no bench plays real devices.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ports import free_port
from process_server import DEVICE_COMMAND, ROOT, Child, ServerProcess, run_command, wait_until

from mirror_sdk import DesiredStatus, MirrorClient
from mirror_server.clock import SystemClock
from mirror_server.devices.lwm2m_client.coap_socket import PreSharedKey
from mirror_server.devices.lwm2m_client.fleet import BackgroundFleet, DeviceOptions

pytestmark = pytest.mark.process

NAMES = {"weather-station-01": "my-station", "light-01": "my-light"}
KINDS = {"my-station": "weather-station", "my-light": "light"}
TEMPERATURE, DIMMER, DOOR_OPEN = "/3303/0/5700", "/3311/0/5851", "/3200/0/5500"
BACK_SECONDS = 120
"""A device notices within 45 s that the server has lost its session."""


class Notebook:
    """The cells of the first notebook, run one by one with the names of other devices."""

    def __init__(self) -> None:
        cells = json.loads((ROOT / "notebooks" / "01_first_steps.ipynb").read_text())["cells"]
        self._sources = {cell["id"]: "".join(cell["source"]) for cell in cells}
        self.names: dict[str, Any] = {}

    def run(self, *cell_ids: str) -> None:
        for cell_id in cell_ids:
            source = self._sources[cell_id]
            for simulated, real in NAMES.items():
                source = source.replace(simulated, real)
            exec(compile(source, cell_id, "exec"), self.names)


class Place:
    """A server to which real devices come, and what makes them."""

    def __init__(self, folder: Path) -> None:
        address = f"127.0.0.1:{free_port(socket.SOCK_DGRAM)}"
        self.url = f"coaps://{address}"
        self.server = ServerProcess(folder, "--simulate=0", f"--coaps={address}").start()
        self._folder = folder
        self._children: list[Child] = []

    def new_key(self, name: str) -> str:
        """The key of a device, as the operator is told it."""
        told = run_command("devices", "add", name, "--database", self.server.database_url)
        assert told.returncode == 0, told.stderr
        found = re.search(r"^Key +([0-9a-f]+)$", told.stdout, re.MULTILINE)
        assert found is not None
        return found[1]

    def begin(self, name: str, kind: str, key: str) -> Child:
        """Start a device as a process."""
        words = ["--server", self.url, "--name", name, "--kind", kind]
        path = self._folder / f"{name}.txt"
        self._children.append(Child(*words, stderr_path=path, command=DEVICE_COMMAND, MIRROR_DEVICE_PSK=key))
        return self._children[-1]

    def close(self) -> None:
        for child in self._children:
            child.kill()
        self.server.close()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    made = Place(tmp_path)
    monkeypatch.setenv("API_HOST", made.server.url)
    monkeypatch.setenv("API_KEY", made.server.key())
    monkeypatch.setenv("MPLBACKEND", "agg")
    yield made
    made.close()


def wait_for_frame(client: MirrorClient, name: str, path: str, column: str, value: object) -> None:
    """Wait until the frame has this value of a resource, which no device is asked for."""

    def has_come() -> bool:
        return bool(client.state_frame([name], paths=[path])[column].dropna().tolist() == [value])

    wait_until(has_come, f"{value} of {name} in the frame")


def test_the_first_notebook_with_real_devices_and_a_service_that_is_killed_between(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = {name: place.new_key(name) for name in (*KINDS, "my-door")}
    for name, kind in KINDS.items():
        device = place.begin(name, kind, key=keys[name])
        assert "registered" in device.read_line()

    notebook = Notebook()
    notebook.run("cell-03", "cell-05", "cell-07", "cell-10", "cell-12", "cell-14", "cell-16", "cell-25")
    client = notebook.names["client"]
    assert re.search(rf"^my-station {TEMPERATURE} -?[0-9.]+$", capsys.readouterr().out, re.MULTILINE)
    way = "LwM2M 1.0 over CoAP with DTLS"
    assert client.get_connection("my-station").way == way
    written = client.get_device("my-light")[DIMMER].desired
    assert (written.value.python, written.status) == (40, DesiredStatus.SUCCESS)
    client.subscribe("my-light", DIMMER)
    client.write_value("my-light", DIMMER, 61)
    wait_for_frame(client, "my-light", DIMMER, "reported_num", 61)

    place.server.kill()
    place.server.start()
    wait_until(lambda: all(client.get_connection(name).reachable for name in KINDS), "the devices", BACK_SECONDS)
    client.write_value("my-light", DIMMER, 62)
    wait_for_frame(client, "my-light", DIMMER, "reported_num", 62)
    notebook.run("cell-10", "cell-22")
    assert f"It came by {way}: a read brought it." in client.explain("my-station", TEMPERATURE).why
    refused = client.get_device("my-station")[TEMPERATURE].desired
    assert (refused.status, refused.category) == (DesiredStatus.FAILURE, "METHOD_NOT_ALLOWED")
    notebook.run("cell-30", "cell-32")
    state = notebook.names["state"]
    assert list(state.loc[state["desired_status"] == "failure", "endpoint_name"].astype(str)) == ["my-station"]

    options = DeviceOptions(place.url, key=PreSharedKey(b"my-door", bytes.fromhex(keys["my-door"])))
    clock = SystemClock()
    with BackgroundFleet(options, [("my-door", "door-contact")], clock, lambda _: None) as doors:
        is_open = not doors.fleet.devices["my-door"].value(DOOR_OPEN)
        doors.call(lambda: doors.fleet.devices["my-door"].set_value(DOOR_OPEN, is_open))
        wait_for_frame(client, "my-door", DOOR_OPEN, "reported_bool", is_open)
        told = str(client.explain("my-door", DOOR_OPEN))
    clock.close()
    assert f"It came by {way}: the device sent it by itself: it is auto-observed." in told

    notebook.run("cell-34")
    client.close()
