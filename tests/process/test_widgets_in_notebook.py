"""The widgets in Notebook 7, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from process_lab import Lab
from process_notebook import Notebook

pytestmark = [pytest.mark.process, pytest.mark.browser]

LEVEL = "/3311/0/5851"
SET_UP = f"""
from mirror_sdk import Bench, MirrorClient
from mirror_sdk.widgets import EventWatcher, Explorer, FleetMap, WritePanel
client = MirrorClient.from_env()
bench = Bench(client)
lamp = bench.add_device("lamp", [{{"path": "{LEVEL}", "value": "10", "observable": True, "writable": True}}])
client.subscribe(lamp, "{LEVEL}")
"""
WIDGETS = [
    "Explorer(client, lamp)",
    "EventWatcher(client, devices=[lamp])",
    "WritePanel(client, [lamp], canary=0)",
    "FleetMap(client)",
]


def test_each_widget_is_shown_and_works(lab: Lab, browser: Browser, tmp_path: Path) -> None:
    notebook = Notebook(lab, browser, (SET_UP, *WIDGETS), in_lab=False)
    try:
        explorer, watcher, panel, fleet = (notebook.widget(cell) for cell in (1, 2, 3, 4))
        expect(fleet.locator("button.mirror-tile", has_text="lamp")).to_be_visible(timeout=60_000)
        notebook.wait_for_the_cells()
        explorer.get_by_label("Search").focus()
        notebook.page.keyboard.type("lam")
        expect(explorer).to_contain_text(re.compile(r"1 of \d+ devices"))
        row = explorer.locator(".mirror-lines > *", has_text=LEVEL)
        row.get_by_role("button", name="Read").press("Enter")
        expect(row).to_contain_text("10 %")

        panel.get_by_label("Path").fill(LEVEL)
        panel.get_by_label("Path").press("Enter")
        expect(panel.get_by_label("Value")).to_have_value("10")
        panel.get_by_label("Value").fill("55")
        panel.get_by_role("button", name="Preview").click()
        panel.get_by_role("button", name="Apply (1)").click()
        expect(panel).to_contain_text("Done: 1 of 1 write ended, 1 with success.")
        expect(row).to_contain_text("55 %")
        expect(watcher.locator("table")).to_contain_text("55 %")
        expect(watcher.get_by_role("img", name=re.compile("lamp .* to 55 %"))).to_be_visible()

        fleet.locator("button.mirror-tile", has_text="lamp").press("Enter")
        expect(fleet.locator(".mirror-widget").get_by_role("heading")).to_have_text("lamp")
        notebook.page.screenshot(path=tmp_path / "notebook.png")
    finally:
        notebook.close()
