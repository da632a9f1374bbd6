"""The widgets in JupyterLab, in a real browser: used with mouse and keyboard, while real events come."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect
from process_lab import Lab
from process_notebook import Notebook
from process_server import wait_until
from resource_paths import LEVEL, TEMPERATURE

pytestmark = [pytest.mark.process, pytest.mark.browser]

NASTY = "<img src=x onerror=alert(1)>"
SET_UP = f"""
from mirror_sdk import Simulator, MirrorClient
from mirror_sdk.widgets import EventWatcher, Explorer, FleetTable
client = MirrorClient.from_env()
simulator = Simulator(client)
def add(name):
    return simulator.add_device(name, [
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


def grid(widget: Locator, name: str) -> Locator:
    return widget.get_by_role("grid", name=name, exact=True)


def cell(of: Locator, key: str, column: str) -> Locator:
    return of.locator(f'[row-id="{key}"] [col-id="{column}"]')


def named(of: Locator, name: str) -> Locator:
    """The cell of the column of names with exactly this name."""
    return of.locator('[col-id="name"]').get_by_text(name, exact=True)


def test_the_explorer_with_the_keyboard_alone_and_with_the_mouse(open_notebook: Any) -> None:
    notebook = open_notebook(
        "ids = [add('key-a'), add('key-b')]\nexplorer = Explorer(client); explorer",
        "print(sorted(explorer.selected['path']), *set(explorer.selected['endpoint_name']))",
    )
    notebook.wait_for_the_cells()
    widget = notebook.widget()
    resources = grid(widget, "Resources")
    widget.get_by_label("Search in Devices").focus()
    notebook.page.keyboard.type("key-")
    expect(widget).to_contain_text(re.compile(r"2 of [\d,]+ rows"))
    notebook.tab_to("Device")
    notebook.keys("ArrowDown", "ArrowDown", "Space")
    expect(widget.get_by_role("heading")).to_have_text("key-b")
    expect(cell(resources, TEMPERATURE, "path")).to_be_visible()
    notebook.tab_to("Search in Resources")
    notebook.tab_to("Resource")
    notebook.keys("ArrowDown", "Space", "ArrowDown", "Space")
    expect(widget).to_contain_text("2 resources selected")
    widget.get_by_role("button", name="Read", exact=True).press("Enter")
    expect(cell(resources, TEMPERATURE, "value")).to_have_text("21.5")
    # JupyterLab took no key for its own.
    assert notebook.page.locator(".jp-CodeCell").count() == 3

    named(grid(widget, "Devices"), "key-a").click()
    expect(widget.get_by_role("heading")).to_have_text("key-a")
    cell(resources, "/10250/0/1", "path").click()
    expect(widget).to_contain_text("1 resource selected")
    widget.get_by_role("button", name="Read", exact=True).click()
    expect(cell(resources, "/10250/0/1", "value")).to_have_text(NASTY)
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("['/10250/0/1'] key-a")
    widget.get_by_role("button", name="Subscribe", exact=True).click()
    expect(widget.get_by_role("alert")).to_contain_text(re.compile("Subscribing /10250/0/1 of key-a: .*NOT_OBSERVABLE"))
    widget.get_by_role("button", name="Dismiss").click()
    expect(widget.get_by_role("alert")).to_have_count(0)
    # A click on a button may come before a choice that is still on its way.
    for path, told in (("/10250/0/1", "Select resources"), (LEVEL, "1 resource selected")):
        cell(resources, path, "path").click()
        expect(widget).to_contain_text(told)
    widget.get_by_role("button", name="Write …").click()
    panel = widget.locator(".mirror-widget")
    expect(panel.get_by_label("Resource", exact=True)).to_have_value(re.compile(LEVEL))
    assert notebook.wrong == []


def test_the_watcher_with_mouse_and_keyboard_also_while_a_cell_runs(open_notebook: Any, lab: Lab) -> None:
    is_seen = lab.folder / "seen while a cell runs"
    notebook = open_notebook(
        f"device = add('watched'); client.subscribe(device, '{TEMPERATURE}')\n"
        f"simulator.set_value(device, '{TEMPERATURE}', 39)\n"
        f"watcher = EventWatcher(client, devices=['watched'])\nwatcher",
        f"simulator.set_value(device, '{TEMPERATURE}', 40.5)",
        "import pathlib, time\n"
        "for number in range(600):\n"
        f"    simulator.set_value(device, '{TEMPERATURE}', 52 + number % 2); time.sleep(1)\n"
        f"    if pathlib.Path('{is_seen}').exists():\n        break\n"
        "print('the cell is done')",
        f"simulator.set_value(device, '{TEMPERATURE}', 77)",
    )
    widget = notebook.widget()
    table = widget.get_by_role("treegrid").or_(widget.get_by_role("grid")).last
    # Earlier events are there too, and the cell runs until they were seen.
    expect(table.get_by_role("gridcell", name="39", exact=True).first).to_be_visible()
    expect(table.get_by_role("gridcell", name="52", exact=True).first).to_be_visible()
    assert notebook.page.get_by_text("the cell is done", exact=True).count() == 0
    is_seen.touch()
    expect(table.get_by_role("gridcell", name="77", exact=True).first).to_be_visible()
    page, plot = notebook.page, widget.locator(".mirror-time-plot")
    expect(plot).to_be_visible(timeout=60_000)
    plot.scroll_into_view_if_needed()
    # A zoom with the mouse stays, also when something comes.
    area = plot.locator(".nsewdrag").first.bounding_box()
    assert area is not None
    page.mouse.move(area["x"] + area["width"] / 4, area["y"] + area["height"] / 2)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] / 2, area["y"] + area["height"] / 2, steps=5)
    page.mouse.up()
    expect(widget.get_by_role("button", name="Follow", exact=True)).to_be_visible()
    zoomed = plot.locator(".xaxislayer-above").text_content()
    notebook.run(2)
    expect(widget).to_contain_text("40.5")
    assert plot.locator(".xaxislayer-above").text_content() == zoomed
    widget.get_by_role("button", name="Zoom out").press("Enter")
    widget.get_by_role("button", name="All", exact=True).press("Space")
    expect(widget.get_by_role("button", name="✓ Follow")).to_be_visible()
    wait_until(lambda: plot.locator(".xaxislayer-above").text_content() != zoomed, "another time axis")

    widget.get_by_role("button", name="Pause").click()
    expect(widget.get_by_role("button", name="Resume")).to_be_visible()
    notebook.run(4)
    expect(widget).to_contain_text("paused: 1 new")
    widget.get_by_role("button", name="Resume").press("Space")
    expect(widget).not_to_contain_text("paused")

    assert notebook.wrong == []


COUNTING = "runs = globals().get('runs', 0) + 1; print(f'run {runs}.')"
"""A cell that prints how often it ran."""


def rerun(notebook: Notebook, cell: int) -> None:
    """Run this cell once more, and wait for its output."""
    output = notebook.cell(cell).locator(".jp-OutputArea-output")
    number = re.search(r"\d+", output.text_content() or "")
    assert number is not None
    notebook.run(cell)
    expect(output).to_contain_text(f"run {int(number[0]) + 1}.")


COUNTED = re.compile(r"events/s · ([\d,]+) events")


def test_kernel_and_page_respond_at_a_thousand_events_a_second(open_notebook: Any, lab: Lab) -> None:
    is_responsive = lab.folder / "both respond"
    flood = f"""
import pathlib, threading, time
from datetime import UTC, datetime
from mirror_sdk import Event, EventKind
from mirror_sdk.values import decode
from mirror_sdk.widgets.feed import feed_of
is_responsive = pathlib.Path("{is_responsive}")
def flood():
    for number in range(300_000):
        if number % 1000 == 0 and is_responsive.exists():
            break
        value = decode(str(number % 97).encode(), "text/plain", "/3303/0/5700")
        feed_of(client)._publish(Event(kind=EventKind.OBSERVATION, received_at=datetime.now(UTC), seq=number,
                                      device_id=f"d{{number % 4}}", path="/3303/0/5700", value=value))
        time.sleep(0.001)
threading.Thread(target=flood, daemon=True).start()
"""
    notebook = open_notebook("EventWatcher(client)", flood, COUNTING)
    widget = notebook.widget()

    def has_counted(enough: int) -> bool:
        found = COUNTED.search(widget.text_content() or "")
        return found is not None and int(found[1].replace(",", "")) >= enough

    for enough in (3000, 6000):
        wait_until(partial(has_counted, enough), f"{enough} events")
        rerun(notebook, 3)
    assert 4 <= widget.locator(".ag-row").count() < 60
    widget.get_by_role("button", name="Pause").click()
    expect(widget.get_by_role("button", name="Resume")).to_be_visible()
    is_responsive.touch()


def test_widgets_of_a_page_leave_no_module_in_the_state_that_a_notebook_stores(open_notebook: Any) -> None:
    state = "len(json.dumps(ipywidgets.Widget.get_manager_state()))"
    notebook = open_notebook(
        "watcher = EventWatcher(client)\nwatcher",
        f"import ipywidgets, json, time\nfor _ in range(600):\n    if {state} < 500_000:\n        break\n"
        "    time.sleep(0.1)  # The page empties it when it has loaded the module.\n"
        f"print('small' if {state} < 500_000 else 'large')",
    )
    expect(notebook.widget().get_by_role("grid").last).to_be_visible()
    expect(notebook.cell(2)).to_contain_text("small")
