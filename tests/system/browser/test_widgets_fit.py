"""Each widget in both themes, in narrow and wide windows: no accessibility violation, and no cut text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from accessibility import violations
from playwright.sync_api import Browser, expect
from process_lab import Lab
from process_notebook import Notebook
from process_server import wait_for
from resource_paths import LEVEL, TEMPERATURE

pytestmark = [pytest.mark.process, pytest.mark.browser]

SET_UP = f"""
from mirror_sdk import Simulator, MirrorClient
from mirror_sdk.widgets import EventWatcher, Explorer, FleetTable, WritePanel
client = MirrorClient.from_env()
simulator = Simulator(client)
names = [f"a-sensor-with-a-rather-long-name-in-hall-{{number}}" for number in (1, 2)]
known = {{device.endpoint_name for device in client.devices.list()}}
for name in set(names) - known:
    device = simulator.add_device(name, [
        {{"path": "{TEMPERATURE}", "value": "21.5", "observable": True}},
        {{"path": "{LEVEL}", "value": "10", "observable": True, "writable": True}},
    ])
    client.subscribe(device, "{TEMPERATURE}")
    client.read_value(device, "{LEVEL}")
    for level in (22.5, 31, 28):
        simulator.set_value(device, "{TEMPERATURE}", level)
    # A failed write adds columns to the table of resources.
    simulator.set_response_mode(device, "reject")
    client.requests.begin_write(device, "{LEVEL}", 20)
"""
WIDGETS = {
    "EventWatcher": f"""EventWatcher(client, names, thresholds={{"{TEMPERATURE}": 25}},
    conditions=["{TEMPERATURE} > 25 until below 24"])""",
    "Explorer": "Explorer(client, names[0])",
    "FleetTable": 'FleetTable(client, view={"group_by": "type"})',
    "FleetTable with an open device": f"""fleet = FleetTable(client, view={{"group_by": "type"}})
fleet.show_device(names[1])
fleet.explorer.model.open_resource("{LEVEL}")
fleet""",
    "WritePanel": f"""panel = WritePanel(client, names, path="{LEVEL}")
panel.model.value.enter("50" if client.get_device(names[0])["{LEVEL}"].reported.value == 10 else "10")
panel.model.preview()
panel""",
}
# An explorer is below the fleet table, or from 1500 on next to it.
WIDTHS = (360, 800, 1280, 1500, 1600)
THEMES = {"JupyterLab Dark": "false", "JupyterLab Light": "true"}
TOO_WIDE = Path(__file__).with_name("too_wide.js").read_text(encoding="utf-8")


@pytest.fixture
def notebook(request: pytest.FixtureRequest, lab: Lab, browser: Browser) -> Iterator[Notebook]:
    opened = Notebook(lab, browser, (SET_UP, WIDGETS[request.param]))
    expect(opened.widget()).to_be_visible(timeout=60_000)
    # In a window of 800 px, the files next to the notebook would leave 370 px for the widget.
    opened.page.evaluate("jupyterapp.shell.collapseLeft()")
    yield opened
    opened.page.evaluate("jupyterapp.shell.expandLeft()")
    opened.page.set_viewport_size({"width": 1400, "height": 1100})
    opened.close()


@pytest.mark.parametrize("notebook", WIDGETS, indirect=True)
def test_a_widget_fits_and_violates_no_rule_of_accessibility(notebook: Notebook) -> None:
    page, widget = notebook.page, notebook.widget()
    notebook.wait_for_the_cells()
    expect(widget.get_by_role("grid").first).to_be_visible()
    for theme, is_light in THEMES.items():
        page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', { theme })", theme)
        expect(page.locator("body")).to_have_attribute("data-jp-theme-light", is_light)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 1100})
            # The widget follows the size and the colors of the page in several steps.
            wait_for([], lambda: widget.evaluate(TOO_WIDE))
        wait_for([], lambda: violations(page, ".jp-Notebook:not(.lm-mod-hidden) .mirror-widget"))
    assert notebook.wrong == []
