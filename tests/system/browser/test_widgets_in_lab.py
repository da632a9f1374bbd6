"""The widgets in JupyterLab, in a real browser: used with mouse and keyboard while real events arrive."""

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
    """Return the cell in the column of names with exactly this name."""
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
    expect(widget.get_by_role("heading").first).to_have_text("key-b")
    # Resources without a value are initially hidden.
    expect(cell(resources, TEMPERATURE, "name")).to_have_count(0)
    widget.get_by_role("checkbox", name=re.compile("Show 3 resources without a value")).press("Space")
    expect(cell(resources, TEMPERATURE, "name")).to_be_visible()
    notebook.tab_to("Search in Resources")
    notebook.tab_to("Resource")
    notebook.keys("ArrowDown", "ArrowDown", "Space", "ArrowDown", "ArrowDown", "Space")
    expect(widget).to_contain_text("2 selected")
    widget.get_by_role("button", name="Read", exact=True).press("Enter")
    expect(cell(resources, LEVEL, "value")).to_have_text("10 %")
    expect(cell(resources, "/10250/0/1", "value")).to_have_text(NASTY)
    # JupyterLab handled none of these keys.
    assert notebook.page.locator(".jp-CodeCell").count() == 3

    named(grid(widget, "Devices"), "key-a").click()
    expect(widget.get_by_role("heading").first).to_have_text("key-a")
    expect(widget).not_to_contain_text("2 selected")
    checkbox = cell(resources, "/10250/0/1", "ag-Grid-SelectionColumn").get_by_role("checkbox")
    checkbox.click()
    expect(widget).to_contain_text("1 selected")
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("['/10250/0/1'] key-a")
    widget.get_by_role("button", name="Subscribe", exact=True).click()
    expect(widget.get_by_role("alert")).to_contain_text(re.compile("Subscribing /10250/0/1 of key-a: .*NOT_OBSERVABLE"))
    widget.get_by_role("button", name="Dismiss").click()
    expect(widget.get_by_role("alert")).to_be_hidden()

    # A resource in the detail view is read and written without a selection.
    cell(resources, LEVEL, "name").click()
    detail = widget.get_by_role("region", name="Light Control · Dimmer", exact=True)
    detail.get_by_role("button", name="Read now").click()
    expect(detail).to_contain_text("10 %")
    detail.get_by_label("New value", exact=True).fill("101")
    expect(detail.locator(".mirror-problem")).to_contain_text("101")
    detail.get_by_label("New value", exact=True).fill("45")
    detail.get_by_role("button", name="Write").click()
    expect(cell(resources, LEVEL, "status")).to_contain_text("Unconfirmed")
    widget.get_by_role("button", name="Write…").click()
    panel = widget.get_by_role("region", name="Write", exact=True)
    expect(panel.get_by_label("Resource", exact=True)).to_have_value(re.compile("/10250/0/1"))
    assert notebook.wrong == []


def test_the_watcher_with_mouse_and_keyboard_also_while_a_cell_runs(open_notebook: Any, lab: Lab) -> None:
    is_seen = lab.folder / "seen while a cell runs"
    notebook = open_notebook(
        f"device = add('watched'); client.subscribe(device, '{TEMPERATURE}')\n"
        f"simulator.set_value(device, '{TEMPERATURE}', 39)\n"
        f"watcher = EventWatcher(client, devices=['watched'])\nwatcher",
        f"simulator.set_value(device, '{TEMPERATURE}', 40.5)",
        "import pathlib, time\n"
        # So few values that the table has a row for each of them, however long the cell runs.
        "for number in range(600):\n"
        "    if number < 4:\n"
        f"        simulator.set_value(device, '{TEMPERATURE}', 52 + number % 2)\n"
        f"    time.sleep(1)\n    if pathlib.Path('{is_seen}').exists():\n        break\n"
        "print('the cell is done')",
        f"simulator.set_value(device, '{TEMPERATURE}', 77)",
    )
    widget = notebook.widget()
    table = grid(widget, "Events")
    # Earlier events are included too, and the cell runs until they have been displayed.
    expect(table.get_by_role("gridcell", name="39", exact=True).first).to_be_visible()
    expect(table.get_by_role("gridcell", name="52", exact=True).first).to_be_visible()
    assert notebook.page.get_by_text("the cell is done", exact=True).count() == 0
    is_seen.touch()
    expect(table.get_by_role("gridcell", name="77", exact=True).first).to_be_visible()
    notebook.wait_for_the_cells()
    # Its name has the lines of the displayed range, which may have none after a zoom.
    page, plot = notebook.page, widget.get_by_role("group", name=re.compile("^Events: "))
    expect(plot).to_have_accessible_name(re.compile("watched"))
    live = widget.get_by_role("button", name="Live", exact=True)
    expect(live).to_have_attribute("aria-pressed", "true")
    plot.scroll_into_view_if_needed()
    # A zoom with the mouse stays, also when events arrive.
    area = plot.locator(".u-over").first.bounding_box()
    assert area is not None
    page.mouse.move(area["x"] + area["width"] / 4, area["y"] + area["height"] / 2)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] / 2, area["y"] + area["height"] / 2, steps=5)
    page.mouse.up()
    expect(live).to_have_attribute("aria-pressed", "false")
    chosen = widget.get_by_role("button", name=re.compile(r"^20\d\d-"))
    zoomed = chosen.text_content()
    notebook.run(2)
    expect(widget).to_contain_text("40.5")
    assert chosen.text_content() == zoomed
    widget.get_by_role("button", name="Zoom out").press("Enter")
    expect(chosen).not_to_have_text(zoomed or "")
    plot.press("0")
    expect(live).to_have_attribute("aria-pressed", "true")
    chosen.or_(widget.get_by_role("button", name="Last 1 h")).press("Enter")
    widget.get_by_role("button", name="Everything").press("Enter")
    expect(widget.get_by_role("button", name="Everything")).to_be_visible()

    # The legend shows one line only.
    line = widget.get_by_role("region", name="Legend of Events").get_by_role("button").first
    line.click()
    expect(line).to_have_attribute("aria-pressed", "true")
    line.press("Enter")
    expect(line).to_have_attribute("aria-pressed", "false")

    widget.get_by_role("button", name="Pause").click()
    expect(widget.get_by_role("button", name="Resume")).to_be_visible()
    notebook.run(4)
    expect(widget).to_contain_text("paused: 1 new")
    widget.get_by_role("button", name="Resume").press("Space")
    expect(widget).not_to_contain_text("paused")

    widget.get_by_role("button", name="Download").click()
    with page.expect_download() as downloaded:
        widget.get_by_role("menuitem", name="CSV").click()
    assert downloaded.value.suggested_filename.endswith(".csv")
    assert notebook.wrong == []


COUNTING = "runs = globals().get('runs', 0) + 1; print(f'run {runs}.')"
"""A cell that prints how often it ran."""


def rerun(notebook: Notebook, cell: int) -> None:
    """Run this cell again, and wait for its output."""
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
