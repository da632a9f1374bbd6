"""Every notebook gives its stored outputs again, to the letter, on a fresh server with the seed of the demo."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from process_server import ROOT, child_environment

from mirror_sdk import examples

pytestmark = [pytest.mark.process, pytest.mark.notebook]


NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_gives_its_stored_outputs(notebook: Path, demo_environment: dict[str, str]) -> None:
    options = ["--nbval", str(notebook), "-q", "-p", "no:cacheprovider", "-W", "default"]
    command = [sys.executable, "-m", "pytest", *options]
    run = subprocess.run(
        command,
        env=child_environment(**demo_environment),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-8000:]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_output_is_compared_but_that_of_a_widget(notebook: Path) -> None:
    cells = json.loads(notebook.read_text())["cells"]
    marked = [cell for cell in cells if cell["metadata"].get("tags")]
    assert {tag for cell in marked for tag in cell["metadata"]["tags"]} <= {"nbval-ignore-output"}
    for cell in marked:
        assert "from mirror_sdk.widgets import" in "".join(cell["source"])
        assert cell["outputs"] == []


def test_the_notebooks_of_the_package_are_copied_once_and_never_over_the_users_own(tmp_path: Path) -> None:
    first = examples.copy(tmp_path / "notebooks")
    assert [path.name for path in first] == [path.name for path in examples.list_notebooks()]
    assert [path.name.partition("_")[0] for path in first] == ["01", "02", "03", "04", "05", "06", "07"]
    first[0].write_text("mine")
    assert examples.copy(tmp_path / "notebooks")[0].read_text() == "mine"
