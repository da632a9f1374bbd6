"""The widgets in JupyterLab, in a real browser: used with mouse and keyboard, while real events come."""

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

TEMPERATURE, SWITCH, LEVEL = "/3303/0/5700", "/3311/0/5850", "/3311/0/5851"
NASTY = "<img src=x onerror=alert(1)>"
SET_UP = f"""
from mirror_sdk import Bench, MirrorClient
from mirror_sdk.widgets import EventWatcher, Explorer, FleetMap
client = MirrorClient.from_env()
bench = Bench(client)
def add(name):
    return bench.add_device(name, [
        {{"path": "{TEMPERATURE}", "value": "21.5", "observable": True}},
        {{"path": "{LEVEL}", "value": "10", "observable": True, "writable": True}},
        {{"path": "/10250/0/1", "value": {NASTY!r}}},
    ])
"""


@pytest.fixture
def open_notebook(lab: Lab, browser: Browser) -> Iterator[Any]:
    opened: list[Notebook] = []

    def make(*cells: str) -> Notebook:
        opened.append(Notebook(lab, browser, (SET_UP, *cells)))
        expect(opened[-1].widget()).to_be_visible(timeout=60_000)
        return opened[-1]

    yield make
    for one in opened:
        one.close()


def resource(widget: Locator, path: str) -> Locator:
    return widget.locator(".mirror-lines > *", has_text=path)


def test_the_explorer_with_mouse_and_keyboard(open_notebook: Any, tmp_path: Path) -> None:
    notebook = open_notebook("add('explored')\nExplorer(client)")
    widget = notebook.widget()
    widget.get_by_role("button", name="○ explored").click()
    row = resource(widget, TEMPERATURE)
    expect(row).to_contain_text("no value yet")
    row.get_by_role("button", name="Read").click()
    expect(row).to_contain_text("21.5")
    expect(resource(widget, "/10250/0/1")).to_be_visible()
    resource(widget, "/10250/0/1").get_by_role("button", name="Read").click()
    expect(resource(widget, "/10250/0/1")).to_contain_text(NASTY)

    row.get_by_role("button", name="Read").focus()
    notebook.keys("Tab")
    subscribe = row.get_by_role("button", name="Subscribe")
    assert notebook.has_focus(subscribe)
    notebook.keys("Enter")
    unsubscribe = row.get_by_role("button", name="Unsubscribe")
    expect(unsubscribe).to_be_visible()
    expect(row).to_contain_text("subscribed")
    assert notebook.has_focus(unsubscribe)
    resource(widget, "/10250/0/1").get_by_role("button", name="Subscribe").press("Space")
    expect(widget.get_by_role("alert")).to_contain_text("NOT_OBSERVABLE")
    widget.get_by_role("button", name="Dismiss").click()
    expect(widget.get_by_role("alert")).to_have_count(0)
    widget.screenshot(path=tmp_path / "explorer.png")
    assert notebook.wrong == []


def test_the_explorer_with_the_keyboard_alone(open_notebook: Any) -> None:
    notebook = open_notebook("ids = [add('key-a'), add('key-b'), add('other')]\nExplorer(client)")
    notebook.wait_for_the_cells()
    widget = notebook.widget()
    widget.get_by_label("Search").focus()
    notebook.page.keyboard.type("key-")
    expect(widget).to_contain_text("2 of ")
    notebook.tab_to("Type")
    notebook.page.keyboard.type("no such")
    expect(widget).to_contain_text("0 of ")
    notebook.keys("Control+a", "Delete")
    expect(widget).to_contain_text("2 of ")
    notebook.tab_to("registered")
    notebook.keys("Space")
    expect(widget.get_by_role("button", name="● registered")).to_be_focused()
    notebook.tab_to("key-b")
    notebook.keys("Enter")
    expect(widget.get_by_role("heading")).to_have_text("key-b")
    expect(widget.get_by_role("button", name="● key-b")).to_be_focused()
    notebook.tab_to("Filter")
    notebook.page.keyboard.type("temper")
    expect(widget.get_by_role("button", name="Read", exact=True)).to_have_count(1)
    notebook.tab_to("Read")
    if notebook.focused == "Read the directory again":
        notebook.tab_to("Read")
    notebook.keys("Enter")
    expect(resource(widget, TEMPERATURE)).to_contain_text("21.5")
    # JupyterLab took no key for its own.
    assert notebook.page.locator(".jp-CodeCell").count() == 2
    assert notebook.wrong == []


def test_the_explorer_shows_what_changes_by_itself(open_notebook: Any) -> None:
    notebook = open_notebook(
        f"device = add('changing'); client.subscribe(device, '{TEMPERATURE}')\nExplorer(client, device)",
        f"bench.set_value(device, '{TEMPERATURE}', 33.25)",
    )
    expect(resource(notebook.widget(), TEMPERATURE)).to_contain_text("33.25")


def test_the_watcher_with_mouse_and_keyboard_also_while_a_cell_runs(open_notebook: Any, lab: Lab) -> None:
    notebook = open_notebook(
        f"device = add('watched'); client.subscribe(device, '{TEMPERATURE}')\n"
        f"watcher = EventWatcher(client, devices=['watched'])\nwatcher",
        f"bench.set_value(device, '{TEMPERATURE}', 40.5)",
        "import time\n"
        f"for number in range(50, 56):\n    bench.set_value(device, '{TEMPERATURE}', number); time.sleep(1)\n"
        "print('the cell is done')",
        f"bench.set_value(device, '{TEMPERATURE}', 77)",
    )
    widget = notebook.widget()
    table = widget.locator("table")
    # The cell that takes six seconds is still running.
    expect(table).to_contain_text("52.0")
    assert notebook.page.get_by_text("the cell is done", exact=True).count() == 0
    expect(table).to_contain_text("77.0")
    expect(widget.get_by_role("img", name=re.compile("watched .* to 77"))).to_be_visible()

    widget.get_by_role("button", name=re.compile("☑ watched")).press("Enter")
    expect(widget.get_by_role("button", name="Pause")).to_be_visible()
    widget.get_by_role("button", name="Pause").click()
    expect(widget.get_by_role("button", name="Resume")).to_be_visible()
    notebook.run(2)
    expect(widget).to_contain_text("paused: 1 new")
    expect(table.locator("tbody tr").first).to_contain_text("77.0")
    widget.get_by_role("button", name="Resume").press("Space")
    expect(table.locator("tbody tr").first).to_contain_text("40.5")

    widget.get_by_label("File").fill("seen.parquet")
    notebook.keys("Tab", "Enter")
    expect(widget).to_contain_text("events in")
    assert (lab.folder / "mirror-notebooks" / "seen.parquet").stat().st_size > 1000
    notebook.keys("Enter")
    expect(widget.get_by_role("alert")).to_contain_text("File exists")
    widget.get_by_role("button", name="Clear").click()
    expect(widget).to_contain_text("No event yet")
    assert notebook.wrong == []


def test_a_thousand_events_a_second_leave_kernel_and_page_responsive(open_notebook: Any) -> None:
    flood = """
import threading, time
from datetime import UTC, datetime
from mirror_sdk import Event, EventKind
from mirror_sdk.values import decode
from mirror_sdk.widgets.feed import feed_of
def flood():
    began = time.monotonic()
    for number in range(10_000):
        value = decode(str(number % 97).encode(), "text/plain", "/3303/0/5700")
        feed_of(client)._spread(Event(kind=EventKind.OBSERVATION, received_at=datetime.now(UTC), seq=number,
                                      device_id=f"d{number % 4}", path="/3303/0/5700", value=value))
        time.sleep(max(0, began + number / 1000 - time.monotonic()))
threading.Thread(target=flood, daemon=True).start()
"""
    notebook = open_notebook("EventWatcher(client)", flood, "print('answer', 6 * 7)")
    widget = notebook.widget()
    expect(widget).to_contain_text(re.compile(r"[89]\d\d\.\d events/s|1,0\d\d\.\d events/s"))
    notebook.page.evaluate(
        "() => { window.late = 0; let last = performance.now();"
        " setInterval(() => { const now = performance.now(); window.late = Math.max(window.late, now - last - 50);"
        " last = now; }, 50); }"
    )
    notebook.cell(3).get_by_role("button", name="Clear").count()
    notebook.run(3)
    expect(notebook.cell(3)).to_contain_text("answer 42", timeout=3000)
    expect(widget).to_contain_text(re.compile(r"[6-9],\d\d\d events"))
    assert notebook.page.evaluate("window.late") < 500
    assert widget.locator("tbody tr").count() == 12
    widget.get_by_role("button", name="Pause").click()
    expect(widget.get_by_role("button", name="Resume")).to_be_visible(timeout=3000)
    expect(widget).to_contain_text("10,000 events")


def test_a_tile_of_the_fleet_leads_to_the_explorer(open_notebook: Any) -> None:
    notebook = open_notebook(
        f"device = add('drifting'); client.write_value(device, '{LEVEL}', 50)\n"
        f"bench.set_value(device, '{LEVEL}', 20); client.read_value(device, '{LEVEL}'); add({NASTY!r})\n"
        "FleetMap(client)"
    )
    widget = notebook.widget()
    tile = widget.locator("button.mirror-tile", has_text="drifting")
    expect(tile.first).to_contain_text("1 drifting")
    assert notebook.page.evaluate("[...document.querySelectorAll('button.mirror-tile')][0].textContent").startswith("≠")
    notebook.wait_for_the_cells()
    widget.get_by_label("Search").focus()
    notebook.tab_to("○ drifting")
    notebook.keys("Enter")
    expect(widget.locator("button.mirror-tile:visible")).to_have_count(1)
    expect(widget.get_by_role("button", name="● drifting")).to_be_focused()
    notebook.tab_to("1 drifting")
    assert notebook.has_focus(tile.first)
    notebook.keys("Enter")
    explorer = widget.locator(".mirror-widget")
    expect(resource(explorer, LEVEL)).to_contain_text("≠ differs")
    expect(explorer.get_by_label("Filter")).to_be_focused()
    widget.get_by_role("button", name="all devices").click()
    widget.locator("button.mirror-tile", has_text="onerror").click()
    expect(explorer.get_by_role("heading")).to_have_text(NASTY)
    assert notebook.wrong == []


def test_a_report_older_than_the_write_is_told_in_words_and_is_no_drift(open_notebook: Any, tmp_path: Path) -> None:
    notebook = open_notebook(
        f"device = add('taken'); client.read_value(device, '{LEVEL}'); client.write_value(device, '{LEVEL}', 50)\n"
        "fleet = FleetMap(client); fleet.show_device(device); fleet"
    )
    widget = notebook.widget()
    expect(widget.locator("button.mirror-tile", has_text="taken").first).to_have_text(
        re.compile("✓ taken\\s+1 unconfirmed")
    )
    row = resource(widget.locator(".mirror-widget"), LEVEL)
    expect(row).to_contain_text("? unconfirmed")
    words = "The device took 50; the last report, "
    expect(row.locator("[title*=unconfirmed]")).to_have_attribute("title", re.compile(words))
    widget.screenshot(path=tmp_path / "unconfirmed.png")
    row.get_by_role("button", name="Read").click()
    expect(row).not_to_contain_text("unconfirmed")
    assert notebook.wrong == []


def test_a_cell_that_runs_again_leaves_one_widget_and_one_poller(open_notebook: Any) -> None:
    notebook = open_notebook(
        "client = MirrorClient.from_env(); made = [*globals().get('made', []), Explorer(client)]\nmade[-1]",
        "import threading; print([one.is_running for one in made], client.status().watches)",
    )
    expect(notebook.cell(2)).to_contain_text("[True]")
    notebook.run(1)
    expect(notebook.widget().get_by_label("Search")).to_be_visible()
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("[False, True] 1")
    assert notebook.cell(1).locator(".mirror-widget").count() == 1


@pytest.mark.parametrize(("theme", "is_dark"), [("JupyterLab Dark", True), ("JupyterLab Light", False)])
def test_widgets_take_the_colours_of_the_page(open_notebook: Any, theme: str, is_dark: bool) -> None:
    notebook = open_notebook("Explorer(client)")
    title = notebook.widget().get_by_role("heading")
    expect(title).to_be_visible()
    notebook.choose("Settings", "Theme", theme)
    page, threshold = notebook.page, 128

    def is_light() -> bool:
        colour = page.evaluate("element => getComputedStyle(element).color", title.element_handle())
        return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3 > threshold

    wait_until(lambda: is_light() is is_dark, f"text for {theme}", 20)
