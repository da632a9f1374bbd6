"""``mirror lab`` as a user starts it: server, JupyterLab and simulated time together, and nothing left afterwards."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
from process_lab import ADDRESS, MIRROR, Lab
from process_server import PATIENCE_SECONDS, answers, child_environment, wait_until

from mirror_sdk import Bench, MirrorClient
from mirror_sdk.examples import list_notebooks

pytestmark = pytest.mark.process

WITH_COAP = find_spec("aiocoap") is not None

TEMPERATURE = "/3303/0/5700"
LAST_LINES = re.compile(
    r"^Notebooks, in JupyterLab: (?P<lab>\S+)\nPage of the mirror: (?P<page>\S+)\nStop with Ctrl-C\.$", re.MULTILINE
)


@pytest.fixture
def lab_options() -> list[str]:
    return []


@pytest.fixture
def lab(tmp_path: Path, lab_options: list[str]) -> Iterator[Lab]:
    running = Lab(tmp_path, *lab_options)
    yield running
    running.close()


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """For the tests that leave it running."""
    running = Lab(tmp_path_factory.mktemp("lab"))
    yield running
    running.close()


@pytest.mark.parametrize("lab_options", [["--coap"] if WITH_COAP else []])
def test_lab_serves_the_first_notebook_and_stops_everything_at_ctrl_c(lab: Lab) -> None:
    notebook = lab.find(ADDRESS)[2]
    mirror = lab.find(MIRROR)[1]
    notebooks = [path.name for path in list_notebooks()]
    assert notebook == notebooks[0]
    listed = lab.ask("GET", "/api/contents").json()["content"]
    assert {entry["name"] for entry in listed} >= set(notebooks)
    assert answers(mirror)
    jupyter = _child_of(lab.process.pid, "jupyterlab")
    if WITH_COAP:
        told = lab.find(re.compile(r"^Real devices, by coap://127\.0\.0\.1:\d+: (.+)$", re.MULTILINE))
        assert told[1] == "real-01, real-02, real-03, real-04"

    lab.process.send_signal(signal.SIGINT)
    assert lab.process.wait(PATIENCE_SECONDS) == 0
    assert not answers(mirror)
    # Its port may be another one's at once: each JupyterLab takes the first that is free.
    with pytest.raises(ProcessLookupError):
        os.kill(jupyter, 0)


def test_a_kernel_of_the_lab_reaches_the_mirror_whose_time_passes(shared_lab: Lab) -> None:
    jupyter, _, token = shared_lab.find(ADDRESS).groups()
    host = shared_lab.find(MIRROR)[1]
    environment = _environment_of(_child_of(shared_lab.process.pid, "jupyterlab"))
    assert environment["API_HOST"] == host
    assert jupyter.startswith("http://127.0.0.1:")
    assert token not in environment["API_KEY"]
    with MirrorClient(host, environment["API_KEY"]) as client:
        assert len(client.list_devices()) == 3
        bench = Bench(client)
        begun_at = bench.get_clock()
        wait_until(lambda: bench.get_clock() > begun_at, "time to pass")


def test_its_last_lines_lead_to_the_notebooks_and_to_the_page(shared_lab: Lab) -> None:
    lines = shared_lab.find(LAST_LINES)
    assert lines["lab"].replace("localhost", "127.0.0.1") == shared_lab.find(ADDRESS)[0]
    assert shared_lab.output.index("To access the server") < lines.start()

    with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS, follow_redirects=True) as visitor:
        shown = visitor.get(lines["page"])
    assert shown.status_code == 200
    assert "<title>" in shown.text
    key = shown.url.fragment.removeprefix("key=")
    with MirrorClient(shared_lab.find(MIRROR)[1], key) as client:
        assert len(client.list_devices()) == 3
    assert key not in shared_lab.output

    with httpx.Client(trust_env=False, timeout=PATIENCE_SECONDS, follow_redirects=True) as visitor:
        visitor.get(lines["lab"])
        at_a_device = visitor.get(lines["page"].partition("?")[0], params={"device": "0a1b"})
    assert at_a_device.url.fragment == f"key={key}&device=0a1b"

    kernel = shared_lab.ask("POST", "/api/kernels", json={"name": "python3"}).json()["id"]
    of_kernel = _environment_of(_child_of(_child_of(shared_lab.process.pid, "jupyterlab"), "ipykernel"))
    shared_lab.ask("DELETE", f"/api/kernels/{kernel}")
    assert of_kernel["API_PAGE"] == lines["page"].partition("?")[0]

    stranger = httpx.get(lines["page"].partition("?")[0], trust_env=False, timeout=PATIENCE_SECONDS)
    assert stranger.status_code == 302
    assert "key" not in stranger.headers["Location"]


def test_its_notebooks_are_trusted_as_long_as_they_are_as_they_came(shared_lab: Lab) -> None:
    first, second = (path.name for path in list_notebooks()[:2])
    assert all_trusted(shared_lab, first)
    assert all_trusted(shared_lab, second)
    file = shared_lab.folder / "mirror-notebooks" / second
    changed = json.loads(file.read_text())
    changed["cells"][0]["source"] += "."
    file.write_text(json.dumps(changed))
    assert not all_trusted(shared_lab, second)


def all_trusted(lab: Lab, notebook: str) -> bool:
    """Whether JupyterLab takes the outputs of all cells for its user's own."""
    cells = lab.ask("GET", f"/api/contents/{notebook}").json()["content"]["cells"]
    return all(cell["metadata"]["trusted"] for cell in cells if cell["cell_type"] == "code")


def test_it_asks_nothing_about_news(shared_lab: Lab) -> None:
    page = shared_lab.ask("GET", "/lab").text
    config = json.loads(re.search(r'<script id="jupyter-config-data"[^>]*>(.*?)</script>', page, re.DOTALL)[1])
    assert "@jupyterlab/apputils-extension:announcements" in config["disabledExtensions"]


def test_everything_stops_when_jupyterlab_is_closed(lab: Lab) -> None:
    mirror = lab.find(MIRROR)[1]
    assert answers(mirror)
    assert lab.ask("POST", "/api/shutdown").status_code == 200
    assert lab.process.wait(PATIENCE_SECONDS) == 0
    assert not answers(mirror)


def test_the_mirror_does_not_outlive_a_lab_that_is_killed(lab: Lab) -> None:
    lab.find(ADDRESS)
    mirror = lab.find(MIRROR)[1]
    jupyter_pid = _child_of(lab.process.pid, "jupyterlab")
    lab.process.kill()
    lab.process.wait(PATIENCE_SECONDS)
    os.kill(jupyter_pid, signal.SIGTERM)
    wait_until(lambda: not answers(mirror), "the server to stop")


def test_a_given_database_keeps_the_fleet_and_what_is_known_of_it(tmp_path: Path) -> None:
    database = tmp_path / "with blank.db"
    seen = []
    for _ in range(2):
        lab = Lab(tmp_path, f"--database={database}")
        try:
            lab.find(ADDRESS)
            assert f"Database: {database}" in lab.output
            environment = _environment_of(_child_of(lab.process.pid, "jupyterlab"))
            with MirrorClient(environment["API_HOST"], environment["API_KEY"]) as client:
                # One that is always awake: a sleeping device goes on sleeping through a restart.
                device = client.list_devices(endpoint_name="weather-station-01")[0]
                reported = client.get_device(device.id)[TEMPERATURE].reported
                seen.append((device.id, len(client.list_devices()), reported is not None))
                seen.append(client.get_presubscriptions())
                client.put_presubscriptions([{"resource_path": ["/3303/*"]}])
                client.read_value(device.id, TEMPERATURE)
                mirror = client.base_url
        finally:
            lab.close()
        assert lab.process.returncode == 0
        assert not answers(mirror)
    first, no_rules, second, rules = seen
    assert first == (second[0], 3, False)
    assert second == (first[0], 3, True)
    assert no_rules == []
    assert [rule.resource_path for rule in rules] == [["/3303/*"]]


def test_lab_says_how_to_install_what_is_missing(tmp_path: Path) -> None:
    without_jupyter = (
        "import sys; sys.modules['jupyterlab'] = None; sys.argv[1:] = ['lab', '--no-browser'];"
        "from mirror_sdk.cli import main; main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", without_jupyter],
        cwd=tmp_path,
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert run.returncode == 1
    assert 'pip install "device-state-mirror[notebook]"' in run.stderr
    assert "Traceback" not in run.stderr


def _child_of(parent_pid: int, word: str) -> int:
    """The child whose command line has the word."""
    for child in Path(f"/proc/{parent_pid}/task/{parent_pid}/children").read_text().split():
        if word in Path(f"/proc/{child}/cmdline").read_text():
            return int(child)
    raise AssertionError(f"no child with {word!r}")


def _environment_of(pid: int) -> dict[str, str]:
    """The environment of a process, as the system knows it."""
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().rstrip("\0").split("\0")
    return dict(pair.split("=", 1) for pair in pairs)
