"""The write panel without a page: its fields and buttons are used as a page uses them, against the real app."""

import subprocess
import sys
import threading
from datetime import UTC, datetime
from types import SimpleNamespace

import ipywidgets
import pytest
from patience import until

from mirror_sdk import show_progress
from mirror_sdk.plan import Plan
from mirror_sdk.widgets import Explorer, WritePanel
from mirror_sdk.widgets.models.marks import Mark

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


def enter(panel, path=LEVEL, value="40"):
    panel.path.value = path
    panel.field.fields[0].value = value


def states(panel):
    return {one["state"] for one in panel.plan_grid.rows}


def apply_live(panel):
    """Enter, preview and apply in a panel whose calls are made on another thread."""
    until(lambda: panel.path.names)
    enter(panel)
    panel.preview_button.click()
    until(lambda: not panel.apply_button.disabled)
    panel.apply_button.click()


# Inputs


@pytest.mark.parametrize(
    ("path", "kinds"),
    [
        (SWITCH, [ipywidgets.Checkbox]),
        (LEVEL, [ipywidgets.Text, ipywidgets.IntSlider]),
        (SET_POINT, [ipywidgets.Text]),
        (TIME, [ipywidgets.Text]),
        (PACKAGE, [ipywidgets.Text, ipywidgets.FileUpload]),
        (OWN, [ipywidgets.Text]),
    ],
)
def test_the_input_fits_the_resource(new_panel, lights, path, kinds):
    panel = new_panel(lights)
    panel.path.value = path
    assert [type(field) for field in panel.field.fields] == kinds
    assert path in panel.field.fields[0].tooltip


def test_a_number_and_its_slider_go_together(new_panel, lights):
    panel = new_panel(lights, path=LEVEL)
    number, slider = panel.field.fields
    assert (number.value, slider.value, slider.min, slider.max) == ("10", 10, 0, 100)
    slider.value = 70
    assert (number.value, panel.model.value.entry) == ("70", "70")
    number.value = "5"
    assert slider.value == 5


def test_what_is_typed_is_told_where_it_is_wrong_and_never_changed(new_panel, lights):
    panel = new_panel(lights, path=LEVEL)
    number, slider = panel.field.fields
    for typed in ("1", "14", "140"):
        number.value = typed
    panel.preview_button.click()
    assert (number.value, slider.value, panel.plan) == ("140", 14, None)
    assert "✗ /3311/0/5851" in panel.problem_view.value
    assert "from 0 to 100" in panel.problem_view.value
    for typed in (" 40 ", "4,5", "", "1e999"):
        number.value = typed
        panel.refresh()
        assert (number.value, panel.model.value.entry) == (typed, typed)
    slider.value = 60
    assert (number.value, panel.problem_view.value) == ("60", "")


def test_bytes_come_as_hex_or_as_a_file(new_panel, lights):
    panel = new_panel(lights)
    panel.path.value = PACKAGE
    text, upload = panel.field.fields
    text.value = "00 ff"
    assert panel.model.value.read() == b"\x00\xff"
    at = datetime(2026, 1, 5, tzinfo=UTC)
    upload.value = ({"name": "f", "type": "", "size": 3, "content": memoryview(b"abc"), "last_modified": at},)
    assert (text.value, panel.model.value.read()) == ("", b"abc")
    text.value = "0"
    assert upload.value == ()
    assert "two hex digits for each byte" in panel.problem_view.value


def test_a_resource_is_typed_or_taken_from_the_list_and_stays_as_it_was_written(new_panel, lights):
    panel = new_panel(lights)
    assert f"{LEVEL} · Light Control · Dimmer" in panel.path.names
    assert panel.field.layout.visibility == "hidden"
    for typed, path in ((f"{LEVEL} · Light Control · Dimmer", LEVEL), (f" {SWITCH}", SWITCH)):
        panel.path.value = typed
        assert (panel.path.value, panel.model.value.path) == (typed, path)
        assert panel.field.layout.visibility == "visible"
    panel.path.value = "/3311/x"
    assert "write it like" in panel.problem_view.value
    panel.path.value = "/3303/0/5700"
    assert "cannot be written" in panel.problem_view.value


@pytest.mark.parametrize(
    ("path", "told"), [("/9", "is no resource"), ("x", "write it like"), ("/3303/0/5700", "cannot be written")]
)
def test_a_path_that_is_given_and_is_none_is_told_in_the_panel(new_panel, lights, path, told):
    panel = new_panel(lights, path=path)
    assert told in panel.problem_view.value
    panel.path.value = LEVEL
    assert panel.problem_view.value == ""


def test_a_unit_that_becomes_known_leaves_the_field_in_which_somebody_types(new_panel, client, bench):
    unit = SET_POINT.replace("5900", "5701")
    device_id = bench.add_device(
        "heating", [{"path": SET_POINT, "value": "20", "writable": True}, {"path": unit, "value": "Cel"}]
    )
    panel = new_panel(device_id, path=SET_POINT)
    fields, (label,) = panel.field.fields, [one for one in panel.field.children if isinstance(one, ipywidgets.Label)]
    fields[0].value = "2"
    assert (label.value, label.layout.display) == ("", "none")
    client.read_value(device_id, SET_POINT)
    client.read_value(device_id, unit)
    panel.model.value.load()
    panel.refresh()
    assert (label.value, label.layout.display) == ("Cel", "inline-block")
    assert panel.field.fields == fields
    assert fields[0].value == "2"
    panel.path.value = SWITCH
    assert label.value == ""
    assert panel.field.fields != fields


def test_devices_are_picked_in_the_grid_and_stay_picked_while_others_are_listed(new_panel, bench, lights):
    sensor = bench.add_device("sensor", endpoint_type="Sensor")
    panel = new_panel()
    grid = panel.device_grid
    assert [one["device"] for one in grid.rows] == ["light-0", "light-1", "light-2", "sensor"]
    assert grid.selected == []
    grid.selected = [lights[2], lights[0]]
    assert panel.model.devices.picked == [lights[0], lights[2]]
    panel.type_filter.value = "Sensor"
    assert ([one["device"] for one in grid.rows], grid.selected) == (["sensor"], [])
    grid.selected = [sensor]
    assert "3 of 4 devices picked, 2 of them not listed" in panel.devices_view.value
    panel.type_filter.value = ""
    assert set(grid.selected) == {lights[0], lights[2], sensor}
    grid.selected = [lights[2], sensor]
    assert panel.model.devices.picked == [lights[2], sensor]
    bench.deregister(lights[1])
    panel.model.devices.load()
    panel.refresh()
    assert panel.state_filter.options == (("any", ""), ("deregistered", "deregistered"), ("registered", "registered"))
    panel.state_filter.value = "deregistered"
    assert [one["key"] for one in grid.rows] == [lights[1]]


def test_for_one_device_there_is_nothing_to_pick(new_panel, lights):
    panel = new_panel(lights[0], path=LEVEL)
    assert panel.devices_part.layout.display == "none"
    assert "Write to light-0" in panel.title_view.value
    assert new_panel(lights[:2], keep_earlier=True).devices_part.layout.display == "flex"


def test_fields_send_nothing_to_a_device(new_panel, client, lights, transport):
    panel = new_panel()
    transport.requests.clear()
    panel.device_grid.selected = [one["key"] for one in panel.device_grid.rows]
    for path in (SWITCH, LEVEL, SET_POINT, TIME, PACKAGE, OWN):
        panel.path.value = path
    enter(panel, LEVEL, "99")
    panel.state_filter.value = "registered"
    assert {request.split(" ")[0] for request in transport.requests} <= {"GET"}
    transport.requests.clear()
    enter(panel, LEVEL, "98")
    assert transport.requests == []


def test_what_people_enter_is_not_overwritten_while_it_is_on_its_way(new_panel, lights):
    panel = new_panel(lights, path=LEVEL)
    number, grid = panel.field.fields[0], panel.device_grid
    # So it is between the message of a page and the handlers: the field has it, and nobody was told.
    with number.hold_trait_notifications(), grid.hold_trait_notifications():
        number.value, grid.selected = "34", lights[1:]
        panel.model.version += 1
        panel.refresh()
    assert panel.model.value.entry == "34"
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
    assert {one["before"] for one in panel.plan_grid.rows} == {"10 %"}
    assert "3 to write" in panel.progress.text_view.value
    panel.field.fields[0].value = "41"
    assert panel.apply_button.disabled
    assert "The input changed" in panel.progress.text_view.value
    panel.preview_button.click()
    panel.apply_button.click()
    assert "REJECTED" in panel.plan_grid.rows[1]["reason"]
    assert (panel.progress.bar.value, panel.progress.bar.max, panel.progress.bar.bar_style) == (3, 3, "warning")
    assert panel.result["status"].tolist() == ["success", "failure", "success"]
    assert (panel.apply_button.disabled, panel.stop_button.disabled) == (True, True)
    panel.undo_button.click()
    assert "The way back" in panel.plan_title_view.value
    assert panel.apply_button.description == "Apply the way back (2)"
    assert client.read_value(lights[0], LEVEL) == 41
    panel.apply_button.click()
    assert client.read_value(lights[0], LEVEL) == 10
    assert "last reported 41 %" in panel.hint_view.value


def test_counts_show_some_of_the_writes_alone(new_panel, bench, lights):
    sensors = [bench.add_device(f"sensor-{number}") for number in range(4)]
    panel = new_panel([*sensors, *lights], path=LEVEL)
    assert panel.plan_view.layout.display == "none"
    panel.field.fields[0].value = "40"
    panel.preview_button.click()
    assert panel.plan_view.layout.display == "flex"
    assert [one["device"][:5] for one in panel.plan_grid.rows] == ["light"] * 3 + ["senso"] * 4
    panel.counts.buttons[Mark.REFUSED].value = True
    assert [one["state"] for one in panel.plan_grid.rows] == ["⊘ refused"] * 4
    assert panel.plan_grid.rows[0]["tones"] == {"state": "bad"}
    # As high as all of them need, so that nothing jumps when fewer are shown.
    assert panel.plan_grid.height_px == 60 + 32 * 7
    assert panel.reason_view.value == ""
    panel.plan_grid.active = {"key": panel.plan_grid.rows[0]["key"], "column": "device"}
    assert "sensor-0: ⊘ refused. sensor-0 has no resource /3311/0/5851" in panel.reason_view.value
    assert panel.counts.buttons[Mark.TO_WRITE].description == "→ 3 to write"
    assert panel.apply_button.description == "Apply (3)"
    panel.apply_button.click()
    assert [one["state"] for one in panel.plan_grid.rows] == ["✓ success"] * 3 + ["⊘ refused"] * 4


def test_what_stays_of_it_is_the_plan_with_what_is_written_first(new_panel, bench, lights, tmp_path):
    sensors = [bench.add_device(f"sensor-{number:02}") for number in range(60)]
    panel = new_panel([*sensors, *lights], path=LEVEL)
    assert "To begin, enter a value." in panel.static_html()
    assert "<table" not in panel.static_html()
    panel.field.fields[0].value = "40"
    panel.preview_button.click()
    told = panel.static_html()
    assert "→ 3 to write, ⊘ 60 refused" in told
    assert "the first 50 of 63 rows" in told
    assert told.index("light-2") < told.index("sensor-00")
    assert "WritePanel, as of " in panel.to_html(tmp_path / "panel.html").read_text(encoding="utf-8")


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
        html = all_html(panel) + panel.static_html()
        assert "<img" not in html
        assert html.count("&lt;img src=x onerror=alert(1)&gt;") >= 4
    for part in all_parts(panel):
        assert not getattr(part, "description_allow_html", False)


def test_every_button_and_field_says_what_it_is(new_panel, lights):
    panel = new_panel(lights)
    for path in (SWITCH, LEVEL, SET_POINT, TIME, PACKAGE, OWN):
        panel.path.value = path
        for part in all_parts(panel):
            if isinstance(part, ipywidgets.Button):
                assert part.description
            if isinstance(part, ipywidgets.IntSlider | ipywidgets.IntProgress | ipywidgets.ToggleButton):
                assert part.tooltip or part.layout.display == "none"
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
    apply_live(panel)
    until(lambda: {"✓ success", "… pending"} == states(panel))
    assert (panel.stop_button.disabled, panel.preview_button.disabled) == (False, True)
    panel.stop_button.click()
    until(lambda: "Stopped: 2 of 3" in panel.progress.text_view.value)
    assert panel.result["status"].tolist() == ["success", "pending", "success"]
    bench.set_online(lights[1], True)
    until(lambda: panel.counts.buttons[Mark.SUCCESS].description == "✓ 3 success")


def test_a_click_does_not_overtake_what_was_entered_before_it(new_panel, lights):
    panel = new_panel(lights, live=True)
    until(lambda: panel.path.names)
    enter(panel)
    # The message of the field comes on another thread, a moment later; here nothing else comes between the two.
    with panel._live.lock:
        panel.preview_button.click()
        panel.field.fields[0].value = "55"
    until(lambda: {one["wanted"] for one in panel.plan_grid.rows} == {"55 %"})
    assert not panel.apply_button.disabled
    with panel._live.lock:
        panel.apply_button.click()
        panel.field.fields[0].value = "56"
    until(lambda: "Nothing was sent" in panel.notices_view.value)
    assert panel.result.empty


def test_closing_stops_the_writing_and_leaves_no_thread(new_panel, client, bench, lights):
    bench.set_online(lights[0], False)
    before = set(threading.enumerate())
    panel = new_panel(lights, live=True)
    apply_live(panel)
    until(lambda: "… pending" in states(panel))
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
    apply_live(first)
    until(lambda: "… pending" in states(first))
    parent["header"] = {"msg_id": "2"}
    again = new_panel(lights)
    assert (first.comm, again.comm is None) == (None, False)
    assert first.plan.stopped_because == "it was stopped"


def test_the_interpreter_ends_at_once_while_a_write_waits(tmp_path):
    program = f"""
import httpx, threading, time
from mirror_sdk import Bench, MirrorClient
from mirror_sdk.widgets import WritePanel
from mirror_server.config import Settings
from mirror_server.service import keys
from mirror_server.service.keys import Scope
from mirror_server.services import Services
from mirror_server.web.app import create_app
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
panel.model.value.enter("40")
def wait(condition):
    while not condition(): time.sleep(0.01)
panel.preview_button.click(); wait(lambda: panel.model.can_apply)
panel.apply_button.click(); wait(lambda: panel.plan_grid.rows[0]["state"] == "… pending")
services.close()
print("ends", flush=True)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (run.stdout, run.returncode) == ("ends\n", 0), run.stderr
