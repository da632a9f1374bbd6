"""The widgets without a page: their buttons and fields are used as a page uses them, against the real app."""

import subprocess
import sys
import threading
import warnings
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from patience import until
from resource_paths import SWITCH, TEMPERATURE
from usual import EXECUTABLE, NASTY
from waits import PATIENCE_SECONDS
from widget_parts import START, all_html, all_parts, observation, threads_since

from mirror_sdk import AsyncMirrorClient, MirrorClient
from mirror_sdk.frames import read_parquet
from mirror_sdk.recording import Recording
from mirror_sdk.widgets import EventWatcher, Explorer, FleetTable
from mirror_sdk.widgets.grid import Grid
from mirror_sdk.widgets.models import explorer_model, fleet_model
from mirror_sdk.widgets.models.lines import Point, Series, SeriesKey
from mirror_sdk.widgets.models.status import Status
from mirror_sdk.widgets.models.time_window import Interval
from mirror_sdk.widgets.models.watcher_model import MAX_ROWS
from mirror_sdk.widgets.time_plot import POINTS_DRAWN, TimePlot, picture


def after(milliseconds):
    return START + timedelta(milliseconds=milliseconds)


# Without ipywidgets


def test_models_need_no_notebook_packages_and_views_name_the_missing_one():
    program = """
import sys
sys.modules["ipywidgets"] = None
import mirror_sdk.widgets
from mirror_sdk.widgets.models import explorer_model, fleet_model, watcher_model, write_model
from mirror_sdk.widgets import feed, live, markup
print({"anywidget", "IPython", "matplotlib", "plotly", "tqdm"} & set(sys.modules))
try:
    mirror_sdk.widgets.Explorer
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout == 'set()\nwidgets need ipywidgets: pip install "device-state-mirror[notebook]"\n', run.stderr


# Explorer


def test_the_selected_resources_are_read_subscribed_and_unsubscribed(widget, client, device_id):
    explorer = widget(Explorer)
    explorer.devices.selected = [device_id]
    explorer.resources.selected = [TEMPERATURE, SWITCH]
    explorer.read_button.click()
    values = {one["path"]: one["value"] for one in explorer.resources.rows if one["value"]}
    assert values == {TEMPERATURE: "21.5", SWITCH: "false"}
    explorer.subscribe_button.click()
    assert all(client.subscriptions.is_active(device_id, path) for path in (TEMPERATURE, SWITCH))
    explorer.resources.selected = [SWITCH]
    explorer.unsubscribe_button.click()
    assert client.subscriptions.is_active(device_id, TEMPERATURE)
    assert not client.subscriptions.is_active(device_id, SWITCH)
    assert explorer.selected[["device_id", "path"]].values.tolist() == [[device_id, SWITCH]]
    explorer.select([EXECUTABLE])
    explorer.subscribe_button.click()
    assert "NOT_OBSERVABLE" in explorer.notices_view.value
    explorer.dismiss_button.click()
    assert explorer.notices_view.value == ""


def test_a_panel_writes_the_selected_resource(widget, client, device_id):
    with pytest.raises(TypeError, match="takes a MirrorClient, not AsyncMirrorClient"):
        Explorer(AsyncMirrorClient("http://nowhere.localhost", "key"))
    explorer = widget(Explorer, device_id)
    explorer.write_button.click()
    assert explorer.writer is None
    explorer.select([SWITCH])
    explorer.write_button.click()
    first = explorer.writer
    assert (first.model.value.path, first.model.devices.picked) == (SWITCH, [device_id])
    explorer.write(TEMPERATURE)
    assert (first.comm, explorer.writer.model.value.path) == (None, TEMPERATURE)
    parts = all_parts(explorer)
    explorer.close()
    explorer.close()
    assert {part.comm for part in (*parts, explorer.writer)} == {None}


def test_fields_send_nothing(widget, device_id, transport, monkeypatch):
    # All of the widgets are due to read the mirror again, as after some seconds on a slow machine.
    for model in (explorer_model, fleet_model):
        monkeypatch.setattr(model, "RELOAD_SECONDS", 0)
    explorer, watcher, fleet = widget(Explorer, device_id), widget(EventWatcher), widget(FleetTable)
    transport.requests.clear()
    explorer.devices.search = explorer.resources.search = fleet.grid.search = "sens"
    explorer.select([TEMPERATURE])
    fleet.grid.selected = [device_id]
    fleet.counts.buttons[Status.NEVER_REPORTED].value = True
    watcher.devices.value = "sensor-1"
    watcher.paths.value = "/3303/*"
    watcher.pause_button.value = True
    watcher.file.value = watcher.folder.value = "elsewhere"
    assert transport.requests == []


def test_names_and_values_of_devices_are_text_never_markup(widget, simulator, client):
    device = simulator.add_device(NASTY, [{"path": "/10250/0/1", "value": NASTY, "observable": True}])
    client.subscribe(device, "/10250/0/1")
    explorer, fleet, watcher = widget(Explorer, device), widget(FleetTable), widget(EventWatcher)
    explorer.select(["/10250/0/1"])
    explorer.read_button.click()
    watcher.model.receive([observation(1, device), *client.events(after=0, timeout=1)])
    watcher.refresh()
    fleet.show_device(device)
    html = "".join(map(all_html, (explorer, fleet, watcher)))
    assert "<img" not in html
    assert html.count("&lt;img src=x onerror=alert(1)&gt;") > 4


# EventWatcher


def test_at_a_thousand_events_a_second_few_bounded_messages_are_sent(widget, seconds, monkeypatch):
    watcher = widget(EventWatcher, max_events=3000, clock=seconds)
    rows, plots, show = [], [], watcher.plot.show
    watcher.grid._handle_custom_msg({"have": watcher.grid.table["version"]}, [])
    monkeypatch.setattr(watcher.grid, "send", lambda content, **_: rows.append(len(content["rows"])))
    monkeypatch.setattr(watcher.plot, "show", lambda *shown: plots.append(show(*shown)))
    for step in range(40):
        seconds.now = 1000 + step / 4
        watcher._receive([observation(n, at=after(n)) for n in range(step * 250, step * 250 + 250)], 0)
        watcher.refresh()
    assert rows == [250] * 40
    assert len(plots) <= 20
    assert 200 < max(len(trace.x or ()) for trace in watcher.plot.figure.data) <= POINTS_DRAWN
    assert len(watcher.grid.rows) == MAX_ROWS
    assert "1,000.0 events/s · 10,000 events" in watcher.counts_view.value
    assert len(watcher.frame) == 3000


def test_an_existing_file_is_overwritten_only_when_that_is_chosen(widget, tmp_path):
    watcher = widget(EventWatcher)
    file = tmp_path / "events.parquet"
    watcher._receive([observation(1)], 0)
    watcher.file.value = str(file)
    watcher.save_button.click()
    assert len(read_parquet(file)) == 1
    assert "1 event in" in watcher.saved_view.value
    watcher._receive([observation(2)], 0)
    watcher.save_button.click()
    assert "choose another name, or overwrite it" in watcher.notices_view.value
    assert len(read_parquet(file)) == 1
    watcher.overwrite.value = True
    watcher.save_button.click()
    assert len(read_parquet(file)) == 2
    assert watcher.notices_view.value == ""
    assert watcher.overwrite.value is False


def test_the_report_has_the_picture_and_the_table(widget, tmp_path):
    watcher = widget(EventWatcher)
    assert "data:image/png" not in watcher.static_html()
    watcher._receive([observation(n, at=after(n), text="7.25") for n in range(60)], 0)
    watcher._plotted, watcher._plot_at = -1, 0
    watcher.refresh()
    report = watcher.to_html(tmp_path / "report.html").read_text()
    assert 'src="data:image/png;base64,' in report
    assert 'alt="Plot over time: d1 Temperature · Sensor Value from 7.25 to 7.25"' in report
    assert "changed at (UTC)" in report
    assert report.index(">value<") < report.index("received (UTC)"), "in a narrow page the value is what is in sight"
    assert "2026-01-05 08:00:00.059" in report
    assert "the first 50 of 60 rows" in report
    assert "2026-01-05 08:00:00.001" not in report


# The plot


def series(device, unit, *numbers, broken=()):
    at = datetime(2026, 1, 5, tzinfo=UTC)
    points = [Point(at + timedelta(seconds=n), one, n not in broken) for n, one in enumerate(numbers)]
    return Series(SeriesKey(device, TEMPERATURE), f"{device} {NASTY}", unit, points)


WHOLE = Interval(datetime(2026, 1, 5, tzinfo=UTC), datetime(2026, 1, 5, 0, 1, tzinfo=UTC))


@pytest.fixture
def plot():
    made = TimePlot(lambda _: None, threading.RLock())
    yield made
    made.figure.close()


def test_each_unit_has_an_axis_and_a_broken_line_has_a_hole(plot):
    plot.show([series("d1", "Cel", 1.0, 2.0, 3.0, broken={2}), series("d2", "%", 5.0), series("d3", "Cel", 4.0)], WHOLE)
    one, two, three = plot.figure.data[:3]
    assert (one.yaxis, two.yaxis, three.yaxis) == ("y", "y2", "y")
    layout = plot.figure.layout
    assert (layout.yaxis.title.text, layout.yaxis2.title.text) == ("°C", "%")
    assert layout.yaxis2.domain[1] < layout.yaxis.domain[0]
    assert one.y == (1.0, 2.0, None, 3.0)
    assert one.connectgaps is False
    assert [trace.visible for trace in plot.figure.data] == [True] * 3 + [False] * 3
    # Nothing that is drawn is offered to be uploaded.
    assert plot.figure._config["showSendToCloud"] is False
    assert plot.figure._config["plotlyServerURL"] == ""


def test_a_page_loaded_later_starts_with_the_current_display(plot):
    plot.show([series("d1", "Cel", 1.0, 2.0)], WHOLE)
    state = plot.figure.get_state()
    assert [trace["visible"] for trace in state["_widget_data"]] == [True] + [False] * 5
    assert list(state["_widget_data"][0]["y"]) == [1.0, 2.0]
    assert state["_widget_layout"]["yaxis"]["title"]["text"] == "°C"


def test_texts_of_devices_are_text_in_the_plot_and_no_template(plot):
    plot.show([series("%{x}", '"><b>', 1.0)], WHOLE)
    shown = plot.figure.data[0]
    assert "<img" not in shown.name + shown.meta[0]
    assert "&lt;img src=x" in shown.name
    assert shown.meta[1] == '"&gt;&lt;b&gt;'
    assert "%{x}" not in shown.hovertemplate.replace("%{x|", "")
    assert "%H:%M:%S} UTC" in shown.hovertemplate, "all times have whole seconds"
    assert plot.figure.layout.yaxis.title.text == '"&gt;&lt;b&gt;'


@pytest.mark.parametrize("name", ["$\\frac{1}{0}$", "_hidden", "a\u0300\U0001f321"])
def test_any_data_is_drawn_without_a_warning(name):
    lines = [series(name, "$^$", 1e100, -1e100), series("small", "", 0.0, 1e-300), series("empty", "Cel")]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert picture(lines, WHOLE).startswith(b"\x89PNG")


# Recordings


def test_the_selection_is_recorded_until_it_is_stopped(widget, client, simulator, device_id, tmp_path):
    other = simulator.add_device("other", [{"path": TEMPERATURE, "value": "1", "observable": True}])
    watcher = widget(EventWatcher, devices=["sensor-1"], paths=["/3303/*"])
    watcher.folder.value = str(tmp_path / "recording.parquet")
    for device in (device_id, other):
        client.subscribe(device, TEMPERATURE)
    watcher.record_button.click()
    for device in (device_id, other):
        client.read_value(device, TEMPERATURE)
    simulator.set_value(device_id, TEMPERATURE, 33)
    watcher.record_button.click()
    frame = Recording(tmp_path / "recording.parquet").events()
    assert set(frame["device_id"]) == {device_id}
    assert 33.0 in set(frame["value_num"])


def test_a_recording_that_starts_while_its_widget_closes_is_stopped(widget, client, tmp_path, monkeypatch):
    record, recorders = client.record, []
    called, closed = threading.Event(), threading.Event()

    def record_late(*arguments, **options):
        called.set()
        assert closed.wait(PATIENCE_SECONDS)
        recorders.append(record(*arguments, **options))
        return recorders[0]

    monkeypatch.setattr(client, "record", record_late)
    watcher = widget(EventWatcher, live=True)
    watcher.folder.value = str(tmp_path / "recording.parquet")
    watcher.record_button.click()
    assert called.wait(PATIENCE_SECONDS)
    watcher.close()
    closed.set()
    until(lambda: recorders and not recorders[0].is_running)


# FleetTable


def test_open_displays_the_first_selected_device_and_write_uses_all_selected(widget, simulator, device_id):
    other = simulator.add_device("other")
    fleet = widget(FleetTable)
    fleet.select(["sensor-1"])
    assert fleet.explorer is None
    fleet.open_button.click()
    first = fleet.explorer
    assert first.model.device_id == device_id
    fleet.select([other])
    assert (fleet.explorer, first.model.device_id) == (first, other)
    fleet.select([other, device_id])
    assert first.model.device_id == other
    fleet.write_button.click()
    assert set(fleet.writer.model.devices.picked) == {device_id, other}
    fleet.close()
    assert first.comm is None


# Life


@pytest.mark.parametrize("kind", [Explorer, EventWatcher, FleetTable])
def test_a_live_widget_displays_events_and_leaves_no_thread(widget, client, simulator, device_id, kind):
    client.subscribe(device_id, TEMPERATURE)
    before = set(threading.enumerate())
    options = {"device": device_id} if kind is Explorer else {}
    one = widget(kind, live=True, **options)
    until(lambda: client.notifications.status().watches)
    simulator.set_value(device_id, TEMPERATURE, 23.25)
    said = "In sync" if kind is FleetTable else "23.25"
    until(lambda: said in "".join(str(part.rows) for part in all_parts(one) if isinstance(part, Grid)))
    assert repr(one).startswith(f"<{kind.__name__} of ")
    one.close()
    assert client.notifications.status().watches == 0
    until(lambda: "mirror-widget" not in threads_since(before))


def test_closed_client_ends_the_threads_of_its_widgets(widget, client):
    before = set(threading.enumerate())
    watcher = widget(EventWatcher, live=True)
    until(lambda: client.notifications.status().watches)
    client.close()
    until(lambda: not {"mirror-widget", "mirror-watch"} & threads_since(before))
    assert not watcher.is_running
    assert "closed" in watcher.notices_view.value


def test_widget_made_again_with_a_new_client_replaces_the_earlier_one(widget, mirror, client):
    earlier = widget(EventWatcher)
    with MirrorClient(client.base_url, client._session.sender.api_key, transport=mirror.transport) as again:
        other = MirrorClient(client.base_url, mirror.new_key(), transport=mirror.transport)
        with other, EventWatcher(other, live=False):
            assert earlier.comm is not None
        with EventWatcher(again, live=False):
            assert earlier.comm is None
    # As the next one of its kind does, unless it is to stay.
    first, watcher = widget(Explorer), widget(EventWatcher)
    second = widget(Explorer)
    assert (first.comm, watcher.comm is None) == (None, False)
    widget(Explorer, keep_previous=True)
    assert second.comm is not None


def test_a_cell_that_runs_again_closes_only_its_own_widgets(widget, monkeypatch):
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
