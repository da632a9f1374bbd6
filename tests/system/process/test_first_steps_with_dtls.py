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

from mirror_sdk import DesiredStatus

pytestmark = pytest.mark.process

NAMES = {"weather-station-01": "my-station", "light-01": "my-light"}
KINDS = {"my-station": "weather-station", "my-light": "light"}
TEMPERATURE, DIMMER = "/3303/0/5700", "/3311/0/5851"
WAY = "LwM2M 1.0 over CoAP with DTLS"


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


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerProcess]:
    """A server to which two real devices came, each a process with a key of its own."""
    address = f"127.0.0.1:{free_port(socket.SOCK_DGRAM)}"
    server = ServerProcess(tmp_path, "--simulate=0", f"--coaps={address}").start()
    children = []
    for name, kind in KINDS.items():
        told = run_command("devices", "add", name, "--database", server.database_url)
        assert told.returncode == 0, told.stderr
        found = re.search(r"^Key +([0-9a-f]+)$", told.stdout, re.MULTILINE)
        assert found is not None
        words = ["--server", f"coaps://{address}", "--name", name, "--kind", kind]
        path = tmp_path / f"{name}.txt"
        children.append(Child(*words, stderr_path=path, command=DEVICE_COMMAND, MIRROR_DEVICE_PSK=found[1]))
        assert "registered" in children[-1].read_line()
    monkeypatch.setenv("API_HOST", server.url)
    monkeypatch.setenv("API_KEY", server.key())
    monkeypatch.setenv("MPLBACKEND", "agg")
    yield server
    for child in children:
        child.kill()
    server.close()


@pytest.mark.usefixtures("server")
def test_the_first_notebook_with_real_devices(capsys: pytest.CaptureFixture[str]) -> None:
    notebook = Notebook()
    notebook.run("cell-03", "cell-05", "cell-07", "cell-10", "cell-12", "cell-14", "cell-16", "cell-25")
    client = notebook.names["client"]
    assert re.search(rf"^my-station {TEMPERATURE} -?[0-9.]+$", capsys.readouterr().out, re.MULTILINE)
    assert client.get_connection("my-station").way == WAY
    written = client.get_device("my-light")[DIMMER].desired
    assert (written.value.python, written.status) == (40, DesiredStatus.SUCCESS)
    client.subscribe("my-light", DIMMER)
    client.write_value("my-light", DIMMER, 61)

    def has_come() -> bool:
        # No device is asked for it.
        return bool(client.state_frame(["my-light"], paths=[DIMMER])["reported_num"].dropna().tolist() == [61])

    wait_until(has_come, "what was written in the frame")
    notebook.run("cell-10", "cell-22")
    assert f"It came by {WAY}: a read brought it." in client.explain("my-station", TEMPERATURE).why
    refused = client.get_device("my-station")[TEMPERATURE].desired
    assert (refused.status, refused.category) == (DesiredStatus.FAILURE, "METHOD_NOT_ALLOWED")
    notebook.run("cell-30", "cell-32")
    state = notebook.names["state"]
    assert list(state.loc[state["desired_status"] == "failure", "endpoint_name"].astype(str)) == ["my-station"]
    notebook.run("cell-34")
    client.close()
