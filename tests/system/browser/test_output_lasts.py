"""The content of widgets remains when the notebook is opened again, in any viewer."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from process_lab import START_SECONDS, Lab
from process_notebook import Notebook
from process_server import child_environment, wait_until

pytestmark = [pytest.mark.process, pytest.mark.browser]

# Other tests add devices to the lab.
SOME_DEVICES = re.compile(r"[1-9]\d* devices")
CELLS = (
    "from mirror_sdk import MirrorClient\nfrom mirror_sdk.widgets import FleetTable\nclient = MirrorClient.from_env()",
    "FleetTable(client)",
)


@pytest.fixture
def notebook(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    opened = Notebook(lab, browser, CELLS)
    yield opened
    opened.close()


def test_a_saved_notebook_shows_the_content_of_its_widget(lab: Lab, notebook: Notebook, tmp_path: Path) -> None:
    page = notebook.page
    expect(notebook.widget()).to_be_visible(timeout=START_SECONDS * 1000)
    notebook.wait_for_the_cells()
    copy = page.locator(".mirror-copy").first
    # The static copy is made when the cell ends, and again when the widget has read more.
    expect(copy).to_contain_text(SOME_DEVICES)
    expect(copy).to_be_hidden()
    notebook.cell(0).click()
    file = lab.folder / "mirror-notebooks" / f"{notebook.name}.ipynb"

    def is_saved() -> bool:
        notebook.keys("Control+s")
        try:
            outputs = json.dumps(json.loads(file.read_text()))
        except ValueError:
            return False  # it is being written
        return "mirror-copy" in outputs and SOME_DEVICES.search(outputs) is not None

    wait_until(is_saved, "the notebook to be saved")

    notebook.end_kernel()
    page.close()
    page = page.context.new_page()
    copy = page.locator(".mirror-copy").first
    page.goto(notebook.url)
    expect(copy).to_be_visible(timeout=START_SECONDS * 1000)
    expect(copy).to_contain_text("FleetTable, as of 2")
    expect(copy).to_contain_text(SOME_DEVICES)
    expect(page.get_by_text("model not found")).to_have_count(1, timeout=START_SECONDS * 1000)
    expect(page.get_by_text("model not found")).to_be_hidden()

    command = [sys.executable, "-m", "jupyter", "nbconvert", "--to", "html", "--output-dir", tmp_path, file]
    subprocess.run(command, env=child_environment(), check=True, capture_output=True, timeout=300)
    page.goto((tmp_path / f"{notebook.name}.html").as_uri())
    expect(copy).to_be_visible()
    expect(copy).to_contain_text(SOME_DEVICES)
    page.close()
    assert notebook.wrong == []
