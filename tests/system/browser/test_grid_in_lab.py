"""The table of the widgets in JupyterLab, in a real browser."""

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
CELLS = (
    f"""
import ipywidgets
from datetime import UTC, datetime, timedelta
from mirror_sdk.widgets.grid import GridColumn, ColumnKind, Grid, SelectionMode
from mirror_sdk.widgets.name_field import NameField
columns = [
    GridColumn("name", "name"),
    GridColumn("level", "level (%)", ColumnKind.NUMBER, width=110),
    GridColumn("at", "changed at (UTC)", ColumnKind.TIME, width=200),
]
start = datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
def row(number, level=None):
    return {{"key": f"k{{number}}", "name": f"device-{{number}}", "level": number if level is None else level,
            "at": start + timedelta(seconds=number), "tones": {{"level": "bad" if number % 2 else "good"}}}}
rows = [row(number) for number in range(1000)]
for number, name in enumerate(['"quoted', "=1+1", "-1+cmd|'/C calc'!A0", "-1.5 Cel", "plain"]):
    rows[number + 500]["name"] = name + " copied"
rows[3] |= {{"name": {NASTY!r}, "level": None, "hints": {{"name": "a hint"}}}}
grid = Grid(columns, label="Devices", selection=SelectionMode.MANY, empty_text="no devices yet")
grid.show(rows)
reported = ipywidgets.Label()
def report(_):
    reported.value = f"reported {{sorted(grid.selected)}} {{grid.active}}"
grid.observe(report, ["selected", "active"])
field = NameField(names=[f"lamp-{{n:04}}" for n in range(5000)] + ["Lamp, odd", {NASTY!r}], description="Names")
field.observe(lambda change: setattr(reported, "value", f"named {{change['new']}}"), "value")
box = ipywidgets.VBox([grid, reported, field])
box.add_class("mirror-widget")
""",
    "box",
    """
is_asked = "is_asked" in globals()
if is_asked:
    grid.show([row(1, 5000), *(row(number) for number in range(1000) if number not in (1, 198)), row(1000)])
""",
)

IS_FREE = "the kernel is free"
IS_OPEN, IS_SEEN = "the page is open", "the page shows the row"
SELECTING = (
    f"""
import ipywidgets, pathlib, time
from mirror_sdk.widgets.grid import GridColumn, Grid, SelectionMode
grid = Grid([GridColumn("name", "name")], label="Rows", selection=SelectionMode.MANY)
grid.show([{{"key": name, "name": name}} for name in ("first", "second", "third")])
def wait_for(name):
    while not (pathlib.Path.cwd().parent / name).exists():
        time.sleep(0.1)
grid.observe(lambda _: wait_for({IS_FREE!r}), "active")
reported = ipywidgets.Label()
button = ipywidgets.Button(description="Report")
button.on_click(lambda _: setattr(reported, "value", f"reported {{sorted(grid.selected)}}"))
none = ipywidgets.Button(description="None")
none.on_click(lambda _: setattr(grid, "selected", []))
""",
    "ipywidgets.VBox([grid, button, none, reported])",
    f"""
late = Grid([GridColumn("name", "name")], label="Late")
display(late)
wait_for({IS_OPEN!r})
late.show([{{"key": "row", "name": "while the cell runs"}}])
wait_for({IS_SEEN!r})
""",
)


@pytest.fixture
def notebook(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    opened = Notebook(lab, browser, CELLS)
    yield opened
    opened.close()


def test_a_grid_and_a_field_of_names_in_a_notebook(notebook: Notebook) -> None:
    page = notebook.page
    box = page.locator(".mirror-widget", has=page.get_by_role("grid", name="Devices")).last
    grid, count, reported = box.get_by_role("grid"), box.locator(".mirror-grid-count"), box.locator("div.widget-label")
    expect(grid).to_be_visible(timeout=60_000)
    notebook.wait_for_the_cells()
    expect(grid.get_by_text(NASTY)).to_be_visible()
    expect(count).to_have_text("1,000 rows")

    search = box.get_by_role("searchbox", name="Search in Devices")
    search.fill("device-99")
    expect(count).to_have_text("11 of 1,000 rows")
    # Letters and arrows are for the widget, not for JupyterLab.
    search.press("d")
    search.press("d")
    expect(count).to_contain_text("no row fits")
    search.fill("device-1")
    heading = grid.get_by_role("columnheader", name="level (%)")
    heading.click()
    heading.click()
    expect(heading).to_have_attribute("aria-sort", "descending")

    def first() -> Locator:
        return grid.locator('[row-index="0"] [col-id="name"]')

    expect(first()).to_have_text("device-199")
    first().click()
    expect(reported).to_have_text("reported ['k199'] {'key': 'k199', 'column': 'name'}")
    # On a cell a letter would be a command that makes a cell of the notebook.
    notebook.keys("b", "ArrowDown", "ArrowRight", "Space")
    expect(reported).to_have_text("reported ['k198', 'k199'] {'key': 'k198', 'column': 'level'}")
    page.context.grant_permissions(["clipboard-read"])
    notebook.keys("Control+c")
    copied = [
        "name\tlevel (%)\tchanged at (UTC)",
        "device-199\t199\t2026-01-02 03:07:24.678",
        "device-198\t198\t2026-01-02 03:07:23.678",
    ]
    wait_for(copied, lambda: page.evaluate("navigator.clipboard.readText()").splitlines())
    notebook.keys("ArrowUp")
    box.get_by_role("button", name="Copy").click()
    expect(count).to_have_text("2 rows copied")
    assert page.evaluate("navigator.clipboard.readText()").splitlines() == copied

    search.fill("copied")
    expect(count).to_contain_text("5 of 1,000 rows")
    box.get_by_role("button", name="Copy").click()
    expect(count).to_have_text("5 rows copied")
    cells = csv.reader(io.StringIO(page.evaluate("navigator.clipboard.readText()")), "excel-tab")
    names = ["'-1+cmd|'/C calc'!A0", "'=1+1", '"quoted', "-1.5 Cel", "plain"]
    assert sorted(row[0] for row in cells) == sorted(["name", *(f"{name} copied" for name in names)])
    search.fill("device-1")

    notebook.run(2)
    expect(first()).to_have_text("device-1")
    expect(count).to_have_text("111 of 1,000 rows · 1 selected")
    expect(reported).to_contain_text("reported ['k199']")

    names = box.get_by_label("Names")
    offered = box.locator("datalist option")
    names.press_sequentially("LAM")
    expect(offered).to_have_count(20)
    names.press("Tab")
    expect(names).to_have_value("lamp-")
    names.press_sequentially("0042,49")
    expect(offered.first).to_have_attribute("value", "lamp-0042, lamp-0049")
    names.fill("lamp-0042, lamp-000")
    names.press_sequentially("7")
    names.press("Enter")
    expect(reported).to_have_text("named lamp-0042, lamp-0007")
    names.fill("<im")
    names.press("Tab")
    expect(names).to_have_value(NASTY)
    names.press("Tab")
    expect(names).not_to_be_focused()
    expect(reported).to_have_text(f"named {NASTY}")
    assert page.locator(".jp-CodeCell").count() == len(CELLS)
    assert notebook.wrong == []


@pytest.fixture
def busy(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    # With subshells a kernel works on the messages of several widgets at once, in no order.
    setting = "/lab/api/settings/@jupyterlab/apputils-extension:kernels-settings"
    lab.request("PUT", setting, json={"raw": '{"commsOverSubshells": "disabled"}'})
    opened = Notebook(lab, browser, SELECTING, own_page=True)
    yield opened
    opened.close()
    lab.request("PUT", setting, json={"raw": "{}"})


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


def test_grid_that_anywidget_gave_up_receives_rows_and_names(on_a_slow_page: Notebook) -> None:
    page = on_a_slow_page.page
    box = page.locator(".mirror-widget", has=page.get_by_role("grid", name="Devices")).last
    on_a_slow_page.wait_for_the_cells()
    on_a_slow_page.run(2)
    expect(box.get_by_role("grid").get_by_role("gridcell", name="5,000")).to_be_visible()
    box.get_by_label("Names").press_sequentially("LAM")
    expect(box.locator("datalist option")).to_have_count(20)


def test_rows_and_selections_while_the_kernel_is_busy_and_on_another_page(busy: Notebook, lab: Lab) -> None:
    page = busy.page
    # A kernel that runs a cell does not receive that the page is open.
    late = page.get_by_role("grid", name="Late")
    expect(late).to_be_visible(timeout=START_SECONDS * 1000)
    (lab.folder / IS_OPEN).touch()
    expect(late).to_contain_text("while the cell runs")
    (lab.folder / IS_SEEN).touch()
    busy.wait_for_the_cells()

    rows = page.locator(".jp-CodeCell").nth(1)
    count, reported = rows.locator(".mirror-grid-count"), rows.locator("div.widget-label")
    report, none = page.get_by_role("button", name="Report"), page.get_by_role("button", name="None")
    # The kernel receives the focused cell and processes it while the row and the buttons are clicked.
    page.get_by_role("gridcell", name="second").click()
    expect(count).to_have_text("3 rows · 1 selected")
    report.click()
    none.click()
    (lab.folder / IS_FREE).touch()
    expect(reported).to_have_text("reported ['second']")
    # The state of the page, which was delayed, came after that.
    report.click()
    expect(reported).to_have_text("reported []")
    expect(count).to_have_text("3 rows")

    other = busy.other_page()
    other_count = other.locator(".mirror-grid-count").first
    other.get_by_role("gridcell", name="third").click()
    expect(count).to_have_text("3 rows · 1 selected")
    page.get_by_role("gridcell", name="first").click()
    expect(other_count).to_have_text("3 rows · 2 selected")
    report.click()
    expect(reported).to_have_text("reported ['first', 'third']")
    assert busy.wrong == []
