"""The write panel in JupyterLab, in a real browser: an accepted and a rejected write, with mouse and keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect
from process_lab import Lab
from process_notebook import Notebook
from process_server import wait_for
from resource_paths import LEVEL

pytestmark = [pytest.mark.process, pytest.mark.browser]

SET_UP = f"""
from mirror_sdk import Simulator, MirrorClient
from mirror_sdk.widgets import WritePanel
client = MirrorClient.from_env()
simulator = Simulator(client)
def add(name):
    resource = {{"path": "{LEVEL}", "value": "10", "observable": True, "writable": True}}
    device_id = simulator.add_device(name, [resource])
    client.read_value(device_id, "{LEVEL}")
    return device_id
"""


@pytest.fixture
def open_panel(lab: Lab, browser: Browser) -> Iterator[Any]:
    opened: list[Notebook] = []

    def make(cell: str) -> tuple[Notebook, Locator]:
        notebook = Notebook(lab, browser, (SET_UP, cell))
        opened.append(notebook)
        notebook.wait_for_the_cells()
        panel = notebook.widget()
        expect(panel.get_by_role("button", name="Preview")).to_be_visible(timeout=60_000)
        return notebook, panel

    yield make
    for one in opened:
        one.close()


def line(panel: Locator, device: str) -> Locator:
    """Return the line with the write to a device."""
    return panel.get_by_role("grid", name="Writes of the plan").get_by_role("row").filter(has_text=device)


def test_typed_input_stays_with_keyboard_only_use_while_the_panel_reads(open_panel: Any, lab: Lab) -> None:
    is_typed = lab.folder / "a path is typed"
    notebook, panel = open_panel(
        "import pathlib, time\n"
        "ids = [add('typed-a'), add('typed-b')]; simulator.set_response_mode(ids[1], 'reject')\n"
        "read = client.get_device\n"
        "def late(device_id):\n"
        f"    while not pathlib.Path('{is_typed}').exists():\n        time.sleep(0.1)\n"
        "    return read(device_id)\n"
        "client.get_device = late\n"
        "WritePanel(client, ids, canary=0)"
    )
    expect(panel).to_contain_text("2 selected")
    panel.get_by_label("Search in Devices to write to").focus()
    notebook.page.keyboard.type("typed-b")
    notebook.tab_to("Device")
    notebook.keys("ArrowDown", "Space")
    expect(panel).to_contain_text("1 selected")
    notebook.keys("Space")
    expect(panel).to_contain_text("2 selected")
    notebook.tab_to("Resource")
    notebook.page.keyboard.type(LEVEL)
    is_typed.touch()
    expect(panel).to_contain_text("The list has the resources of typed-a")
    expect(panel.get_by_label("Resource")).to_have_value(LEVEL)
    notebook.keys("Enter")
    expect(panel.get_by_role("textbox", name="Value")).to_have_value("10")
    notebook.tab_to("Value")
    notebook.keys("Control+a")
    # As fast as a paste: no key press is lost or corrected.
    notebook.page.keyboard.type("1400")
    notebook.keys("Backspace", "Backspace", "Backspace")
    notebook.page.keyboard.type("40")
    expect(panel).to_contain_text("from 0 to 100, not 140")
    expect(panel.get_by_role("textbox", name="Value")).to_have_value("140")
    notebook.keys("Control+a")
    notebook.page.keyboard.insert_text("55")
    notebook.tab_to("Preview")
    notebook.keys("Enter")
    expect(panel).to_contain_text("Preview: 2 to write")
    wait_for("Preview", lambda: notebook.focused)
    notebook.tab_to("Apply")
    notebook.keys("Space")
    expect(line(panel, "typed-a")).to_contain_text("✓ Success")
    expect(line(panel, "typed-b")).to_contain_text("✗ Failed")
    expect(panel.get_by_role("button", name="Undo")).to_be_enabled()
    notebook.tab_to("Undo")
    notebook.keys("Enter")
    expect(panel).to_contain_text("Preview: 1 to write")
    panel.get_by_role("button", name="Apply the undo (1)").press("Enter")
    expect(panel).to_contain_text("Done: 1 of 1 write ended, 1 succeeded.")
    assert notebook.wrong == []
