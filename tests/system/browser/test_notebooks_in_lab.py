"""The first notebook, and one whose widget changes while cells run, in JupyterLab in a real browser.

nbval runs the cells of all notebooks, and other tests here use each widget.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from playwright.sync_api import TimeoutError as NotInTime
from process_lab import Lab
from process_notebook import Notebook
from process_server import wait_until

pytestmark = [pytest.mark.process, pytest.mark.browser]

NOTEBOOKS = ["00_tour.ipynb", "04_watching_events.ipynb"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_all_cells_run_without_an_error(lab: Lab, browser: Browser, name: str) -> None:
    file = lab.folder / "mirror-notebooks" / name
    notebook = Notebook(lab, browser, name)
    try:
        code = [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]
        expect(notebook.page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible(timeout=120_000)

        def saved() -> list[dict[str, object]] | None:
            # Again each time: between two cells the kernel is idle too, and what runs later is not in what was saved.
            notebook.page.keyboard.press("Control+s")
            with suppress(NotInTime):  # nothing is told where nothing changed since the last time
                notebook.page.get_by_text("Saving completed").wait_for(timeout=1000)
            return all_outputs(file, len(code))

        # What the page shows is not all there: cells out of sight are left out of it.
        outputs = wait_until(saved, "all cells to have run and been saved", 300)
        assert [output for output in outputs if output["output_type"] == "error"] == []
        assert [output for output in outputs if output.get("name") == "stderr"] == []
        assert notebook.wrong == []
    finally:
        notebook.close()


def all_outputs(file: Path, count: int) -> list[dict[str, object]] | None:
    """The outputs, once as many cells have run."""
    try:
        cells = [cell for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "code"]
    except ValueError:
        return None  # it is being written
    if sum(cell["execution_count"] is not None for cell in cells) < count:
        return None
    return [output for cell in cells for output in cell["outputs"]]
