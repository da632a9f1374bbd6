"""The widgets in Notebook 7, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from contrast import expect_enough_contrast
from playwright.sync_api import Browser, Locator, expect
from process_lab import Lab
from process_notebook import Notebook
from resource_paths import LEVEL

pytestmark = [pytest.mark.process, pytest.mark.browser]

SET_UP = f"""
from mirror_sdk import Simulator, MirrorClient
from mirror_sdk.widgets import EventWatcher, Explorer, FleetTable, WritePanel
client = MirrorClient.from_env()
simulator = Simulator(client)
lamp = simulator.add_device("lamp", [{{"path": "{LEVEL}", "value": "10", "observable": True, "writable": True}}])
client.subscribe(lamp, "{LEVEL}")
"""
WIDGETS = [
    "Explorer(client, lamp)",
    "EventWatcher(client, devices=[lamp])",
    "WritePanel(client, [lamp], canary=0)",
    "FleetTable(client)",
]


def cell(grid: Locator, name: str, column: str) -> Locator:
    """Return the cell of a column in the row that has this name."""
    return grid.get_by_role("row").filter(has_text=name).locator(f'[col-id="{column}"]').first


def test_each_widget_works_and_is_readable_in_both_themes(lab: Lab, browser: Browser, tmp_path: Path) -> None:
    notebook = Notebook(lab, browser, (SET_UP, *WIDGETS), in_lab=False)
    try:
        # Notebook 7 removes invisible cells from the page.
        notebook.page.set_viewport_size({"width": 1400, "height": 3600})
        explorer, watcher, panel, fleet = widgets = [notebook.widget(number) for number in (1, 2, 3, 4)]
        notebook.wait_for_the_cells()
        # Other tests have added devices, and invisible rows are not on the page.
        fleet.get_by_label("Search in Fleet").fill("lamp")
        expect(cell(fleet.get_by_role("grid", name="Fleet"), "lamp", "name")).to_be_visible(timeout=60_000)
        explorer.get_by_label("Search in Devices").focus()
        notebook.page.keyboard.type("lam")
        expect(explorer).to_contain_text(re.compile(r"1 of \d+ rows"))
        level = explorer.get_by_role("grid", name="Resources").locator(f'[row-id="{LEVEL}"] [col-id="value"]')
        level.click()
        explorer.get_by_role("button", name="Read now", exact=True).press("Enter")
        expect(level).to_have_text("10 %")

        panel.get_by_label("Resource").fill(LEVEL)
        panel.get_by_label("Resource").press("Enter")
        expect(panel.get_by_label("Value", exact=True)).to_have_value("10")
        panel.get_by_label("Value", exact=True).fill("55")
        panel.get_by_role("button", name="Preview").click()
        panel.get_by_role("button", name="Apply (1)").click()
        expect(panel).to_contain_text("Done: 1 of 1 write ended, 1 succeeded.")
        expect(level).to_have_text("55 %")
        expect(watcher.get_by_role("grid", name="Events")).to_contain_text("55")
        expect(watcher.get_by_role("group", name=re.compile("lamp .* to 55 %"))).to_be_attached()

        cell(fleet.get_by_role("grid", name="Fleet"), "lamp", "name").click()
        fleet.get_by_role("button", name="Open", exact=True).press("Enter")
        expect(fleet.get_by_role("heading", name="lamp")).to_be_visible()
        for theme, is_light in [("JupyterLab Dark", "false"), ("JupyterLab Light", "true")]:
            notebook.choose("Settings", "Theme", theme)
            expect(notebook.page.locator("body")).to_have_attribute("data-jp-theme-light", is_light)
            expect_enough_contrast(*widgets)
            notebook.page.screenshot(path=tmp_path / f"{theme}.png")
        for page in (notebook.page, notebook.other_page()):
            # That of the watcher, and that of the resource in the explorer.
            expect(page.locator(".mirror-plot .u-over")).to_have_count(2)
        # The page has saved the notebook.
        stored = lab.folder / "mirror-notebooks" / f"{notebook.name}.ipynb"
        assert stored.stat().st_size <= 500_000
    finally:
        notebook.close()
