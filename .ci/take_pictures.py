"""Takes the pictures in ``.github/images`` of the widgets, of the tour and of the server's page, in a real browser.

    python .ci/take_pictures.py fleet page   # without a name: all pictures

It needs Chromium, and it fails if a widget is wider than its cell.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / folder) for folder in ("tests", "tests/sdk", "tests/process", "tests/system/browser", "")]

from process_lab import ADDRESS, Lab  # noqa: E402 - the helpers of the tests
from process_notebook import Notebook  # noqa: E402

IMAGES = ROOT / ".github" / "images"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
WIDTHS = (1000, 1600)
"""The widths of the window, which are in the names of the pictures."""
HEIGHT = 1000
TALL = 1750
"""A height of the window that shows every widget completely."""
PHONE = {"width": 360, "height": 740}
SET_UP = """
import os, pathlib, time
from datetime import timedelta
from mirror_sdk import MirrorClient, Simulator
from mirror_sdk.widgets import EventWatcher, Explorer, FleetTable, WritePanel
client = MirrorClient.from_env()
simulator = Simulator(client)
ids = {device.endpoint_name: device.id for device in client.devices.list()}
paths = ["/3303/0/5700", "/3305/0/5800", "/3311/0/5850", "/3311/0/5851", "/3312/0/5850"]
rules = [{"resource_path": ["/3303/*", "/3304/*", "/3305/*", "/3308/*", "/3311/*", "/3312/*", "/3200/*", "/3/0/9"]}]
client.subscriptions.rules.add(rules, apply_now=True)
pathlib.Path("page.txt").write_text(f"{os.environ['API_HOST']}/#key={os.environ['API_KEY']}")
simulator.advance(timedelta(minutes=20))
"""
LIFE = """
simulator.set_response_mode(ids["light-02"], "reject")
try:
    client.write_value("light-02", "/3311/0/5851", 15)
except Exception as error:
    print(error.category)
client.write_value("light-01", "/3311/0/5850", True)
client.write_value("smart-plug-02", "/3312/0/5850", False)
simulator.advance(timedelta(minutes=15))
client.write_value("light-01", "/3311/0/5851", 40)
simulator.set_online(ids["thermometer-02"], False)
simulator.advance(timedelta(minutes=20))
simulator.set_online(ids["thermostat-02"], False)
client.write_value("smart-plug-02", "/3312/0/5850", True)
client.write_value("light-01", "/3311/0/5850", False)
simulator.advance(timedelta(minutes=5))
simulator.set_value(ids["light-01"], "/3311/0/5851", "72")
client.requests.begin_write("thermostat-02", "/3308/0/5900", 19.0, expiry_seconds=86400)
simulator.set_online(ids["thermometer-02"], True)
simulator.advance(timedelta(minutes=9))
"""
CELLS = {
    "watcher": 'EventWatcher(client, paths=paths, thresholds={"/3303/0/5700": 20})',
    "life": LIFE,
    "fleet": "FleetTable(client)",
    "explorer": 'Explorer(client, "light-01")',
    "panel": """
resource = {"path": "/3311/0/5851", "value": "10", "observable": True, "writable": True}
lamps = [simulator.add_device(f"lamp-{number:02}", [resource], endpoint_type="Light") for number in range(1, 9)]
for lamp in lamps:
    client.read_value(lamp, "/3311/0/5851")
simulator.set_response_mode(lamps[3], "reject")
simulator.set_response_mode(lamps[6], "reject")
client.write_value(lamps[4], "/3311/0/5851", 40)
panel = WritePanel(client, [*lamps, ids["light-01"], ids["light-02"]], path="/3311/0/5851")
panel""",
}
WIDER = """(panel) => [...panel.querySelectorAll("*")].filter((one) => one.className && one.clientWidth &&
    one.scrollWidth > one.clientWidth + 1 && !["visible", "clip"].includes(getComputedStyle(one).overflowX) &&
    getComputedStyle(one).textOverflow !== "ellipsis" && !one.classList.contains("mirror-hidden") &&
    !/ag-header-|ag-aria/.test(one.className))
    .map((one) => `${one.className} ${one.scrollWidth} > ${one.clientWidth}`)"""


def store(name: str, png: bytes) -> None:
    """Store a picture with its 256 most frequent colors, which is a third of its size."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    colors = sorted(picture.getcolors(picture.width * picture.height), reverse=True)[:256]
    palette = np.array([color for _, color in colors], np.int32)
    pixels, indexes = np.unique(np.array(picture).reshape(-1, 3), axis=0, return_inverse=True)
    nearest = [((palette - pixel) ** 2).sum(1).argmin() for pixel in pixels.astype(np.int32)]
    stored = Image.fromarray(np.array(nearest, np.uint8)[indexes].reshape(picture.height, picture.width))
    stored.putpalette(palette.astype(np.uint8).tobytes())
    stored.save(IMAGES / f"{name}.png", optimize=True)
    print(name, *picture.size)


def settle(page: Page) -> None:
    """Wait until the page has drawn what it shows."""
    page.mouse.move(0, 0)
    page.wait_for_timeout(1_500)


def take_widgets(notebook: Notebook, cells: list[str], requested: list[str], wide: list[str]) -> None:
    """Take the pictures of the widgets of a notebook."""
    page = notebook.page
    for theme, title in THEMES.items():
        page.evaluate("(theme) => jupyterapp.commands.execute('apputils:change-theme', { theme })", title)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": TALL})
            for name in requested:
                panel = notebook.widget(cells.index(name) + 1)
                panel.scroll_into_view_if_needed()
                settle(page)
                wide += [f"{name} {width}: {one}" for one in panel.evaluate(WIDER)]
                store(f"{name}-{theme}-{width}", panel.screenshot())


def apply_writes(panel: Locator) -> None:
    """Write a value in the write panel, which some devices reject."""
    field = panel.get_by_role("textbox", name="Value")
    field.fill("40")
    panel.get_by_role("button", name="Preview").click()
    panel.get_by_role("button", name="Apply").click()
    expect(panel).to_contain_text("Done:")


def take_page(browser: Browser, url: str) -> None:
    """Take the pictures of the server's page, with a device that has a value of its own."""
    for scheme in THEMES:
        for width in WIDTHS:
            with visit(browser, url, {"width": width, "height": HEIGHT}, scheme) as page:
                open_device(page)
                store(f"page-{scheme}-{width}", page.screenshot())
    with visit(browser, url, PHONE, "light") as page:
        open_device(page)
        store("page-phone", page.screenshot())


@contextmanager
def visit(browser: Browser, url: str, viewport: dict[str, int], scheme: str) -> Iterator[Page]:
    """Open the page of the server."""
    context = browser.new_context(viewport=viewport, color_scheme=scheme)  # type: ignore[arg-type]
    try:
        page = context.new_page()
        page.goto(url)
        settle(page)
        yield page
    finally:
        context.close()


def open_device(page: Page) -> None:
    """Open a light, and its dimmer."""
    page.get_by_text("light-01", exact=True).first.click()
    page.get_by_text("Dimmer").first.click()
    settle(page)


def take_tour(lab: Lab, browser: Browser) -> None:
    """Take the pictures of the tour, with its event watcher."""
    notebook = Notebook(lab, browser, "00_tour.ipynb", own_page=True)
    page = notebook.page
    page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
    panel = page.locator(".mirror-widget").first
    expect(panel.locator(".mirror-plot").first).to_be_visible(timeout=120_000)
    expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible(timeout=120_000)
    panel.get_by_role("button", name="Last 1 h").click()
    panel.get_by_role("button", name="Everything").click()
    panel.evaluate("(panel) => { panel.style.scrollMarginTop = '32px'; }")
    for theme, title in THEMES.items():
        page.evaluate("(theme) => jupyterapp.commands.execute('apputils:change-theme', { theme })", title)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            settle(page)
            panel.evaluate("(panel) => panel.scrollIntoView({ block: 'start' })")
            settle(page)
            store(f"tour-{theme}-{width}", page.screenshot())
    notebook.close()


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ["tour", "watcher", "fleet", "explorer", "panel", "page"]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"a picture: {', '.join(names)}")
    requested = parser.parse_args().names or names
    wide: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mirror-pictures-") as folder, sync_playwright() as playwright:
        lab = Lab(Path(folder), "--devices=12")
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        expect.set_options(timeout=60_000)
        try:
            lab.find(ADDRESS)
            # First, because the tour needs half a day without earlier values.
            if "tour" in requested:
                take_tour(lab, browser)
            cells = list(CELLS)
            notebook = Notebook(lab, browser, [SET_UP, *CELLS.values()], own_page=True)
            notebook.wait_for_the_cells()
            notebook.page.evaluate("jupyterapp.commands.execute('application:toggle-left-area')")
            panel = notebook.widget(cells.index("panel") + 1)
            panel.scroll_into_view_if_needed()
            apply_writes(panel)
            take_widgets(notebook, cells, [name for name in cells if name in requested], wide)
            if "page" in requested:
                take_page(browser, (lab.folder / "mirror-notebooks" / "page.txt").read_text())
            notebook.close()
        finally:
            browser.close()
            lab.close()
    print(*wide, sep="\n", end="\n" if wide else "")
    return 1 if wide else 0


if __name__ == "__main__":
    sys.exit(main())
