"""The layout of the fleet table in a real browser, where the test decides when the kernel responds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, Route, expect

import mirror_sdk.widgets
from mirror_sdk.widgets.models.fleet_view import FleetView

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
ROWS = [{"key": name, "name": name, "status": "In sync"} for name in ("a", "b")]
SHOW = """async ({ state, rows }) => {
    const { default: widget } = await import("./ui.js");
    const values = { _component: "fleet", _state: state, _published: { rows: { devices: { version: 1, rows } } } };
    const listeners = new Map();
    window.views = [];
    const model = {
        get: (name) => values[name],
        on: (name, listener) => listeners.set(name, listener),
        off: () => {},
        send: ({ intent, args }) => {
            if (intent === "change_view") window.views.push({ ...values._state.view, ...args[0] });
        },
    };
    window.respond = (view) => {
        values._state = { ...values._state, view };
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
    opened.evaluate(SHOW, {"state": STATE, "rows": ROWS})
    yield opened
    opened.close()


def heading(page: Page, name: str) -> Locator:
    return page.get_by_role("columnheader", name=name)


def respond(page: Page, position: int) -> None:
    """Have the kernel send the view that the page requested."""
    page.evaluate("async (position) => window.respond(window.views[position])", position)
    # The page renders a state in its next frame.
    page.evaluate("new Promise((end) => requestAnimationFrame(() => setTimeout(end)))")


def test_late_response_of_the_kernel_does_not_undo_a_later_change(page: Page) -> None:
    device = heading(page, "Device")
    device.click()
    expect(device).to_have_attribute("aria-sort", "ascending")
    device.click()
    expect(device).to_have_attribute("aria-sort", "descending")
    for position in (0, 1):
        respond(page, position)
        assert device.get_attribute("aria-sort") == "descending"
    # What was opened in Python is displayed.
    page.evaluate("view => window.respond(view)", FleetView.from_dict({"sort_by": "status"}).to_dict())
    expect(heading(page, "Status")).to_have_attribute("aria-sort", "ascending")
    expect(device).to_have_attribute("aria-sort", "none")
