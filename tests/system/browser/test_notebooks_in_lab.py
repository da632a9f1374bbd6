"""In JupyterLab, in a real browser: the first notebook, and one whose widget changes while cells run.

nbval runs the cells of all notebooks, and other tests here use each widget.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser
from process_lab import Lab
from process_notebook import Notebook
from process_server import wait_until

pytestmark = [pytest.mark.process, pytest.mark.browser]

NOTEBOOKS = ["00_tour.ipynb", "04_watching_events.ipynb"]
# From the file, since the page omits cells that are out of sight. A cell gets its number when it ends.
CELLS_THAT_RAN = """() => {
    const { cells } = jupyterapp.shell.currentWidget.content.model;
    const code = [...cells].filter((cell) => cell.type === "code");
    return code.every((cell) => cell.executionCount) ? code.map((cell) => cell.toJSON()) : null;
}"""


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_all_cells_run_without_an_error(lab: Lab, browser: Browser, name: str) -> None:
    notebook = Notebook(lab, browser, name)
    try:
        cells = wait_until(lambda: notebook.page.evaluate(CELLS_THAT_RAN), "all cells to have run", 300)
        outputs = [output for cell in cells for output in cell["outputs"]]
        assert [output for output in outputs if output["output_type"] == "error"] == []
        assert [output for output in outputs if output.get("name") == "stderr"] == []
        assert notebook.wrong == []
    finally:
        notebook.close()
