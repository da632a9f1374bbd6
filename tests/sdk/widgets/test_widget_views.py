"""The widgets without a page: their buttons and fields are used as a page uses them, against the real app."""

import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import ipywidgets
import pytest
from patience import PAUSE, until

from mirror_sdk import AsyncMirrorClient, Event, EventKind
from mirror_sdk.errors import NotSubscribedWarning
from mirror_sdk.frames import read_parquet
from mirror_sdk.recording import Recording
from mirror_sdk.values import decode
from mirror_sdk.widgets import EventWatcher, Explorer, FleetMap
from mirror_sdk.widgets.base import SETTLE_SECONDS
from mirror_sdk.widgets.models.explorer_model import DEVICES_SHOWN
from mirror_sdk.widgets.models.watcher_model import ROWS_SHOWN

TEMPERATURE, SWITCH, REBOOT = "/3303/0/5700", "/3311/0/5850", "/3/0/4"
NASTY = "<img src=x onerror=alert(1)>"


@pytest.fixture
def widget(client):
    """Makes widgets; they are closed at the end."""
    made = []

    def make(kind, *arguments, **options):
        made.append(kind(client, *arguments, **{"live": False} | options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def button(buttons, path):
    return next(one for one in buttons if f" {path} " in one.tooltip)


def cells(explorer, path):
    return next(row.cells_view.value for row in explorer._rows if row.path == path)


def options(choices):
    return [button.description for button in choices.buttons]


def all_html(widget):
    parts = [widget, *(part for child in getattr(widget, "children", ()) for part in all_parts(child))]
    return "".join(part.value for part in parts if isinstance(part, ipywidgets.HTML))


def all_parts(widget):
    return [widget, *(part for child in getattr(widget, "children", ()) for part in all_parts(child))]


def observation(number, text, device="d1"):
    at = datetime(2026, 1, 5, tzinfo=UTC) + timedelta(milliseconds=number)
    value = decode(text.encode(), "text/plain", TEMPERATURE)
    return Event(
        kind=EventKind.OBSERVATION, received_at=at, seq=number, device_id=device, path=TEMPERATURE, value=value
    )


# Without ipywidgets


def test_models_need_no_ipywidgets_and_views_say_what_is_missing():
    program = """
import sys
sys.modules["ipywidgets"] = None
import mirror_sdk.widgets
from mirror_sdk.widgets.models import explorer_model, fleet_model, watcher_model
from mirror_sdk.widgets import feed, live, markup, plot
try:
    mirror_sdk.widgets.Explorer
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout == 'widgets need ipywidgets: pip install "device-state-mirror[notebook]"\n', run.stderr


def test_importing_the_models_imports_no_ipywidgets():
    program = (
        "import sys, mirror_sdk.widgets.models.explorer_model, mirror_sdk.widgets.models.watcher_model,"
        " mirror_sdk.widgets.models.fleet_model; print({'ipywidgets', 'IPython'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout == "set()\n", run.stderr


# Explorer


def test_the_explorer_reads_and_subscribes_from_the_row(widget, client, device_id):
    explorer = widget(Explorer)
    explorer.devices.buttons[0].click()
    assert "sensor-1" in explorer.title_view.value
    button(explorer.read_buttons, TEMPERATURE).click()
    assert "21.5" in cells(explorer, TEMPERATURE)
    subscribe = button(explorer.subscribe_buttons, TEMPERATURE)
    subscribe.click()
    assert client.is_subscribed(device_id, TEMPERATURE)
    assert subscribe.description == "Unsubscribe"
    assert subscribe.tooltip == f"Unsubscribe {TEMPERATURE} of sensor-1"
    subscribe.click()
    assert not client.is_subscribed(device_id, TEMPERATURE)


def test_the_explorer_tells_what_is_unconfirmed_also_to_who_hears_it(widget, client, device_id):
    client.read_value(device_id, SWITCH)
    client.write_value(device_id, SWITCH, True)
    explorer = widget(Explorer, device_id)
    told = "The device took true; the last report, false, is older: read it, or subscribe, to confirm."
    assert f'title="? unconfirmed\ntrue — {told}"' in cells(explorer, SWITCH)
    assert f'<span class="mirror-hidden"> {told}</span>' in cells(explorer, SWITCH)
    button(explorer.read_buttons, SWITCH).click()
    assert "unconfirmed" not in cells(explorer, SWITCH)


def test_an_error_is_seen_in_the_explorer_until_it_is_dismissed(widget, device_id):
    explorer = widget(Explorer, device_id)
    button(explorer.subscribe_buttons, REBOOT).click()
    assert 'role="alert"' in explorer.notices_view.value
    assert "NOT_OBSERVABLE" in explorer.notices_view.value
    explorer.dismiss_button.click()
    assert explorer.notices_view.value == ""
    assert explorer._notices_row.layout.display == "none"


def test_fields_send_nothing(widget, device_id, transport):
    explorer, watcher, fleet = widget(Explorer, device_id), widget(EventWatcher), widget(FleetMap)
    transport.requests.clear()
    explorer.search.value = "sens"
    explorer.type_filter.value = "Light"
    explorer.state_filter.buttons[1].click()
    explorer.resource_search.value = "temp"
    explorer.only_drift.value = True
    watcher.devices.value = "sensor-1"
    watcher.paths.value = "/3303/*"
    watcher.pause_button.value = True
    watcher.follow_button.value = False
    watcher.file.value = "elsewhere.parquet"
    watcher.folder.value = "elsewhere"
    fleet.search.value = "sensor"
    fleet.condition.buttons[1].click()
    assert transport.requests == []
    assert explorer.model.search == "sens"


def test_the_explorer_finds_devices_by_its_fields(widget, bench, device_id):
    bench.add_device("thermometer", endpoint_type="Sensor")
    explorer = widget(Explorer)
    assert options(explorer.devices) == ["○ sensor-1", "○ thermometer"]
    explorer.search.value = "therm"
    assert options(explorer.devices) == ["○ thermometer"]
    explorer.search.value = ""
    explorer.type_filter.value = "Light"
    explorer.devices.buttons[0].click()
    assert options(explorer.devices) == ["● sensor-1"]
    assert explorer.devices.buttons[0].tooltip == "Device: sensor-1, chosen"
    assert explorer.type_filter.options == ("Light", "Sensor")
    assert options(explorer.state_filter) == ["● any", "○ registered"]


def test_a_long_list_of_devices_has_pages(widget, bench):
    for number in range(DEVICES_SHOWN + 2):
        bench.add_device(f"device-{number:02}")
    explorer = widget(Explorer)
    assert len(explorer.devices.buttons) == DEVICES_SHOWN
    explorer.device_pager.next.click()
    assert options(explorer.devices) == ["○ device-12", "○ device-13"]
    assert [one.layout.display for one in explorer.devices.children[1:4]] == ["block", "none", "none"]


def test_a_click_on_what_is_gone_does_nothing(widget, bench, device_id, transport):
    explorer, fleet = widget(Explorer, device_id), widget(FleetMap)
    (row, *_), (tile, *_) = explorer._rows, fleet.tile_buttons
    choice = explorer.devices.buttons[0]
    explorer.resource_search.value = fleet.search.value = explorer.search.value = "nothing like it"
    transport.requests.clear()
    for button in (row.read_button, row.subscribe_button, tile, choice):
        button.click()
    assert transport.requests == []
    assert (explorer.notices_view.value, fleet.notices_view.value, fleet.explorer) == ("", "", None)


def test_names_and_values_of_devices_are_text_never_markup(widget, bench, client):
    device = bench.add_device(NASTY, [{"path": "/10250/0/1", "value": NASTY, "observable": True}])
    client.subscribe(device, "/10250/0/1")
    explorer, fleet, watcher = widget(Explorer, device), widget(FleetMap), widget(EventWatcher)
    explorer.read_buttons[0].click()
    watcher.model.take([observation(1, "1", device), *client.events(after=0, timeout=1)])
    watcher.refresh()
    fleet.tile_buttons[0].click()
    html = "".join(map(all_html, (explorer, fleet, watcher)))
    assert "<img" not in html
    assert html.count("&lt;img src=x onerror=alert(1)&gt;") > 4


def test_rows_are_used_again_for_another_device(widget, bench, device_id):
    big = bench.add_device("big", [{"path": f"/10250/0/{n}", "value": "1"} for n in range(30)])
    explorer = widget(Explorer, device_id)
    before = explorer.rows_view.children
    explorer.choose(big)
    assert explorer.rows_view.children[: len(before)] == before
    assert len(explorer.read_buttons) == 20
    explorer.pager.next.click()
    assert len(explorer.read_buttons) == 10
    explorer.choose(device_id)
    assert len(explorer.read_buttons) == 3
    assert explorer.pager.layout.display == "none"


def test_every_button_and_field_says_what_it_is(widget, device_id):
    widgets = [widget(Explorer, device_id), widget(EventWatcher), widget(FleetMap)]
    widgets[2].tile_buttons[0].click()
    for part in (part for one in widgets for part in all_parts(one)):
        if isinstance(part, ipywidgets.Button | ipywidgets.ToggleButton) and part.layout.display != "none":
            assert part.description
        if isinstance(part, ipywidgets.Text | ipywidgets.Checkbox):
            assert part.description


def test_no_list_of_the_browser_is_used_since_jupyterlab_takes_its_keys(widget, device_id):
    widgets = [widget(Explorer, device_id), widget(EventWatcher), widget(FleetMap)]
    kinds = {type(part) for one in widgets for part in all_parts(one)}
    lists = (ipywidgets.Dropdown, ipywidgets.Select, ipywidgets.SelectMultiple, ipywidgets.RadioButtons)
    assert not kinds & set(lists)


# EventWatcher


def test_at_a_thousand_events_a_second_the_page_is_told_little_and_seldom(widget, seconds):
    watcher = widget(EventWatcher, events_kept=3000, clock=seconds)
    told = {"table": 0, "plot": 0}
    watcher.table_view.observe(lambda _: told.update(table=told["table"] + 1), "value")
    watcher.plot_view.observe(lambda _: told.update(plot=told["plot"] + 1), "value")
    for step in range(40):
        seconds.now = 1000 + step / 4
        watcher._take([observation(step * 250 + number, str(number)) for number in range(250)], 0)
        watcher.refresh()
    assert told["table"] == 40
    assert told["plot"] <= 20
    assert watcher.table_view.value.count("<tr>") == ROWS_SHOWN + 1
    assert len(watcher.table_view.value + watcher.plot_view.value) < 30_000
    assert "1,000.0 events/s · 10,000 events" in watcher.counts_view.value
    assert len(watcher.frame) == 3000


def test_pause_follow_and_clear(widget):
    watcher = widget(EventWatcher)
    watcher._take([observation(number, str(number)) for number in range(30)], 0)
    watcher.refresh()
    assert ">29.0<" in watcher.table_view.value
    watcher.pause_button.value = True
    assert watcher.pause_button.description == "Resume"
    watcher._take([observation(30, "30")], 0)
    watcher.refresh()
    assert ">30.0<" not in watcher.table_view.value
    assert "paused: 1 new" in watcher.counts_view.value
    watcher.pause_button.value = False
    assert ">30.0<" in watcher.table_view.value
    watcher.older_button.click()
    assert watcher.follow_button.value is False
    assert ">30.0<" not in watcher.table_view.value
    watcher.follow_button.value = True
    assert ">30.0<" in watcher.table_view.value
    watcher.clear_button.click()
    assert "0 events" in watcher.counts_view.value
    assert "No event yet" in watcher.empty_view.value


def test_the_watcher_saves_what_it_holds_and_tells_what_failed(widget, tmp_path):
    watcher = widget(EventWatcher)
    watcher._take([observation(1, "1")], 0)
    watcher.file.value = str(tmp_path / "events.parquet")
    watcher.save_button.click()
    assert len(read_parquet(tmp_path / "events.parquet")) == 1
    assert "1 events in" in watcher.saved_view.value
    watcher.save_button.click()
    assert "File exists" in watcher.notices_view.value


def test_what_is_chosen_is_recorded_until_it_is_ended(widget, client, bench, device_id, tmp_path):
    other = bench.add_device("other", [{"path": TEMPERATURE, "value": "1", "observable": True}])
    watcher = widget(EventWatcher, devices=["sensor-1"], paths=["/3303/*"])
    watcher.folder.value = str(tmp_path / "recording.parquet")
    for device in (device_id, other):
        client.subscribe(device, TEMPERATURE)
    watcher.record_button.click()
    assert watcher.record_button.description == "Stop"
    for device in (device_id, other):
        client.read_value(device, TEMPERATURE)
    bench.set_value(device_id, TEMPERATURE, 33)
    watcher.record_button.click()
    assert watcher.record_button.description == "Record"
    frame = Recording(tmp_path / "recording.parquet").events()
    assert set(frame["device_id"]) == {device_id}
    assert 33.0 in set(frame["value_num"])


def test_a_recording_of_what_nothing_covers_says_so_in_the_widget(widget, client, device_id, tmp_path):
    watcher = widget(EventWatcher, paths=["/3303/*"])
    watcher.folder.value = str(tmp_path / "recording.parquet")
    with pytest.warns(NotSubscribedWarning):
        watcher.record_button.click()
    assert watcher.record_button.description == "Stop"
    assert "covers /3303/* of 1 device (sensor-1)" in watcher.notices_view.value
    watcher.record_button.click()
    client.subscribe(device_id, TEMPERATURE)
    watcher.record_button.click()
    assert "sensor-1" not in watcher.notices_view.value


def test_a_recording_ends_with_its_widget_and_its_errors_are_told(widget, tmp_path):
    watcher, other = widget(EventWatcher), widget(EventWatcher, keep_earlier=True)
    watcher.folder.value = other.folder.value = str(tmp_path / "recording.parquet")
    watcher.record_button.click()
    other.record_button.click()
    assert "Recording: " in other.notices_view.value
    assert other.record_button.description == "Record"
    watcher.close()
    other.record_button.click()
    assert other.record_button.description == "Stop"
    assert "recording, " in other.recording_view.value
    other.folder.value = ""
    other.record_button.click()
    other.record_button.click()
    assert "the folder has no name" in other.notices_view.value


def test_a_pattern_that_is_not_one_is_told_and_changes_nothing(widget):
    watcher = widget(EventWatcher, paths=["/3303/*"])
    watcher.paths.value = "/*/0"
    assert "may stand only at the end" in watcher.notices_view.value
    assert watcher.model.paths == ("/3303/*",)


def test_chosen_series_are_drawn(widget):
    watcher = widget(EventWatcher)
    watcher._take([observation(1, "1", "d1"), observation(2, "2", "d2")], 0)
    watcher.refresh()
    assert [text[:4] for text in options(watcher.plotted)] == ["☑ d1", "☑ d2"]
    watcher.plotted.buttons[0].click()
    assert [text[:4] for text in options(watcher.plotted)] == ["☐ d1", "☑ d2"]
    assert [line.name[:2] for line in watcher.model.series] == ["d2"]
    watcher.plotted.buttons[0].click()
    assert [line.name[:2] for line in watcher.model.series] == ["d2", "d1"]


def test_the_series_that_can_be_drawn_have_pages(widget):
    watcher = widget(EventWatcher)
    watcher._take([observation(number, "1", f"d{number:02}") for number in range(8)], 0)
    watcher.refresh()
    watcher.series_pager.next.click()
    assert [text[:5] for text in options(watcher.plotted)] == ["☐ d06", "☐ d07"]
    watcher.plotted.buttons[1].click()
    assert [line.name[:3] for line in watcher.model.series] == ["d01", "d02", "d03", "d07"]


def test_a_click_does_not_overtake_the_name_that_was_entered_before_it(widget, client, device_id, tmp_path):
    client.subscribe(device_id, TEMPERATURE)
    watcher = widget(EventWatcher, live=True)
    watcher.file.value = watcher.folder.value = str(tmp_path / "cut")
    watcher.save_button.click()
    # The message of the field comes on another thread, later.
    PAUSE.wait(SETTLE_SECONDS / 4)
    watcher.file.value = str(tmp_path / "whole.parquet")
    until(lambda: "events in" in watcher.saved_view.value)
    watcher.record_button.click()
    PAUSE.wait(SETTLE_SECONDS / 4)
    watcher.folder.value = str(tmp_path / "recording.parquet")
    watcher.paths.value = "/3303/*"
    until(lambda: watcher.model.recording.is_recording)
    assert {path.name for path in tmp_path.glob("[!_m]*")} == {"recording.parquet", "whole.parquet"}


# FleetMap


def test_a_tile_leads_to_the_explorer(widget, bench, device_id):
    other = bench.add_device("other")
    fleet = widget(FleetMap)
    tiles = {tile.tooltip.split(" ")[0]: tile for tile in fleet.tile_buttons}
    tiles["sensor-1"].click()
    assert fleet.explorer.model.device_id == device_id
    first = fleet.explorer
    tiles["other"].click()
    assert fleet.explorer is first
    assert fleet.explorer.model.device_id == other
    fleet.close()
    assert first.comm is None


# Life


@pytest.mark.parametrize("kind", [Explorer, EventWatcher, FleetMap])
def test_a_live_widget_shows_what_happens_and_leaves_no_thread(widget, client, bench, device_id, kind):
    client.subscribe(device_id, TEMPERATURE)
    before = set(threading.enumerate())
    options = {"device": device_id} if kind is Explorer else {}
    one = widget(kind, live=True, **options)
    until(lambda: client.status().watches)
    bench.set_value(device_id, TEMPERATURE, 23.25)
    until(lambda: ("23.25" if kind is not FleetMap else "all as asked for") in all_html(one))
    assert repr(one).startswith(f"<{kind.__name__} of ")
    one.close()
    assert client.status().watches == 0
    until(lambda: "mirror-widget" not in {thread.name for thread in set(threading.enumerate()) - before})


def test_the_widgets_of_a_client_share_one_poller(widget, client):
    one, other = widget(Explorer, live=True), widget(EventWatcher, live=True)
    until(lambda: client.status().watches)
    assert (one.is_running, other.is_running, client.status().watches) == (True, True, 1)


def test_that_no_events_come_is_told_in_the_widget(widget, client):
    watcher = widget(EventWatcher, live=True)
    until(lambda: client.status().watches)
    client.close()
    until(lambda: "No events come" in watcher.notices_view.value)


def test_the_next_widget_of_a_kind_closes_the_earlier_unless_it_is_to_stay(widget):
    first, watcher = widget(Explorer), widget(EventWatcher)
    second = widget(Explorer)
    assert (first.comm, watcher.comm is None) == (None, False)
    widget(Explorer, keep_earlier=True)
    assert second.comm is not None


def test_a_cell_that_runs_again_closes_what_it_made_and_nothing_else(widget, monkeypatch):
    parent = {"metadata": {"cellId": "a"}, "header": {"msg_id": "1"}}
    shell = SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda: parent))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    one, two = widget(Explorer), widget(Explorer)
    parent["metadata"]["cellId"] = "b"
    elsewhere = widget(Explorer)
    assert None not in (one.comm, two.comm)
    parent |= {"metadata": {"cellId": "a"}, "header": {"msg_id": "2"}}
    again = widget(Explorer)
    assert (one.comm, two.comm) == (None, None)
    assert None not in (elsewhere.comm, again.comm)


def test_a_widget_ends_with_its_block_and_may_be_closed_again(client):
    with Explorer(client, live=False) as explorer:
        parts = all_parts(explorer)
    explorer.close()
    assert {part.comm for part in parts} == {None}


def test_an_asynchronous_client_is_refused():
    with pytest.raises(TypeError, match="takes a MirrorClient, not AsyncMirrorClient"):
        Explorer(AsyncMirrorClient("http://nowhere.localhost", "key"))
