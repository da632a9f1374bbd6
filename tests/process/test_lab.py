"""``mirror lab`` from a user's view: server, JupyterLab and simulated time together, and nothing remains afterwards."""

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from process_lab import ADDRESS, MIRROR, Lab
from process_server import PATIENCE_SECONDS, responds, wait_until

from mirror_sdk import MirrorClient, Simulator
from mirror_sdk.cli import main
from mirror_sdk.examples import list_notebooks

pytestmark = pytest.mark.process

WITH_COAP = find_spec("aiocoap") is not None

LAST_LINES = re.compile(
    r"^Notebooks, in JupyterLab: (?P<lab>\S+)\nPage of the mirror: (?P<page>\S+)\nStop with Ctrl-C\.$", re.MULTILINE
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept") / "with blank.db"


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Iterator[Lab]:
    """A lab for the tests that do not stop it. The last test closes JupyterLab."""
    running = Lab(tmp_path_factory.mktemp("lab"), f"--database={database}")
    yield running
    running.close()


def test_a_lab_kernel_reaches_the_mirror_and_its_clock_runs(shared_lab):
    jupyter, _, token = shared_lab.find(ADDRESS).groups()
    host = shared_lab.find(MIRROR)[1]
    environment = _environment_of(_child_of(shared_lab.process.pid, "jupyterlab"))
    assert environment["API_HOST"] == host
    assert jupyter.startswith("http://127.0.0.1:")
    assert token not in environment["API_KEY"]
    with MirrorClient(host, environment["API_KEY"]) as client:
        assert len(client.devices.list()) == 3
        simulator = Simulator(client)
        started_at = simulator.get_clock()
        wait_until(lambda: simulator.get_clock() > started_at, "time to pass")
        client.subscriptions.rules.replace([{"resource_path": ["/3303/*"]}])


def test_its_last_lines_lead_to_the_notebooks_and_to_the_page(shared_lab):
    lines = shared_lab.find(LAST_LINES)
    assert lines["lab"].replace("localhost", "127.0.0.1") == shared_lab.find(ADDRESS)[0]
    assert shared_lab.output.index("To access the server") < lines.start()

    with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS, follow_redirects=True) as visitor:
        response = visitor.get(lines["page"])
    assert response.status_code == 200
    assert "<title>" in response.text
    key = response.url.fragment.removeprefix("key=")
    with MirrorClient(shared_lab.find(MIRROR)[1], key) as client:
        assert len(client.devices.list()) == 3
    assert key not in shared_lab.output

    with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS, follow_redirects=True) as visitor:
        visitor.get(lines["lab"])
        at_a_device = visitor.get(lines["page"].partition("?")[0], params={"device": "0a1b"})
    assert at_a_device.url.fragment == f"key={key}&device=0a1b"

    kernel = shared_lab.request("POST", "/api/kernels", json={"name": "python3"}).json()["id"]
    of_kernel = _environment_of(_child_of(_child_of(shared_lab.process.pid, "jupyterlab"), "ipykernel"))
    shared_lab.request("DELETE", f"/api/kernels/{kernel}")
    assert of_kernel["API_PAGE"] == lines["page"].partition("?")[0]

    unauthenticated = httpx.get(lines["page"].partition("?")[0], trust_env=False, timeout=PATIENCE_SECONDS)
    assert unauthenticated.status_code == 302
    assert "key" not in unauthenticated.headers["Location"]


def test_its_notebooks_are_trusted_as_long_as_they_are_as_they_came(shared_lab):
    first, second = (path.name for path in list_notebooks()[:2])
    assert all_trusted(shared_lab, first)
    assert all_trusted(shared_lab, second)
    file = shared_lab.folder / "mirror-notebooks" / second
    changed = json.loads(file.read_text())
    changed["cells"][0]["source"] += "."
    file.write_text(json.dumps(changed))
    assert not all_trusted(shared_lab, second)


def all_trusted(lab: Lab, notebook: str) -> bool:
    """Return whether JupyterLab trusts the outputs of all cells."""
    cells = lab.request("GET", f"/api/contents/{notebook}").json()["content"]["cells"]
    return all(cell["metadata"]["trusted"] for cell in cells if cell["cell_type"] == "code")


def test_it_sends_no_request_for_news(shared_lab):
    page = shared_lab.request("GET", "/lab").text
    config = json.loads(re.search(r'<script id="jupyter-config-data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    assert "@jupyterlab/apputils-extension:announcements" in config["disabledExtensions"]


def test_everything_stops_when_jupyterlab_is_closed_and_the_next_lab_goes_on(shared_lab, database, tmp_path):
    mirror = shared_lab.find(MIRROR)[1]
    assert responds(mirror)
    assert shared_lab.request("POST", "/api/shutdown").status_code == 200
    assert shared_lab.process.wait(PATIENCE_SECONDS) == 0
    assert not responds(mirror)

    lab = Lab(tmp_path, f"--database={database}", *(["--coap"] if WITH_COAP else []))
    try:
        notebooks = [path.name for path in list_notebooks()]
        assert lab.find(ADDRESS)[2] == notebooks[0]
        listed = lab.request("GET", "/api/contents").json()["content"]
        assert {entry["name"] for entry in listed} >= set(notebooks)
        assert f"Database: {database}" in lab.output
        if WITH_COAP:
            real_devices = lab.find(re.compile(r"^Real devices, by coap://127\.0\.0\.1:\d+: (.+)$", re.MULTILINE))
            assert real_devices[1] == "real-01, real-02, real-03, real-04"
        jupyter = _child_of(lab.process.pid, "jupyterlab")
        environment = _environment_of(jupyter)
        with MirrorClient(environment["API_HOST"], environment["API_KEY"]) as client:
            assert len(client.devices.list()) == 3 + 4 * WITH_COAP
            assert [rule.resource_path for rule in client.subscriptions.rules.list()] == [["/3303/*"]]
        lab.process.send_signal(signal.SIGINT)
        assert lab.process.wait(PATIENCE_SECONDS) == 0
    finally:
        lab.close()
    assert not responds(environment["API_HOST"])
    # Another JupyterLab may use its port immediately, because each one takes the first free port.
    with pytest.raises(ProcessLookupError):
        os.kill(jupyter, 0)


def test_the_mirror_does_not_outlive_a_lab_that_is_killed(tmp_path):
    lab = Lab(tmp_path)
    try:
        lab.find(ADDRESS)
        mirror = lab.find(MIRROR)[1]
        jupyter_pid = _child_of(lab.process.pid, "jupyterlab")
        lab.process.kill()
        lab.process.wait(PATIENCE_SECONDS)
        os.kill(jupyter_pid, signal.SIGTERM)
        wait_until(lambda: not responds(mirror), "the server to stop")
    finally:
        lab.close()


def test_lab_reports_how_to_install_missing_packages(monkeypatch):
    monkeypatch.setitem(sys.modules, "jupyterlab", None)
    ended = CliRunner().invoke(main, ["lab", "--no-browser"])
    assert ended.exit_code == 1
    assert 'pip install "device-state-mirror[notebook]"' in ended.stderr


def _child_of(parent_pid: int, word: str) -> int:
    """Return the child process with this word in its command line."""
    for child in Path(f"/proc/{parent_pid}/task/{parent_pid}/children").read_text().split():
        if word in Path(f"/proc/{child}/cmdline").read_text():
            return int(child)
    raise AssertionError(f"no child with {word!r}")


def _environment_of(pid: int) -> dict[str, str]:
    """Return the environment of a process from /proc."""
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().rstrip("\0").split("\0")
    return dict(pair.split("=", 1) for pair in pairs)
