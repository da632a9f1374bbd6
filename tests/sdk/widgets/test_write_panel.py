"""The write panel without a page: its intents are sent as a page sends them, against the real app."""

import base64
import json
import subprocess
import sys
import threading
from functools import partial

import pytest
from client_test_data import NASTY, OWN
from resource_paths import LEVEL
from thread_waits import until
from widget_elements import do, threads_since

from mirror_sdk.plan import Plan
from mirror_sdk.widgets import WritePanel


@pytest.fixture
def new_panel(widget):
    return partial(widget, WritePanel)


def enter(panel, path=LEVEL, value="40"):
    do(panel, "value.choose_path", path)
    do(panel, "value.enter", value)


def writes(panel):
    return panel._rows("writes").rows


# Actions


def test_preview_apply_and_undo(new_panel, client, simulator, lights):
    simulator.set_response_mode(lights[1], "reject")
    panel = new_panel(lights, canary=0)
    enter(panel)
    view = panel._state
    assert (view["canApply"], view["canUndo"], panel.plan) == (False, False, None)
    do(panel, "preview")
    assert isinstance(panel.plan, Plan)
    assert (panel._state["canApply"], panel._state["toWrite"]) == (True, 3)
    assert {one["before"] for one in writes(panel)} == {"10 %"}
    assert "3 to write" in panel._state["statusText"]
    do(panel, "value.enter", "41")
    assert (panel._state["canApply"], panel._state["isOutdated"]) == (False, True)
    do(panel, "preview")
    do(panel, "apply")
    assert "REJECTED" in writes(panel)[1]["reason"]
    assert panel.result["status"].tolist() == ["success", "failure", "success"]
    assert panel._state["progress"] == [3, 3, "warn"]
    assert not panel._state["canApply"]
    do(panel, "preview_undo")
    assert (panel._state["isUndo"], panel._state["toWrite"]) == (True, 2)
    assert client.read_value(lights[0], LEVEL) == 41
    do(panel, "apply")
    assert client.read_value(lights[0], LEVEL) == 10


def test_limits_are_a_few_words_and_their_meaning_is_explained(new_panel, lights):
    view = new_panel(lights)._state
    assert view["limitsText"] == "Canary 1, stop after 6 failures"
    assert view["limitsMeaning"] == (
        "1 device first; the others follow only if this write succeeds. No more writes are sent after 6 failures. "
        "A write waits for its device as long as its row says."
    )
    view = new_panel(lights, canary=0, max_failures=None, expiry_seconds=90)._state
    assert view["limitsText"] == "No canary, no limit of failures"
    assert "A write waits for its device for 90 s." in view["limitsMeaning"]


def test_problems_are_grouped_by_their_complete_reasons_and_failures_come_first(new_panel, simulator, lights):
    sensors = [simulator.add_device(f"sensor-{number}") for number in range(2)]
    simulator.set_response_mode(lights[1], "reject")
    panel = new_panel([*sensors, *lights], path=LEVEL, canary=0)
    do(panel, "value.enter", "40")
    do(panel, "preview")
    assert [(one["status"], one["devices"]) for one in panel._state["problems"]] == [
        ("Rejected", ["sensor-0", "sensor-1"])
    ]
    do(panel, "apply")
    failed, rejected = panel._state["problems"]
    assert (failed["status"], failed["devices"]) == ("Failed", ["light-1"])
    assert failed["reason"].startswith("REJECTED: ")
    assert rejected["status"] == "Rejected"
    assert rejected["reason"] == f"it has no resource {LEVEL}"
    assert rejected["reason"] in panel._static_body()()


def test_show_lists_only_writes_of_a_status(new_panel, simulator, lights):
    panel = new_panel([simulator.add_device("sensor"), *lights], path=LEVEL)
    do(panel, "value.enter", "40")
    do(panel, "preview")
    assert panel._state["counts"] == [["To write", 3], ["Rejected", 1]]
    do(panel, "show_only", "Rejected")
    assert ([one["device"] for one in writes(panel)], panel._state["shown"]) == (["sensor"], "Rejected")
    do(panel, "show_only", None)
    assert len(writes(panel)) == 4


def test_picked_devices_are_written_to(new_panel, lights):
    panel = new_panel(path=LEVEL)
    assert panel._state["target"] is None
    do(panel, "devices.pick", lights[:2])
    assert panel._state["devicesPicked"] == lights[:2]
    assert panel._state["valueForm"] == {
        **dict.fromkeys(("placeholder", "initial"), ""),
        "type": "integer",
        "unit": "%",
        "range": [0, 100],
        "hint": "a whole number from 0 to 100",
    }
    do(panel, "value.enter", "140")
    assert "from 0 to 100, not 140" in panel._state["valueProblem"]
    do(panel, "preview")
    assert panel._state["notices"]
    do(panel, "dismiss")
    assert panel._state["notices"] == []


def test_a_file_is_the_value_of_an_opaque_resource(new_panel, lights):
    panel = new_panel(lights, path="/5/0/0")
    assert panel._state["valueForm"]["type"] == "opaque"
    do(panel, "enter_file", base64.b64encode(bytes(range(200))).decode("ascii"))
    assert (panel._state["fileBytes"], panel._state["entry"], panel.model.value.read()) == (200, "", bytes(range(200)))
    do(panel, "enter_file", "not base64!")
    assert (panel._state["fileBytes"], len(panel._state["notices"])) == (200, 1)
    do(panel, "value.enter", "0a0b")
    assert (panel._state["fileBytes"], panel._state["entry"]) == (None, "0a0b")


def test_an_unknown_intent_is_a_notice_and_changes_nothing(new_panel, lights):
    panel = new_panel(lights)
    do(panel, "erase")
    do(panel, "devices.pick", lights, lights)
    assert len(panel._state["notices"]) == 1
    assert panel._state["devicesPicked"] == lights


def test_static_copy_has_the_plan_with_sent_writes_first(new_panel, simulator, lights, tmp_path):
    sensors = [simulator.add_device(f"sensor-{number:02}") for number in range(60)]
    panel = new_panel([*sensors, *lights], path=LEVEL)
    assert "To begin, enter a value." in panel._static_body()()
    assert "<table" not in panel._static_body()()
    do(panel, "value.enter", "40")
    do(panel, "preview")
    html = panel._static_body()()
    assert "→ 3 to write, ⊘ 60 rejected" in html
    assert "the first 50 of 63 rows" in html
    rows = html[html.index("<table") :]
    assert rows.index("light-2") < rows.index("sensor-00")
    assert "WritePanel, as of " in panel.to_html(tmp_path / "panel.html").read_text(encoding="utf-8")


def test_names_and_values_of_devices_are_text_never_markup(new_panel, client, simulator):
    resources = [{"path": OWN, "value": NASTY}]
    ids = [simulator.add_device(f"{NASTY}{number}", resources) for number in range(2)]
    for device_id in ids:
        client.read_value(device_id, OWN)
    panel = new_panel([ids[0], f"{NASTY}1"])
    enter(panel, OWN, f"new {NASTY}")
    for action in ("preview", "apply", "preview_undo"):
        do(panel, action)
        assert "<img" not in panel._static_body()()
        assert panel._static_body()().count("&lt;img src=x onerror=alert(1)&gt;") >= 4
        # The component shows the texts of the state and of rows as text.
        assert json.dumps([panel._state, writes(panel)]).count("<img") >= 4


# Life


def test_closing_stops_the_writing_and_leaves_no_thread(new_panel, client, simulator, lights):
    simulator.set_online(lights[0], False)
    before = set(threading.enumerate())
    panel = new_panel(lights, live=True)
    until(lambda: panel._state.get("valuePaths"))
    enter(panel)
    do(panel, "preview")
    until(lambda: panel._state.get("canApply"))
    do(panel, "apply")
    until(lambda: "… Pending" in {one["status"] for one in writes(panel)})
    panel.close()
    assert not panel.is_running
    until(lambda: not {"mirror-widget", "mirror-widget-call", "mirror-plan"} & threads_since(before))
    assert panel.result["status"].tolist() == ["pending", "queued", "queued"]
    panel.close()


def test_the_interpreter_ends_at_once_while_a_write_waits(mirror, address, simulator, lights):
    program = f"""
import time
from mirror_sdk import MirrorClient
from mirror_sdk.widgets import WritePanel
panel = WritePanel(MirrorClient({address!r}, {mirror.new_key()!r}), {lights[:1]}, path="{LEVEL}", expiry_seconds=3600)
def do(name, *arguments):
    panel._handle_custom_msg({{"intent": name, "args": list(arguments)}}, [])
def wait(condition):
    while not condition(): time.sleep(0.01)
do("value.enter", "40")
do("preview"); wait(lambda: panel._state.get("canApply"))
do("apply"); wait(lambda: panel._rows("writes").rows[0]["status"] == "… Pending")
print("ends", flush=True)
"""
    simulator.set_online(lights[0], False)
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (run.stdout, run.returncode) == ("ends\n", 0), run.stderr
