"""The fleet table in JupyterLab, in a real browser, including the table that all widgets share."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect
from process_lab import START_SECONDS, Lab
from process_notebook import Notebook, shared_page
from process_server import wait_for

pytestmark = [pytest.mark.process, pytest.mark.browser]

NASTY = "<img src=x onerror=alert(1)>"
ODD = ['"quoted', "=1+1", "-1+cmd|'/C calc'!A0", "-1.5 Cel", "plain"]
SET_UP = f"""
import pathlib, time
from mirror_sdk import Simulator, MirrorClient
from mirror_sdk.widgets import FleetTable
client = MirrorClient.from_env()
simulator = Simulator(client)
known = {{device.endpoint_name for device in client.devices.list()}}
def add(name, value):
    if name not in known:
        device = simulator.add_device(name, [{{"path": "/3303/0/5700", "value": str(value)}}], endpoint_type="Tested")
        client.devices.update(device, attributes={{"room": "hall" if value % 2 else "roof"}})
        client.read_value(device, "/3303/0/5700")
for number in range(40):
    add(f"tested-{{number:02}}", number)
for name in {ODD!r}:
    add(name + " copied", 40)
add({NASTY!r}, 40)
def wait_for(name):
    while not (pathlib.Path.cwd().parent / name).exists():
        time.sleep(0.1)
"""
CELLS = (
    SET_UP,
    "fleet = FleetTable(client, keep_previous=True)\nfleet",
    "print('selected:', sorted(fleet.selected['endpoint_name']))",
)
# The headings of the columns that are completely inside the widget.
HEADINGS_IN_VIEW = """widget => [...widget.querySelectorAll(".ag-header-cell")].filter((cell) => {
    const { left, right, width } = cell.getBoundingClientRect(), outer = widget.getBoundingClientRect();
    return width > 0 && left >= outer.left - 1 && right <= outer.right + 1;
}).map((cell) => cell.querySelector(".ag-header-cell-text")?.textContent).filter(Boolean)"""
# What is wider than its place: a heading, or the widget itself.
CUT = """widget => [widget, ...widget.querySelectorAll(".ag-header-cell-text")]
    .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.textContent.slice(0, 40))"""
IS_OPEN, IS_SEEN = "the page of the fleet is open", "the page shows the new device"
BUSY = (
    SET_UP,
    f"""
fleet = FleetTable(client, live=False, view={{"search": "late"}}, keep_previous=True)
display(fleet)
wait_for({IS_OPEN!r})
add("late", 1)
fleet.model.load()
fleet.refresh()
wait_for({IS_SEEN!r})
""",
)


def table(notebook: Notebook) -> Locator:
    return notebook.widget().get_by_role("grid", name="Fleet", exact=True)


def opened(lab: Lab, browser: Browser, cells: tuple[str, ...]) -> Iterator[Notebook]:
    notebook = Notebook(lab, browser, cells)
    expect(table(notebook)).to_be_visible(timeout=60_000)
    yield notebook
    notebook.close()


@pytest.fixture
def notebook(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    yield from opened(lab, browser, CELLS)


def first(of: Locator) -> Locator:
    return of.locator('[row-index="0"] [col-id="name"]')


def test_devices_are_searched_sorted_selected_and_copied(notebook: Notebook) -> None:
    page, widget, grid = notebook.page, notebook.widget(), table(notebook)
    count = widget.locator(".mirror-count").first
    notebook.wait_for_the_cells()
    search = widget.get_by_role("searchbox", name="Search in Fleet")
    search.fill("<img")
    expect(grid.get_by_text(NASTY)).to_be_visible()
    search.fill("tested-3")
    expect(count).to_contain_text("10 of ")
    # Letters and arrows are handled by the widget, not by JupyterLab.
    search.press("d")
    search.press("d")
    expect(count).to_contain_text("no row matches")
    search.fill("tested-3")
    heading = grid.get_by_role("columnheader", name="Device")
    heading.click()
    heading.click()
    expect(heading).to_have_attribute("aria-sort", "descending")
    expect(first(grid)).to_have_text("tested-39")
    first(grid).click()
    expect(count).to_contain_text("1 selected")
    # With the focus on a cell, a letter would be a command that changes the notebook.
    notebook.keys("b", "ArrowDown", "ArrowRight", "Space")
    expect(count).to_contain_text("2 selected")
    notebook.run(2)
    expect(notebook.cell(2)).to_contain_text("selected: ['tested-38', 'tested-39']")
    page.context.grant_permissions(["clipboard-read"])
    grid.get_by_text("tested-38").focus()
    notebook.keys("Control+c")

    def names() -> list[str]:
        cells = csv.reader(io.StringIO(page.evaluate("navigator.clipboard.readText()")), "excel-tab")
        return [row[0] for row in cells]

    wait_for(["Device", "tested-39", "tested-38"], names)
    search.fill("copied")
    widget.get_by_role("button", name="Clear the selection").click()
    expect(count).to_contain_text("5 of ")
    widget.get_by_role("button", name="Copy rows").click()
    expect(count).to_have_text("5 rows copied")
    expected = ["'-1+cmd|'/C calc'!A0", "'=1+1", '"quoted', "-1.5 Cel", "plain"]
    assert sorted(names()) == sorted(["Device", *(f"{name} copied" for name in expected)])
    assert page.locator(".jp-CodeCell").count() == len(CELLS)
    assert notebook.wrong == []


def test_columns_that_matter_are_in_view_next_to_the_side_bar(notebook: Notebook) -> None:
    page, widget, grid = notebook.page, notebook.widget(), table(notebook)
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(first(grid)).to_be_visible()
    headings = ["Device", "Status", "Value", "Last 24 h", "Last contact", "Failed", "Drifting", "Pending", "Stale"]
    # The table follows the size of the page in several steps.
    wait_for(sorted(headings), lambda: sorted(widget.evaluate(HEADINGS_IN_VIEW)))
    wait_for([], lambda: widget.evaluate(CUT))
    page.set_viewport_size({"width": 1400, "height": 1100})


def test_devices_are_grouped_filtered_and_opened(notebook: Notebook) -> None:
    widget, grid = notebook.widget(), table(notebook)
    notebook.wait_for_the_cells()
    widget.get_by_role("searchbox", name="Search in Fleet").fill("tested-0")
    widget.get_by_label("Group by").select_option(label="room")
    for room in ("hall", "roof"):
        expect(grid.get_by_role("button", name=f"{room} 5")).to_be_visible()
    grid.get_by_role("button", name="hall 5").click()
    expect(grid.get_by_text("tested-01", exact=True)).to_have_count(0)
    widget.get_by_role("group", name="Devices by status").get_by_role("button", name="In sync").click()
    expect(grid.get_by_text("tested-02", exact=True)).to_be_visible()
    grid.get_by_text("tested-02", exact=True).dblclick()
    expect(widget.get_by_role("heading", name="tested-02")).to_be_visible()
    value = widget.get_by_role("grid", name="Resources").locator('[row-id="/3303/0/5700"] [col-id="value"]')
    expect(value).to_have_text("2")
    value.click()
    expect(widget.get_by_role("region", name="Temperature · Sensor Value", exact=True)).to_contain_text("/3303/0/5700")
    widget.get_by_role("button", name="Close the device").click()
    expect(widget.get_by_role("heading", name="tested-02")).to_have_count(0)
    assert notebook.wrong == []


@pytest.fixture
def on_a_slow_page(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    page = shared_page(lab, browser)
    page.evaluate(
        "window.timeout = AbortSignal.timeout; AbortSignal.timeout = () => window.timeout.call(AbortSignal, 0)"
    )
    yield from opened(lab, browser, CELLS)
    page.evaluate("AbortSignal.timeout = window.timeout")


def test_table_that_anywidget_gave_up_receives_rows_and_sends_intents(on_a_slow_page: Notebook) -> None:
    grid = table(on_a_slow_page)
    on_a_slow_page.wait_for_the_cells()
    on_a_slow_page.widget().get_by_role("searchbox", name="Search in Fleet").fill("tested-07")
    expect(first(grid)).to_have_text("tested-07")
    first(grid).click()
    expect(on_a_slow_page.widget().get_by_role("button", name="Subscribe")).to_be_visible()
    on_a_slow_page.run(2)
    expect(on_a_slow_page.cell(2)).to_contain_text("selected: ['tested-07']")


@pytest.fixture
def busy(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    yield from opened(lab, browser, BUSY)


def test_devices_arrive_while_the_kernel_is_busy_and_on_another_page(busy: Notebook, lab: Lab) -> None:
    # A kernel that runs a cell is not notified that the page is open.
    (lab.folder / IS_OPEN).touch()
    expect(table(busy).get_by_text("late", exact=True)).to_be_visible(timeout=START_SECONDS * 1000)
    (lab.folder / IS_SEEN).touch()
    busy.wait_for_the_cells()
    other = busy.other_page()
    there = other.get_by_role("grid", name="Fleet", exact=True)
    there.get_by_text("late", exact=True).click()
    expect(busy.widget().locator(".mirror-count").first).to_contain_text("1 selected")
    assert busy.wrong == []
