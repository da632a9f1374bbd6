"""The table of the widgets in JupyterLab, in a real browser, with the event watcher and test events."""

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
SET_UP = f"""
import pathlib, time
from datetime import UTC, datetime, timedelta
from mirror_sdk import Event, EventKind, MirrorClient
from mirror_sdk.values import decode
from mirror_sdk.widgets import EventWatcher
client = MirrorClient.from_env()
start = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
names = {{3: {NASTY!r}}}
for number, name in enumerate(['"quoted', "=1+1", "-1+cmd|'/C calc'!A0", "-1.5 Cel"]):
    names[350 + number] = f"{{name}} copied"
def event(number, value=None):
    at = start + timedelta(seconds=number)
    number_of = decode(str(number if value is None else value).encode(), "text/plain", "/3303/0/5700")
    return Event(kind=EventKind.OBSERVATION, received_at=at, changed_at=at, seq=number, value=number_of,
                 device_id=names.get(number, f"device-{{number}}"), path="/3303/0/5700")
def wait_until_exists(name):
    while not (pathlib.Path.cwd().parent / name).exists():
        time.sleep(0.1)
"""
CELLS = (
    SET_UP,
    "watcher = EventWatcher(client, live=False)\nwatcher.model.clear()\n"
    "watcher.model.receive([event(number) for number in range(400)])\nwatcher.refresh()\nwatcher",
    "is_asked = 'is_asked' in globals()\nif is_asked:\n    watcher.model.receive([event(1, 5000)]); watcher.refresh()",
)
IS_OPEN, IS_SEEN = "the page is open", "the page shows the row"
BUSY = (
    SET_UP,
    f"""
late = EventWatcher(client, live=False)
late.model.clear()
late.refresh()
display(late)
wait_until_exists({IS_OPEN!r})
late.model.receive([event(7)])
late.refresh()
wait_until_exists({IS_SEEN!r})
""",
    "late.model.receive([event(8)])\nlate.refresh()",
)


@pytest.fixture
def notebook(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    opened = Notebook(lab, browser, CELLS)
    yield opened
    opened.close()


def test_a_table_and_a_field_of_names_in_a_notebook(notebook: Notebook) -> None:
    page, widget = notebook.page, notebook.widget()
    grid, count = widget.get_by_role("grid", name="Events"), widget.locator(".mirror-grid .mirror-count").last
    expect(grid).to_be_visible(timeout=60_000)
    notebook.wait_for_the_cells()
    expect(count).to_have_text("400 rows")

    search = widget.get_by_role("searchbox", name="Search in Events")
    search.fill("img src")
    expect(grid.get_by_text(NASTY)).to_be_visible()
    search.fill("device-39")
    expect(count).to_have_text("11 of 400 rows")
    # Letters and arrows are handled by the widget, not by JupyterLab.
    search.press("d")
    search.press("d")
    expect(count).to_contain_text("no row matches")
    search.fill("device-1")
    heading = grid.get_by_role("columnheader", name="Value")
    heading.click()
    expect(heading).to_have_attribute("aria-sort", "ascending")

    def first(column: str) -> Locator:
        return grid.locator(f'[row-index="0"] [col-id="{column}"]')

    expect(first("device")).to_have_text("device-1")
    first("device").click()
    # With the focus on a cell, a letter would be a command that changes the notebook.
    notebook.keys("b", "ArrowDown", "ArrowUp")
    page.context.grant_permissions(["clipboard-read"])
    notebook.keys("Control+c")
    wait_for("device-1", lambda: page.evaluate("navigator.clipboard.readText()"))

    search.fill("copied")
    expect(count).to_contain_text("4 of 400 rows")
    widget.get_by_role("button", name="Copy rows").last.click()
    expect(count).to_have_text("4 rows copied")
    cells = list(csv.DictReader(io.StringIO(page.evaluate("navigator.clipboard.readText()")), dialect="excel-tab"))
    names = ["'-1+cmd|'/C calc'!A0", "'=1+1", '"quoted', "-1.5 Cel"]
    assert sorted(row["Device"] for row in cells) == sorted(f"{name} copied" for name in names)
    assert {row["Changed at (UTC)"][:16] for row in cells} == {"2026-01-02 03:09"}

    search.fill("device-1")
    notebook.run(2)
    expect(count).to_have_text("112 of 401 rows")

    devices = widget.get_by_label("Devices")
    offered = widget.locator("datalist option")
    devices.press_sequentially("LIGHT-0")
    expect(offered.first).to_have_attribute("value", "light-01")
    devices.fill("weather")
    devices.press("Tab")
    expect(devices).to_have_value("weather-station-0")
    devices.press_sequentially("1,lig")
    devices.press("Tab")
    expect(devices).to_have_value("weather-station-01, light-0")
    devices.press_sequentially("1")
    devices.press("Tab")
    expect(devices).not_to_be_focused()
    expect(count).to_contain_text("0 rows")
    assert page.locator(".jp-CodeCell").count() == len(CELLS)
    assert notebook.wrong == []


@pytest.fixture
def on_a_slow_page(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    page = shared_page(lab, browser)
    page.evaluate(
        "window.timeout = AbortSignal.timeout; AbortSignal.timeout = () => window.timeout.call(AbortSignal, 0)"
    )
    opened = Notebook(lab, browser, CELLS)
    yield opened
    page.evaluate("AbortSignal.timeout = window.timeout")
    opened.close()


def test_table_that_anywidget_gave_up_receives_rows(on_a_slow_page: Notebook) -> None:
    on_a_slow_page.wait_for_the_cells()
    on_a_slow_page.run(2)
    # JupyterLab has only the visible cells on its page.
    on_a_slow_page.keys("ArrowUp")
    grid = on_a_slow_page.widget().get_by_role("grid", name="Events")
    expect(grid.get_by_role("gridcell", name="5000", exact=True)).to_be_visible()


@pytest.fixture
def busy(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    opened = Notebook(lab, browser, BUSY, own_page=True)
    yield opened
    opened.close()


def test_rows_while_the_kernel_is_busy_and_on_another_page(busy: Notebook, lab: Lab) -> None:
    # A kernel that runs a cell is not notified that the page is open.
    page = busy.page
    expect(busy.widget().get_by_text("No events", exact=True)).to_be_visible(timeout=START_SECONDS * 1000)
    (lab.folder / IS_OPEN).touch()
    late = page.get_by_role("grid", name="Events")
    expect(late.get_by_role("gridcell", name="device-7")).to_be_visible()
    (lab.folder / IS_SEEN).touch()
    busy.wait_for_the_cells()
    expect(late.get_by_role("gridcell", name="device-8")).to_be_visible()

    other = busy.other_page()
    expect(other.get_by_role("grid", name="Events").get_by_role("gridcell", name="device-8")).to_be_visible()
    search = other.get_by_role("searchbox", name="Search in Events")
    search.fill("device-7")
    expect(other.locator(".mirror-grid .mirror-count").last).to_have_text("1 of 2 rows")
    other.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert busy.wrong == []
