"""Benchmarks run in a checkout and installed, without programs that had to be installed: two of them, tiny.

``tests/system/test_every_benchmark.py`` runs all of them.
"""

import json
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from process_server import ROOT, child_environment

pytestmark = pytest.mark.process

TINY = "--no-peers --rounds 1 --seconds 0.1 --connections 2 --devices 5 --resources 3 --calls 3"


def run(cache: Path, *arguments: str, seconds: float = 180) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "tests" / "benchmarks"), "--cache", str(cache), *arguments],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def test_a_peer_that_cannot_be_installed_is_told_and_the_rest_is_measured(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    (tmp_path / "peers").touch()
    ended = run(tmp_path, *TINY.split(), "--peers", "--json", str(result), "read_value")
    assert ended.returncode == 0, ended.stderr
    assert "not measured: vendor: cannot install vendor-sdk in " in ended.stdout
    content = json.loads(result.read_text())
    figures = {figure["what"]: figure["value"] for figure in content["figures"]}
    assert figures.keys() == {
        f"read_value / GET of the device object with httpx{more}" for more in ("", ", a core each")
    }
    assert min(figures.values()) > 0
    assert list(content["missing"]) == ["vendor"]
    assert content["failed"] == {}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel of the tree puts among the packages."""
    built, packages = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("packages")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60, capture_output=True)
    (wheel,) = built.iterdir()
    ZipFile(wheel).extractall(packages)
    return packages


def run_installed(packages: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (points,) = packages.glob("*.dist-info/entry_points.txt")
    assert "mirror-benchmarks = mirror_sdk.testing.benchmarks:main\n" in points.read_text()
    program = "from mirror_sdk.testing.benchmarks import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "--cache", str(folder), *arguments],
        env=child_environment(PYTHONPATH=str(packages)),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_the_command_of_an_installed_package_measures_that_package(installed: Path, tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    ended = run_installed(installed, tmp_path, *TINY.split(), "--json", str(result), "call_overhead")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    content = json.loads(result.read_text())
    assert {figure["benchmark"] for figure in content["figures"]} == {"call_overhead"}
    # The programs it starts come with it, and so do those it shares with the tests.
    names = {path.name for path in (installed / "mirror_sdk" / "_benchmarks").iterdir()}
    ours = (ROOT / "tests" / "benchmarks").iterdir()
    assert {path.name for path in ours if path.is_file()} | {"bare_coap.py", "databases.py"} <= names
