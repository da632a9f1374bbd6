"""The write panel without a page: its fields and buttons are used as a page uses them, against the real app."""

import subprocess
import sys
import threading
from functools import partial

import pytest
from patience import until
from resource_paths import LEVEL
from usual import NASTY, OWN
from widget_parts import all_html, all_parts, threads_since

from mirror_sdk.plan import Plan
from mirror_sdk.widgets import WritePanel


@pytest.fixture
def new_panel(widget):
    return partial(widget, WritePanel)


def enter(panel, path=LEVEL, value="40"):
    panel.path.value = path
    panel.field.fields[0].value = value


def states(panel):
    return {one["status"] for one in panel.plan_grid.rows}


# Buttons


def test_preview_apply_and_undo(new_panel, client, simulator, lights):
    simulator.set_response_mode(lights[1], "reject")
    panel = new_panel(lights, canary=0)
    enter(panel)
    assert (panel.apply_button.disabled, panel.undo_button.disabled, panel.plan) == (True, True, None)
    panel.preview_button.click()
    assert isinstance(panel.plan, Plan)
    assert (panel.apply_button.disabled, panel.apply_button.description) == (False, "Apply (3)")
    assert {one["before"] for one in panel.plan_grid.rows} == {"10 %"}
    assert "3 to write" in panel.progress.text_view.value
    panel.field.fields[0].value = "41"
    assert panel.apply_button.disabled
    panel.preview_button.click()
    panel.apply_button.click()
    assert "REJECTED" in panel.plan_grid.rows[1]["reason"]
    assert panel.result["status"].tolist() == ["success", "failure", "success"]
    assert (panel.apply_button.disabled, panel.stop_button.disabled) == (True, True)
    panel.undo_button.click()
    assert panel.apply_button.description == "Apply the undo (2)"
    assert client.read_value(lights[0], LEVEL) == 41
    panel.apply_button.click()
    assert client.read_value(lights[0], LEVEL) == 10


def test_static_copy_has_the_plan_with_sent_writes_first(new_panel, simulator, lights, tmp_path):
    sensors = [simulator.add_device(f"sensor-{number:02}") for number in range(60)]
    panel = new_panel([*sensors, *lights], path=LEVEL)
    assert "To begin, enter a value." in panel.static_html()
    assert "<table" not in panel.static_html()
    panel.field.fields[0].value = "40"
    panel.preview_button.click()
    told = panel.static_html()
    assert "→ 3 to write, ⊘ 60 rejected" in told
    assert "the first 50 of 63 rows" in told
    assert told.index("light-2") < told.index("sensor-00")
    assert "WritePanel, as of " in panel.to_html(tmp_path / "panel.html").read_text(encoding="utf-8")


def test_names_and_values_of_devices_are_text_never_markup(new_panel, client, simulator):
    resources = [{"path": OWN, "value": NASTY}]
    ids = [simulator.add_device(f"{NASTY}{number}", resources) for number in range(2)]
    for device_id in ids:
        client.read_value(device_id, OWN)
    panel = new_panel([ids[0], f"{NASTY}1"])
    enter(panel, OWN, f"new {NASTY}")
    for button in (panel.preview_button, panel.apply_button, panel.undo_button):
        button.click()
        html = all_html(panel) + panel.static_html()
        assert "<img" not in html
        assert html.count("&lt;img src=x onerror=alert(1)&gt;") >= 4
    for part in all_parts(panel):
        assert not getattr(part, "description_allow_html", False)


# Life


def test_a_click_does_not_overtake_earlier_input(new_panel, lights):
    panel = new_panel(lights, live=True)
    until(lambda: panel.path.names)
    enter(panel)
    # The message of the field comes on another thread, a moment later; here nothing else comes between the two.
    with panel._live.lock:
        panel.preview_button.click()
        panel.field.fields[0].value = "55"
    until(lambda: {one["requested"] for one in panel.plan_grid.rows} == {"55 %"})
    assert not panel.apply_button.disabled
    with panel._live.lock:
        panel.apply_button.click()
        panel.field.fields[0].value = "56"
    until(lambda: "Nothing was sent" in panel.notices_view.value)
    assert panel.result.empty


def test_closing_stops_the_writing_and_leaves_no_thread(new_panel, client, simulator, lights):
    simulator.set_online(lights[0], False)
    before = set(threading.enumerate())
    panel = new_panel(lights, live=True)
    until(lambda: panel.path.names)
    enter(panel)
    panel.preview_button.click()
    until(lambda: not panel.apply_button.disabled)
    panel.apply_button.click()
    until(lambda: "… Pending" in states(panel))
    panel.close()
    assert not panel.is_running
    until(lambda: not {"mirror-widget", "mirror-widget-call", "mirror-plan"} & threads_since(before))
    assert panel.result["status"].tolist() == ["pending", "queued", "queued"]
    panel.close()


def test_the_interpreter_ends_at_once_while_a_write_waits(mirror, address, simulator, lights):
    # Through fields and buttons: the panel's thread uses the model meanwhile, and it could put the device's value back.
    program = f"""
import time
from mirror_sdk import MirrorClient
from mirror_sdk.widgets import WritePanel
panel = WritePanel(MirrorClient({address!r}, {mirror.new_key()!r}), {lights[:1]}, path="{LEVEL}", expiry_seconds=3600)
panel.field.fields[0].value = "40"
def wait(condition):
    while not condition(): time.sleep(0.01)
panel.preview_button.click(); wait(lambda: not panel.apply_button.disabled)
panel.apply_button.click(); wait(lambda: panel.plan_grid.rows[0]["status"] == "… Pending")
print("ends", flush=True)
"""
    simulator.set_online(lights[0], False)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (run.stdout, run.returncode) == ("ends\n", 0), run.stderr
