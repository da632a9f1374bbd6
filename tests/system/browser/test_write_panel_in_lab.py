"""The write panel in JupyterLab, in a real browser: a write that succeeds, one that is rejected, by mouse and keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contrast import expect_enough_contrast
from playwright.sync_api import Browser, Locator, expect
from process_lab import Lab
from process_notebook import COUNT_WATCHES, Notebook
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


def writes(panel: Locator) -> Locator:
    """The grid of the writes."""
    return panel.get_by_role("grid", name="Writes of the plan")


def line(panel: Locator, device: str) -> Locator:
    """The write to a device."""
    return writes(panel).get_by_role("row").filter(has_text=device)


def enter(panel: Locator, path: str, value: str) -> None:
    """Choose a resource that has the value 10, and type another one."""
    panel.get_by_label("Resource").fill(path)
    panel.get_by_label("Resource").press("Enter")
    expect(panel.get_by_label("Value")).to_have_value("10")
    panel.get_by_label("Value").fill(value)


def test_a_value_is_written_and_another_rejected_with_the_mouse(open_panel: Any, tmp_path: Path) -> None:
    notebook, panel = open_panel(
        "add('mouse-a'); stubborn = add('mouse-b'); bench.set_answer(stubborn, 'reject')\n"
        "panel = WritePanel(client, canary=0)\npanel",
        "print(panel.result[['status', 'category']].to_string())",
    )
    apply = panel.get_by_role("button", name=re.compile("^Apply"))
    devices = panel.get_by_role("grid", name="Devices to write to")
    panel.get_by_label("State").select_option("registered")
    panel.get_by_label("Search in Devices to write to").fill("mouse")
    expect(devices.get_by_role("row").filter(has_text="mouse")).to_have_count(2)
    devices.get_by_role("columnheader").get_by_role("checkbox").first.click()
    expect(panel).to_contain_text(re.compile(r"2 of \d+ devices picked"))
    enter(panel, LEVEL, "140")
    expect(panel).to_contain_text("takes a whole number from 0 to 100, not 140")
    panel.get_by_role("button", name="Preview").click()
    expect(panel.get_by_role("alert")).to_contain_text("No preview yet")
    panel.get_by_role("button", name="Dismiss").click()
    expect(panel.get_by_label("Value")).to_have_value("140")
    panel.get_by_label("Value").fill("40")
    expect(apply).to_be_disabled()
    panel.get_by_role("button", name="Preview").click()
    expect(panel).to_contain_text("Preview: 2 to write. Nothing was sent yet.")
    expect(line(panel, "mouse-a")).to_contain_text("10 %")
    expect(line(panel, "mouse-a")).to_contain_text("40 %")

    panel.get_by_label("Value").fill("60")
    expect(panel).to_contain_text("The input changed since this preview")
    expect(apply).to_be_disabled()
    panel.get_by_role("button", name="Preview").click()
    expect(line(panel, "mouse-a")).to_contain_text("60 %")
    apply.click()
    expect(line(panel, "mouse-a")).to_contain_text("✓ success")
    expect(line(panel, "mouse-b")).to_contain_text("✗ failed")
    expect(panel).to_contain_text("Done: 2 of 2 writes ended, 1 with success, 1 with failure.")
    expect(panel).to_contain_text("mouse-a last reported 10 %")
    expect(panel).to_contain_text("took 60 % since")
    panel.get_by_role("button", name="✗ 1 failed").click()
    expect(line(panel, "mouse-a")).to_have_count(0)
    line(panel, "mouse-b").get_by_role("gridcell").last.click()
    expect(panel).to_contain_text("mouse-b: ✗ failed. REJECTED: the device refused")
    expect(apply).to_be_disabled()
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("REJECTED")

    panel.get_by_role("button", name="Undo").click()
    expect(panel).to_contain_text("The way back")
    panel.get_by_role("button", name="Apply the way back (1)").click()
    expect(panel).to_contain_text("Done: 1 of 1 write ended, 1 with success.")
    panel.screenshot(path=tmp_path / "panel.png")
    assert notebook.wrong == []


def test_what_is_typed_stays_where_the_resources_of_a_device_come_meanwhile(open_panel: Any, lab: Lab) -> None:
    is_typed = lab.folder / "a path is typed"
    notebook, panel = open_panel(
        "import pathlib, time\n"
        "read = client.get_device\n"
        "def late(device_id):\n"
        f"    while not pathlib.Path('{is_typed}').exists():\n        time.sleep(0.1)\n"
        "    return read(device_id)\n"
        "client.get_device = late\n"
        "WritePanel(client, [add('late-a'), add('late-b')])"
    )
    resource = panel.get_by_label("Resource")
    expect(panel).to_contain_text("reading the resources of late-a")
    resource.press_sequentially(LEVEL)
    is_typed.touch()
    expect(panel).to_contain_text("listed is what late-a has")
    expect(panel.locator("datalist option")).to_have_count(2)
    expect(resource).to_have_value(LEVEL)
    resource.press("Enter")
    expect(panel.get_by_label("Value")).to_have_value("10")
    assert notebook.wrong == []


def test_the_same_with_the_keyboard_alone(open_panel: Any) -> None:
    notebook, panel = open_panel(
        "ids = [add('typed-a'), add('typed-b')]; bench.set_answer(ids[1], 'reject')\n"
        "panel = WritePanel(client, ids, canary=0)\npanel"
    )
    panel.get_by_label("Type").focus()
    expect(panel).to_contain_text("2 of 2 devices picked")
    notebook.tab_to("Search in Devices")
    notebook.page.keyboard.type("typed-b")
    notebook.tab_to("Device")
    notebook.keys("ArrowDown", "Space")
    expect(panel).to_contain_text("1 of 2 devices picked")
    notebook.keys("Space")
    expect(panel).to_contain_text("2 of 2 devices picked")
    notebook.tab_to("Resource")
    notebook.page.keyboard.type(LEVEL)
    notebook.keys("Enter")
    expect(panel.get_by_label("Value")).to_have_value("10")
    notebook.tab_to("Value")
    notebook.keys("Control+a")
    # As fast as a paste: no key is lost, and none is mended.
    notebook.page.keyboard.type("1400")
    notebook.keys("Backspace", "Backspace", "Backspace")
    notebook.page.keyboard.type("40")
    expect(panel).to_contain_text("from 0 to 100, not 140")
    expect(panel.get_by_label("Value")).to_have_value("140")
    notebook.keys("Control+a")
    notebook.page.keyboard.insert_text("55")
    notebook.tab_to("Preview")
    notebook.keys("Enter")
    expect(panel).to_contain_text("Preview: 2 to write")
    assert notebook.focused == "Preview"
    notebook.tab_to("Apply")
    notebook.keys("Space")
    expect(line(panel, "typed-a")).to_contain_text("✓ success")
    expect(line(panel, "typed-b")).to_contain_text("✗ failed")
    expect(panel.get_by_role("button", name="Undo")).to_be_enabled()
    notebook.tab_to("Undo")
    notebook.keys("Enter")
    expect(panel).to_contain_text("Preview: 1 to write")
    notebook.tab_to("→ 1 to write")
    notebook.keys("Enter")
    expect(panel.get_by_role("button", name="→ 1 to write")).to_have_class(re.compile("mod-active"))
    assert notebook.wrong == []


def test_a_write_that_waits_is_seen_and_stopped(open_panel: Any) -> None:
    notebook, panel = open_panel(
        "sleeper = add('asleep'); bench.set_online(sleeper, False); other = add('later')\n"
        "panel = WritePanel(client, [sleeper, other])\npanel",
        "is_again = 'is_again' in globals()\nif is_again: bench.set_online(sleeper, True)",
    )
    expect(panel).to_contain_text("2 of 2 devices picked")
    panel.get_by_label("Resource").fill(f"{SWITCH} · Light Control · On/Off")
    panel.get_by_label("Resource").press("Enter")
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
        f"{COUNT_WATCHES}print(*made[0].result['status'], [one.is_running for one in made], watches)",
    )
    enter(panel, LEVEL, "77")
    panel.get_by_role("button", name="Preview").click()
    panel.get_by_role("button", name="Apply (2)").click()
    expect(line(panel, "gone")).to_contain_text("… pending")
    notebook.run(1)
    expect(panel).to_contain_text("choose a resource")
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("pending queued [False, True] 1")


def test_the_panel_can_be_read_in_the_colours_of_the_page(open_panel: Any, tmp_path: Path) -> None:
    notebook, panel = open_panel("ids = [add('coloured'), bench.add_device('sensor')]\nWritePanel(client, ids)")
    enter(panel, LEVEL, "140")
    expect(panel).to_contain_text("not 140")
    panel.get_by_role("button", name="Preview").click()
    expect(panel.get_by_role("alert")).to_be_visible()
    panel.get_by_label("Value").fill("20")
    panel.get_by_role("button", name="Preview").click()
    expect(line(panel, "sensor")).to_contain_text("⊘ refused")
    panel.get_by_text("What the signs mean").click()
    cell = line(panel, "coloured").get_by_role("gridcell").first

    def brightness() -> float:
        colour = cell.evaluate("element => getComputedStyle(element).color")
        return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3

    for theme, is_dark in [("JupyterLab Dark", True), ("JupyterLab Light", False)]:
        notebook.choose("Settings", "Theme", theme)
        wait_until(lambda is_dark=is_dark: (brightness() > 128) is is_dark, f"text for {theme}")
        expect_enough_contrast(panel)
        panel.screenshot(path=tmp_path / f"{theme}.png")
