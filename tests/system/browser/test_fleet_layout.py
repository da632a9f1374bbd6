"""The layout and the selection of the fleet table in a browser, where the test decides when the kernel responds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect
from process_server import wait_for

import mirror_sdk.widgets
from mirror_sdk.widgets.models.fleet_view import FleetView
from mirror_sdk.widgets.published import PublishedRows

pytestmark = [pytest.mark.process, pytest.mark.browser]

UI = Path(mirror_sdk.widgets.__file__).parent / "ui" / "ui.js"
ADDRESS = "http://widgets.test/"
STATE: dict[str, Any] = {
    **dict.fromkeys(("isLoading", "isActing"), False),
    **dict.fromkeys(("viewName", "viewsFile", "sparklineText", "activity"), ""),
    **{name: [] for name in ("notices", "viewNames", "attributes", "resources", "selected")},
    **dict.fromkeys(("resource", "explorer", "writer")),
    **dict.fromkeys(("takenAt", "clockAhead", "devices", "selectedWithValue"), 0),
    "counts": {},
    "view": FleetView().to_dict(),
}
ROWS = PublishedRows("devices", lambda *_: None)
ROWS.show([{"key": name, "name": name, "status": "In sync"} for name in ("a", "b")])
SHOW = """async ({ state, rows }) => {
    const { default: widget } = await import("./ui.js");
    const values = { _component: "fleet", _state: state, _published: { rows } };
    const listeners = new Map();
    window.views = [];
    window.selections = [];
    const model = {
        get: (name) => values[name],
        on: (name, listener) => listeners.set(name, listener),
        off: () => {},
        send: ({ intent, args }) => {
            if (intent === "change_view") window.views.push({ ...values._state.view, ...args[0] });
            if (intent === "select") window.selections.push(args[0]);
        },
    };
    window.respond = (changes) => {
        values._state = { ...values._state, ...changes };
        listeners.get("change:_state")();
    };
    const { initialize, render } = widget();
    initialize({ model });
    render({ model, el: document.body });
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page()

    def respond(route: Route) -> None:
        if route.request.url.endswith("ui.js"):
            route.fulfill(path=UI, content_type="text/javascript")
        else:
            route.fulfill(body="<!doctype html><title>Widgets</title>", content_type="text/html")

    opened.route(f"{ADDRESS}**", respond)
    opened.goto(ADDRESS)
    opened.evaluate(SHOW, {"state": STATE, "rows": ROWS.state})
    yield opened
    opened.close()


def heading(page: Page, name: str) -> Locator:
    return page.get_by_role("columnheader", name=name)


def respond(page: Page, changes: dict[str, Any]) -> None:
    """Have the kernel send a state."""
    page.evaluate("(changes) => window.respond(changes)", changes)
    # The page renders a state in its next frame.
    page.evaluate("new Promise((end) => requestAnimationFrame(() => setTimeout(end)))")


def test_table_has_one_line_below_its_last_row(page: Page) -> None:
    line_colors = [
        row.evaluate("cells => getComputedStyle(cells).borderBottomColor") for row in page.locator(".ag-row > *").all()
    ]
    assert line_colors[-1] == "rgba(0, 0, 0, 0)" != line_colors[0]


def test_late_response_of_the_kernel_does_not_undo_a_later_change(page: Page) -> None:
    device = heading(page, "Device")
    device.click()
    expect(device).to_have_attribute("aria-sort", "ascending")
    device.click()
    expect(device).to_have_attribute("aria-sort", "descending")
    for view in page.evaluate("window.views"):
        respond(page, {"view": view})
        assert device.get_attribute("aria-sort") == "descending"
    # What was opened in Python is displayed.
    respond(page, {"view": FleetView.from_dict({"sort_by": "status"}).to_dict()})
    expect(heading(page, "Status")).to_have_attribute("aria-sort", "ascending")
    expect(device).to_have_attribute("aria-sort", "none")


def test_columns_that_do_not_fit_return_after_a_narrow_table_was_sorted(page: Page) -> None:
    page.set_viewport_size({"width": 500, "height": 700})
    expect(heading(page, "Last 24 h")).to_have_count(0)
    heading(page, "Device").click()
    wait_for(True, lambda: page.evaluate("window.views.at(-1)?.columns.includes('sparkline')"))
    respond(page, {"view": page.evaluate("window.views.at(-1)")})
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("menuitemcheckbox", name="Stale").click()
    expect(heading(page, "Stale")).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 700})
    expect(heading(page, "Last 24 h")).to_be_visible()


def test_heading_of_a_group_counts_the_rows_that_are_displayed(page: Page) -> None:
    respond(page, {"view": FleetView.from_dict({"group_by": "status"}).to_dict()})
    expect(page.get_by_role("button", name="In sync 2")).to_be_visible()
    page.get_by_role("searchbox").fill("a")
    expect(page.get_by_role("button", name="In sync 1")).to_be_visible()


def checkbox(page: Page, name: str) -> Locator:
    return page.locator(f"[row-id={name}] [col-id=ag-Grid-SelectionColumn]").get_by_role("checkbox")


def test_late_response_of_the_kernel_does_not_undo_a_later_selection(page: Page) -> None:
    for name in ("a", "b"):
        checkbox(page, name).click()
    wait_for([["a"], ["a", "b"]], lambda: page.evaluate("window.selections"))
    for selected in ([], ["a"], ["a", "b"]):
        respond(page, {"selected": selected})
        assert [checkbox(page, name).is_checked() for name in ("a", "b")] == [True, True]
    # What was selected in Python is displayed.
    respond(page, {"selected": ["b"]})
    expect(checkbox(page, "a")).not_to_be_checked()
    expect(checkbox(page, "b")).to_be_checked()


def test_selection_is_sent_if_a_state_arrives_in_the_same_moment(page: Page) -> None:
    click = "(box) => { box.click(); window.respond({ selected: [], devices: 3 }); }"
    checkbox(page, "a").evaluate(click)
    wait_for([["a"]], lambda: page.evaluate("window.selections"))
    expect(checkbox(page, "a")).to_be_checked()
