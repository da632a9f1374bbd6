"""Every notebook gives its stored outputs again, to the letter, on a fresh server with the seed of the demo."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

import pytest
from process_server import ROOT, child_environment

from mirror_sdk import examples

pytestmark = [pytest.mark.process, pytest.mark.notebook]


WITH_COAP = find_spec("aiocoap") is not None
NOTEBOOKS = [path for path in sorted((ROOT / "notebooks").glob("*.ipynb")) if WITH_COAP or path.stem[:2] != "08"]
"""Without aiocoap the one on real devices says what to install, and nothing else."""
IMPORTED = os.pathsep.join(map(str, [ROOT, ROOT / "tests", Path(__file__).parent]))


class Run(NamedTuple):
    """What nbval reports: each cell, with what was wrong in it, and its last words."""

    cells: list[ET.Element]
    output: str


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """nbval on all notebooks, in one process: its start takes as long as a notebook."""
    report = tmp_path_factory.mktemp("nbval") / "report.xml"
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
    assert report.exists(), ended.stdout + ended.stderr
    cells = list(ET.parse(report).iter("testcase"))
    return Run(cells, ended.stdout[-8000:])


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_its_stored_outputs(run: Run, notebook: Path) -> None:
    cells = [cell for cell in run.cells if f"notebooks.{notebook.stem}" in cell.get("classname", "")]
    code = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) == len(code), run.output
    assert [cell.get("name") for cell in cells if list(cell)] == [], run.output


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_output_is_compared_but_that_of_a_widget(notebook: Path) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    marked = [cell for cell in cells if cell["metadata"].get("tags")]
    assert {tag for cell in marked for tag in cell["metadata"]["tags"]} <= {"nbval-ignore-output"}
    for cell in marked:
        assert "from mirror_sdk.widgets import" in "".join(cell["source"])
        (copy,) = cell["outputs"]
        assert '<div class="mirror-copy">' in "".join(copy["data"]["text/html"])


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_stored_tells_nothing_of_the_machine(notebook: Path) -> None:
    stored = json.dumps([cell.get("outputs", []) for cell in json.loads(notebook.read_text())["cells"]])
    assert re.findall(r"/(?:tmp|home|root|opt|work|Users)/|127\.0\.0\.1|ak_[0-9a-f]{16}", stored) == []


def test_the_notebooks_of_the_package_are_copied_once_and_never_over_the_users_own(tmp_path: Path) -> None:
    first = examples.copy(tmp_path / "notebooks")
    assert [path.name for path in first] == [path.name for path in examples.list_notebooks()]
    assert [path.name.partition("_")[0] for path in first] == [f"{number:02}" for number in range(10)]
    first[0].write_text("mine")
    assert examples.copy(tmp_path / "notebooks")[0].read_text() == "mine"
