"""nbval finds in real kernels what each notebook has stored, on a fresh server with the seed of the demo."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from process_server import ROOT, child_environment
from test_notebooks import NOTEBOOKS

pytestmark = [pytest.mark.process, pytest.mark.notebook]

IMPORTED = os.pathsep.join(map(str, [ROOT, ROOT / "tests", ROOT / "tests" / "process", Path(__file__).parent]))


def test_nbval_finds_the_stored_outputs(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    options = ["-q", "-p", "no:cacheprovider", "-W", "default", f"--junitxml={report}"]
    plugins = ["-p", "nbval.plugin", "-p", "fresh_demos"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *options, "--nbval", *map(str, NOTEBOOKS)],
        env=child_environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", PYTHONPATH=IMPORTED),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr
    cells = [cell for path in NOTEBOOKS for cell in json.loads(path.read_text())["cells"]]
    assert len(list(ET.parse(report).iter("testcase"))) == sum(cell["cell_type"] == "code" for cell in cells)
