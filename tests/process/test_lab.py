"""``mirror lab`` as a user starts it: server, JupyterLab and simulated time together, and nothing left afterwards."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from process_lab import ADDRESS, MIRROR, Lab
from process_server import answers, child_environment, wait_until

from mirror_sdk import Bench, MirrorClient

pytestmark = pytest.mark.process


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    running = Lab(tmp_path)
    yield running
    running.close()


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_lab_serves_the_first_notebook_and_stops_everything_at_a_signal(lab: Lab, signal_number: int) -> None:
    jupyter, notebook, token = lab.find(ADDRESS).groups()
    mirror = lab.find(MIRROR)[1]
    assert notebook == "01_first_steps.ipynb"
    headers = {"Authorization": f"token {token}"}
    with httpx.Client(base_url=jupyter, headers=headers, trust_env=False, timeout=30) as http:
        wait_until(lambda: _status(http), "JupyterLab to answer", 60)
        listed = http.get("/api/contents").json()["content"]
        assert "01_first_steps.ipynb" in [entry["name"] for entry in listed]
    assert answers(mirror)

    lab.process.send_signal(signal_number)
    assert lab.process.wait(40) == 0
    assert not answers(mirror)
    with pytest.raises(httpx.TransportError):
        httpx.get(jupyter, trust_env=False, timeout=5)


def test_a_kernel_of_the_lab_reaches_the_mirror_whose_time_passes(lab: Lab) -> None:
    jupyter, _, token = lab.find(ADDRESS).groups()
    host = lab.find(MIRROR)[1]
    environment = _environment_of_child(lab.process.pid, "jupyterlab")
    assert environment["API_HOST"] == host
    assert jupyter.startswith("http://127.0.0.1:")
    assert token not in environment["API_KEY"]
    with MirrorClient(host, environment["API_KEY"]) as client:
        assert len(client.list_devices()) == 3
        bench = Bench(client)
        begun_at = bench.get_clock()
        wait_until(lambda: bench.get_clock() > begun_at, "time to pass")


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
        timeout=60,
        check=False,
    )
    assert run.returncode == 1
    assert 'pip install "device-state-mirror[notebook]"' in run.stderr
    assert "Traceback" not in run.stderr


def _status(http: httpx.Client) -> bool:
    try:
        return http.get("/api/status").status_code == 200
    except httpx.TransportError:
        return False


def _environment_of_child(parent_pid: int, word: str) -> dict[str, str]:
    """The environment of the child whose command line has the word, as the system knows it."""
    for child in Path(f"/proc/{parent_pid}/task/{parent_pid}/children").read_text().split():
        if word in Path(f"/proc/{child}/cmdline").read_text():
            pairs = Path(f"/proc/{child}/environ").read_bytes().decode().rstrip("\0").split("\0")
            return dict(pair.split("=", 1) for pair in pairs)
    raise AssertionError(f"no child with {word!r}")
