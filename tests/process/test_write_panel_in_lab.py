"""The write panel in JupyterLab, in a real browser: a write that succeeds, one that is rejected, by mouse and keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect
from process_lab import Lab
from process_notebook import Notebook
from process_server import wait_until

pytestmark = [pytest.mark.process, pytest.mark.browser]

LEVEL, SWITCH = "/3311/0/5851", "/3311/0/5850"
SET_UP = f"""
from mirror_sdk import Bench, MirrorClient
from mirror_sdk.widgets import WritePanel
client = MirrorClient.from_env()
bench = Bench(client)
def add(name):
    device_id = bench.add_device(name, [
        {{"path": "{LEVEL}", "value": "10", "observable": True, "writable": True}},
        {{"path": "{SWITCH}", "value": "0", "observable": True, "writable": True}},
    ])
    client.read_value(device_id, "{LEVEL}")
    return device_id
"""


@pytest.fixture
def open_panel(lab: Lab, browser: Browser) -> Iterator[Any]:
    opened: list[Notebook] = []

    def make(*cells: str, **options: Any) -> tuple[Notebook, Locator]:
        notebook = Notebook(lab, browser, (SET_UP, *cells), **options)
        opened.append(notebook)
        notebook.wait_for_the_cells()
        panel = notebook.widget()
        expect(panel.get_by_role("button", name="Preview")).to_be_visible(timeout=60_000)
        return notebook, panel

    yield make
    for one in opened:
        one.close()


def line(panel: Locator, device: str) -> Locator:
    """The row of a device."""
    return panel.locator("tbody tr").filter(has=panel.page.get_by_role("rowheader", name=device, exact=True))


def test_a_value_is_written_and_another_rejected_with_the_mouse(open_panel: Any, tmp_path: Path) -> None:
    notebook, panel = open_panel(
        "add('mouse-a'); stubborn = add('mouse-b'); bench.set_answer(stubborn, 'reject')\n"
        "panel = WritePanel(client, canary=0)\npanel",
        "print(panel.result[['status', 'category']].to_string())",
    )
    apply = panel.get_by_role("button", name=re.compile("^Apply"))
    panel.get_by_label("Search").fill("mouse")
    panel.get_by_role("button", name="Pick all found").click()
    panel.get_by_label("Resource").select_option(f"{LEVEL} · Light Control · Dimmer")
    expect(panel.get_by_label("Value")).to_have_value("10")
    panel.get_by_label("Value").fill("40")
    expect(apply).to_be_disabled()
    panel.get_by_role("button", name="Preview").click()
    expect(panel).to_contain_text("Preview: 2 to write. Nothing was sent yet.")
    expect(line(panel, "mouse-a")).to_contain_text("10 %")
    expect(line(panel, "mouse-a")).to_contain_text("40 %")

    panel.get_by_label("Value").fill("60")
    panel.get_by_label("Search").click()
    expect(panel).to_contain_text("The input changed since this preview")
    expect(apply).to_be_disabled()
    panel.get_by_role("button", name="Preview").click()
    expect(line(panel, "mouse-a")).to_contain_text("60 %")
    apply.click()
    expect(line(panel, "mouse-a")).to_contain_text("✓ success")
    expect(line(panel, "mouse-b")).to_contain_text("✗ failure · REJECTED: the device refused")
    expect(panel).to_contain_text("Done: 2 of 2 writes ended, 1 with success, 1 with failure.")
    expect(apply).to_be_disabled()
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("REJECTED")

    panel.get_by_role("button", name="Undo").click()
    expect(panel.get_by_role("table")).to_contain_text("The way back")
    panel.get_by_role("button", name="Apply the way back (1)").click()
    expect(panel).to_contain_text("Done: 1 of 1 write ended, 1 with success.")
    panel.screenshot(path=tmp_path / "panel.png")
    assert notebook.wrong == []


def test_the_same_with_the_keyboard_alone(open_panel: Any) -> None:
    notebook, panel = open_panel(
        "ids = [add('typed-a'), add('typed-b')]; bench.set_answer(ids[1], 'reject')\n"
        "panel = WritePanel(client, ids, canary=0)\npanel"
    )
    panel.get_by_label("Search").focus()
    expect(panel).to_contain_text("listed is what typed-a has")
    notebook.tab_to("typed-b")
    notebook.keys("Space")
    expect(panel).to_contain_text("1 of 2 devices picked")
    notebook.keys("Space")
    notebook.tab_to("Path")
    notebook.page.keyboard.type(LEVEL)
    notebook.keys("Enter")
    expect(panel.get_by_label("Value")).to_have_value("10")
    notebook.tab_to("Value")
    notebook.keys("Control+a")
    notebook.page.keyboard.type("55")
    notebook.tab_to("Preview")
    notebook.keys("Enter")
    expect(panel).to_contain_text("Preview: 2 to write")
    assert notebook.focused == "Preview"
    notebook.tab_to("Apply")
    notebook.keys("Space")
    expect(line(panel, "typed-a")).to_contain_text("✓ success")
    expect(line(panel, "typed-b")).to_contain_text("✗ failure · REJECTED")
    notebook.tab_to("Undo")
    notebook.keys("Enter")
    expect(panel).to_contain_text("Preview: 1 to write")
    assert notebook.wrong == []


def test_a_write_that_waits_is_seen_and_stopped(open_panel: Any) -> None:
    notebook, panel = open_panel(
        "sleeper = add('asleep'); bench.set_online(sleeper, False); other = add('later')\n"
        "panel = WritePanel(client, [sleeper, other])\npanel",
        "is_again = 'is_again' in globals()\nif is_again: bench.set_online(sleeper, True)",
    )
    expect(panel).to_contain_text("2 of 2 devices picked")
    panel.get_by_label("Resource").select_option(f"{SWITCH} · Light Control · On/Off")
    panel.get_by_role("checkbox", name="Value: true").check()
    panel.get_by_role("button", name="Preview").click()
    panel.get_by_role("button", name="Apply (2)").click()
    expect(line(panel, "asleep")).to_contain_text("… pending")
    expect(line(panel, "later")).to_contain_text("waits its turn")
    panel.get_by_role("button", name="Stop").click()
    expect(panel).to_contain_text("Stopped: 0 of 2 writes ended, 1 without an answer yet.")
    expect(line(panel, "later")).to_contain_text("not sent")
    notebook.run(2)
    expect(line(panel, "asleep")).to_contain_text("✓ success")
    assert notebook.wrong == []


def test_a_cell_that_runs_again_stops_what_its_panel_was_writing(open_panel: Any) -> None:
    notebook, panel = open_panel(
        "ids = globals().get('ids') or [add('gone'), add('after')]; bench.set_online(ids[0], False)\n"
        "made = [*globals().get('made', []), WritePanel(client, ids)]\nmade[-1]",
        "print(*made[0].result['status'], [one.is_running for one in made], client.status().watches)",
    )
    panel.get_by_label("Resource").select_option(f"{LEVEL} · Light Control · Dimmer")
    expect(panel.get_by_label("Value")).to_have_value("10")
    panel.get_by_label("Value").fill("77")
    panel.get_by_role("button", name="Preview").click()
    panel.get_by_role("button", name="Apply (2)").click()
    expect(line(panel, "gone")).to_contain_text("… pending")
    notebook.run(1)
    expect(panel).to_contain_text("choose a resource")
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("pending queued [False, True] 1")


def test_the_panel_takes_the_colours_of_the_page(open_panel: Any, tmp_path: Path) -> None:
    notebook, panel = open_panel("WritePanel(client, [add('coloured')])")
    panel.get_by_label("Resource").select_option(f"{LEVEL} · Light Control · Dimmer")
    expect(panel.get_by_label("Value")).to_have_value("10")
    panel.get_by_label("Value").fill("20")
    panel.get_by_role("button", name="Preview").click()
    cell = line(panel, "coloured").locator("td").last
    expect(cell).to_contain_text("to write")

    def brightness() -> float:
        colour = cell.evaluate("element => getComputedStyle(element).color")
        return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3

    for theme, is_dark in [("JupyterLab Dark", True), ("JupyterLab Light", False)]:
        notebook.choose("Settings", "Theme", theme)
        wait_until(lambda is_dark=is_dark: (brightness() > 128) is is_dark, f"text for {theme}", 20)
        panel.screenshot(path=tmp_path / f"{theme}.png")
