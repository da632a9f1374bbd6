"""A tiny benchmark runs from an installed package, without programs that must be installed separately.

``tests/system/test_every_benchmark.py`` runs all of them in a checkout.
"""

import json
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from process_server import ROOT, child_environment, run_python

pytestmark = pytest.mark.process

TINY = "--rounds 1 --seconds 0.1 --connections 2 --devices 5 --resources 3 --calls 3"


def test_the_command_of_an_installed_package_measures_that_package(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, timeout=60, capture_output=True)
    (wheel,) = tmp_path.iterdir()
    installed, result = tmp_path / "installed", tmp_path / "result.json"
    ZipFile(wheel).extractall(installed)
    (points,) = installed.glob("*.dist-info/entry_points.txt")
    assert "mirror-benchmarks = mirror_sdk.testing.benchmarks:main\n" in points.read_text()
    program = "from mirror_sdk.testing.benchmarks import main; main()"
    options = [*TINY.split(), "--json", str(result), "read_value"]
    ended = run_python(
        "-c", program, *options, seconds=180, env=child_environment(PYTHONPATH=str(installed)), cwd=tmp_path
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert {figure["benchmark"] for figure in json.loads(result.read_text())["figures"]} == {"read_value"}
    # The package contains the programs that it starts, and the helpers that it shares with the tests.
    names = {path.name for path in (installed / "mirror_sdk" / "_benchmarks").iterdir()}
    ours = (ROOT / "tests" / "benchmarks").iterdir()
    assert {path.name for path in ours if path.is_file()} | {"bare_coap.py", "databases.py"} <= names
