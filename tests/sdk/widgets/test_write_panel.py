"""The write panel without a page: its fields and buttons are used as a page uses them, against the real app."""

import subprocess
import sys
import threading
from datetime import UTC, datetime
from types import SimpleNamespace

import ipywidgets
import pytest
from patience import PAUSE, until

from mirror_sdk import show_progress
from mirror_sdk.plan import Plan
from mirror_sdk.widgets import Explorer, WritePanel
from mirror_sdk.widgets.base import SETTLE_SECONDS

LEVEL, SWITCH, SET_POINT, TIME, PACKAGE = "/3311/0/5851", "/3311/0/5850", "/3308/0/5900", "/3/0/13", "/5/0/0"
OWN = "/10250/0/1"
RESOURCES = [
    {"path": LEVEL, "value": "10", "writable": True, "observable": True},
    *({"path": path, "value": "0", "writable": True} for path in (SWITCH, SET_POINT, TIME, PACKAGE, OWN)),
]
NASTY = "<img src=x onerror=alert(1)>"


@pytest.fixture
def lights(client, bench):
    ids = [bench.add_device(f"light-{number}", RESOURCES) for number in range(3)]
    for device_id in ids:
        client.read_value(device_id, LEVEL)
    return ids


@pytest.fixture
def new_panel(client):
    """Makes panels; they are closed at the end."""
    made = []

    def make(*arguments, **options):
        made.append(WritePanel(client, *arguments, **{"live": False} | options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def all_parts(widget):
    return [widget, *(part for child in getattr(widget, "children", ()) for part in all_parts(child))]


def all_html(widget):
    return "".join(part.value for part in all_parts(widget) if isinstance(part, ipywidgets.HTML))


def enter(panel, path=LEVEL, value=40):
    panel.resource.value = path
    panel.field.fields[0].value = value


# Inputs


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        (SWITCH, [ipywidgets.Checkbox]),
        (LEVEL, [ipywidgets.BoundedIntText, ipywidgets.IntSlider]),
        (SET_POINT, [ipywidgets.FloatText]),
        (TIME, [ipywidgets.Text]),
        (PACKAGE, [ipywidgets.Text, ipywidgets.FileUpload]),
        (OWN, [ipywidgets.Text]),
    ],
)
def test_the_input_fits_the_resource(new_panel, lights, path, kinds):
    panel = new_panel(lights)
    panel.resource.value = path
    assert [type(field) for field in panel.field.fields] == kinds
    assert path in panel.field.fields[0].tooltip


def test_a_number_and_its_slider_go_together(new_panel, lights):
    panel = new_panel(lights)
    panel.resource.value = LEVEL
    number, slider = panel.field.fields
    assert (number.value, slider.value, number.min, number.max) == (10, 10, 0, 100)
    slider.value = 70
    assert (number.value, panel.model.value.entry) == (70, 70)
    number.value = 5
    assert slider.value == 5


def test_bytes_come_as_hex_or_as_a_file(new_panel, lights):
    panel = new_panel(lights)
    panel.resource.value = PACKAGE
    text, upload = panel.field.fields
    text.value = "00 ff"
    assert panel.model.value.read() == b"\x00\xff"
    at = datetime(2026, 1, 5, tzinfo=UTC)
    upload.value = ({"name": "f", "type": "", "size": 3, "content": memoryview(b"abc"), "last_modified": at},)
    assert (text.value, panel.model.value.read()) == ("", b"abc")
    text.value = "0"
    assert upload.value == ()
    assert "two hex digits for each byte" in panel.hint_view.value


def test_the_path_and_the_list_of_resources_go_together(new_panel, lights):
    panel = new_panel(lights)
    panel.path.value = LEVEL
    assert panel.resource.value == LEVEL
    panel.resource.value = SWITCH
    assert panel.path.value == SWITCH
    panel.path.value = "/3311/x"
    assert panel.resource.value == ""
    assert "write it like" in panel.hint_view.value
    panel.path.value = "/3306/0/5850"
    assert panel.resource.value == "/3306/0/5850"


def test_boxes_pick_devices_of_the_pages_and_searches(new_panel, bench, lights):
    for number in range(10):
        bench.add_device(f"other-{number}")
    panel = new_panel()
    assert [box.value for box in panel.device_boxes] == [False] * 8
    panel.device_boxes[1].value = True
    panel.device_pager.next.click()
    assert panel.device_boxes[0].description == "other-5"
    assert [box.value for box in panel.device_boxes] == [False] * 5
    panel.search.value = "light"
    assert [box.value for box in panel.device_boxes] == [False, True, False]
    panel.all_button.click()
    assert panel.model.devices.picked == lights
    panel.none_button.click()
    assert panel.model.devices.picked == []


def test_fields_send_nothing_to_a_device(new_panel, client, lights, transport):
    panel = new_panel()
    transport.requests.clear()
    for box in panel.device_boxes:
        box.value = True
    for path in (SWITCH, LEVEL, SET_POINT, TIME, PACKAGE, OWN):
        panel.resource.value = path
    enter(panel, LEVEL, 99)
    panel.search.value = "light"
    assert {request.split(" ")[0] for request in transport.requests} <= {"GET"}
    transport.requests.clear()
    enter(panel, LEVEL, 98)
    assert transport.requests == []


def test_what_people_enter_is_not_overwritten_while_it_is_on_its_way(new_panel, lights):
    panel = new_panel(lights)
    panel.resource.value = LEVEL
    number, box = panel.field.fields[0], panel.device_boxes[0]
    # So it is between the message of a page and the handlers: the field has it, and nobody was told.
    with number.hold_trait_notifications(), box.hold_trait_notifications():
        number.value, box.value = 34, False
        panel.model.version += 1
        panel.refresh()
    assert panel.model.value.entry == 34
    assert panel.model.devices.picked == lights[1:]


# Buttons


def test_looking_writing_and_going_back(new_panel, client, bench, lights):
    bench.set_answer(lights[1], "reject")
    panel = new_panel(lights, canary=0)
    enter(panel)
    assert (panel.apply_button.disabled, panel.undo_button.disabled, panel.plan) == (True, True, None)
    panel.preview_button.click()
    assert isinstance(panel.plan, Plan)
    assert (panel.apply_button.disabled, panel.apply_button.description) == (False, "Apply (3)")
    assert ">10 %<" in panel.table_view.value
    assert "3 to write" in panel.status_view.value
    panel.field.fields[0].value = 41
    assert panel.apply_button.disabled
    assert "mirror-old" in panel.table_view.value
    panel.preview_button.click()
    panel.apply_button.click()
    assert "REJECTED" in panel.table_view.value
    assert panel.result["status"].tolist() == ["success", "failure", "success"]
    assert (panel.apply_button.disabled, panel.stop_button.disabled) == (True, True)
    panel.undo_button.click()
    assert "The way back" in panel.table_view.value
    assert panel.apply_button.description == "Apply the way back (2)"
    assert client.read_value(lights[0], LEVEL) == 41
    panel.apply_button.click()
    assert client.read_value(lights[0], LEVEL) == 10


def test_errors_are_seen_in_the_panel_until_they_are_dismissed(new_panel, client, lights):
    panel = new_panel(lights)
    panel.preview_button.click()
    assert "No preview yet: choose a resource" in panel.notices_view.value
    assert 'role="alert"' in panel.notices_view.value
    panel.dismiss_button.click()
    assert panel.notices_view.value == ""
    enter(panel)
    client.close()
    panel.preview_button.click()
    assert "The preview: " in panel.notices_view.value


def test_names_and_values_of_devices_are_text_never_markup(new_panel, client, bench):
    resources = [{"path": OWN, "value": NASTY}]
    ids = [bench.add_device(f"{NASTY}{number}", resources) for number in range(2)]
    for device_id in ids:
        client.read_value(device_id, OWN)
    panel = new_panel([ids[0], f"{NASTY}1"])
    enter(panel, OWN, f"new {NASTY}")
    for button in (panel.preview_button, panel.apply_button, panel.undo_button):
        button.click()
        assert "<img" not in all_html(panel)
        assert all_html(panel).count("&lt;img src=x onerror=alert(1)&gt;") >= 4
    for part in all_parts(panel):
        assert not getattr(part, "description_allow_html", False)


def test_every_button_and_field_says_what_it_is(new_panel, lights):
    panel = new_panel(lights)
    for path in (SWITCH, LEVEL, SET_POINT, TIME, PACKAGE, OWN):
        panel.resource.value = path
        for part in all_parts(panel):
            if isinstance(part, ipywidgets.Button):
                assert part.description
            if isinstance(part, ipywidgets.IntSlider):
                assert part.tooltip
            elif isinstance(part, ipywidgets.ValueWidget) and not isinstance(part, ipywidgets.HTML | ipywidgets.Label):
                assert part.description or part.layout.display == "none"


def test_no_bar_is_shown_besides_the_panel(new_panel, lights, capsys):
    panel = new_panel(lights)
    enter(panel)
    panel.preview_button.click()
    show_progress(True)
    try:
        panel.apply_button.click()
    finally:
        show_progress(None)
    assert capsys.readouterr().err == ""


# Life


def test_a_live_panel_shows_each_write_as_it_happens_and_stops(new_panel, client, bench, lights):
    bench.set_online(lights[1], False)
    panel = new_panel(lights, live=True)
    until(lambda: len(panel.resource.options) > 1)
    enter(panel)
    panel.preview_button.click()
    until(lambda: not panel.apply_button.disabled)
    panel.apply_button.click()
    until(lambda: "success" in panel.table_view.value and "pending" in panel.table_view.value)
    assert (panel.stop_button.disabled, panel.preview_button.disabled) == (False, True)
    panel.stop_button.click()
    until(lambda: "Stopped: 2 of 3" in panel.status_view.value)
    assert panel.result["status"].tolist() == ["success", "pending", "success"]
    bench.set_online(lights[1], True)
    until(lambda: "✓ 3 success" in panel.bar_view.value)


def test_a_click_does_not_overtake_what_was_entered_before_it(new_panel, lights):
    panel = new_panel(lights, live=True)
    until(lambda: len(panel.resource.options) > 1)
    enter(panel)
    panel.preview_button.click()
    # The message of the field comes on another thread, later.
    PAUSE.wait(SETTLE_SECONDS / 4)
    panel.field.fields[0].value = 55
    until(lambda: "55 %" in panel.table_view.value)
    assert not panel.apply_button.disabled
    panel.apply_button.click()
    panel.field.fields[0].value = 56
    until(lambda: "Nothing was sent" in panel.notices_view.value)
    assert panel.result.empty


def test_closing_stops_the_writing_and_leaves_no_thread(new_panel, client, bench, lights):
    bench.set_online(lights[0], False)
    before = set(threading.enumerate())
    panel = new_panel(lights, live=True)
    until(lambda: len(panel.resource.options) > 1)
    enter(panel)
    panel.preview_button.click()
    until(lambda: not panel.apply_button.disabled)
    panel.apply_button.click()
    until(lambda: "pending" in panel.table_view.value)
    panel.close()
    assert not panel.is_running
    until(
        lambda: (
            not {one.name for one in set(threading.enumerate()) - before}
            & {"mirror-widget", "mirror-widget-call", "mirror-plan"}
        )
    )
    assert panel.result["status"].tolist() == ["pending", "queued", "queued"]
    panel.close()


def test_the_panel_and_the_explorer_share_one_poller(new_panel, client, lights):
    new_panel(lights, live=True)
    with Explorer(client):
        until(lambda: client.status().watches)
        assert client.status().watches == 1


def test_a_cell_that_runs_again_ends_what_its_panel_was_writing(new_panel, bench, lights, monkeypatch):
    parent = {"metadata": {"cellId": "a"}, "header": {"msg_id": "1"}}
    shell = SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda: parent))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    bench.set_online(lights[0], False)
    first = new_panel(lights, live=True)
    until(lambda: len(first.resource.options) > 1)
    enter(first)
    first.preview_button.click()
    until(lambda: not first.apply_button.disabled)
    first.apply_button.click()
    until(lambda: "pending" in first.table_view.value)
    parent["header"] = {"msg_id": "2"}
    again = new_panel(lights)
    assert (first.comm, again.comm is None) == (None, False)
    assert first.plan.stopped_because == "it was stopped"


def test_the_interpreter_ends_at_once_while_a_write_waits(tmp_path):
    program = f"""
import httpx, threading, time
from mirror_sdk import Bench, MirrorClient
from mirror_sdk.widgets import WritePanel
from mirror_server import keys
from mirror_server.app import create_app
from mirror_server.config import Settings
from mirror_server.keys import Scope
from mirror_server.services import Services
services = Services(Settings(database_url="sqlite:///{tmp_path}/mirror.db", simulate=0, manual_clock=True))
services.start()
transport = httpx.WSGITransport(app=create_app(services))
key = keys.create(services.database, "test", tuple(Scope), services.clock.now())
client = MirrorClient("http://mirror.localhost", key, transport=transport)
bench = Bench(client)
device = bench.add_device("asleep", {RESOURCES!r})
bench.set_online(device, False)
panel = WritePanel(client, [device], expiry_seconds=3600)
panel.model.value.choose_path("{LEVEL}")
panel.model.value.enter(40)
def wait(condition):
    while not condition(): time.sleep(0.01)
panel.preview_button.click(); wait(lambda: panel.model.can_apply)
panel.apply_button.click(); wait(lambda: "pending" in panel.table_view.value)
services.close()
print("ends", flush=True)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (run.stdout, run.returncode) == ("ends\n", 0), run.stderr
