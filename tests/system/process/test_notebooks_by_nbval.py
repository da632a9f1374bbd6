"""The notebooks in real kernels, in reverse order, on one mirror like that of ``mirror lab``: no cell fails.

Their output on a fresh mirror is compared in ``tests/process/test_notebooks.py``.
"""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from process_server import ROOT, child_environment, run_python
from test_notebooks import NOTEBOOKS

from mirror_sdk.lab.demo import DemoServer

pytestmark = [pytest.mark.process, pytest.mark.notebook]


def test_notebooks_run_on_a_used_mirror(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    options = ["-q", "-p", "no:cacheprovider", "-p", "nbval.plugin", "-W", "default", f"--junitxml={report}"]
    server = DemoServer()
    try:
        words = ["-m", "pytest", *options, "--nbval-lax", *map(str, reversed(NOTEBOOKS))]
        env = child_environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", **server.environment)
        ended = run_python(*words, seconds=600, env=env, cwd=ROOT)
    finally:
        server.close()
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr
    cells = [cell for path in NOTEBOOKS for cell in json.loads(path.read_text())["cells"]]
    assert len(list(ET.parse(report).iter("testcase"))) == sum(cell["cell_type"] == "code" for cell in cells)
