"""The widgets without a page: their buttons and fields are used as a page uses them, against the real app."""

import gc
import subprocess
import sys
import threading
from types import ModuleType, SimpleNamespace
from weakref import ref

from client_test_data import NASTY
from IPython.core.interactiveshell import InteractiveShell
from resource_paths import TEMPERATURE
from thread_waits import until
from traitlets.config import Config
from widget_elements import do, observation, threads_since, wait_for_events

from mirror_sdk import MirrorClient
from mirror_sdk.widgets import EventWatcher, Explorer

# Without ipywidgets


def test_models_need_no_notebook_packages_and_views_name_the_missing_one():
    program = """
import sys
sys.modules["ipywidgets"] = None
import mirror_sdk.widgets
from mirror_sdk.widgets.models import explorer_model, fleet_model, watcher_model, write_model
from mirror_sdk.widgets import feed, live, static
print({"anywidget", "IPython", "matplotlib", "tqdm"} & set(sys.modules))
try:
    mirror_sdk.widgets.Explorer
except ImportError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout == 'set()\nwidgets need ipywidgets: pip install "device-state-mirror[notebook]"\n', run.stderr


# EventWatcher


def test_fields_send_nothing(widget, device_id, transport):
    watcher = widget(EventWatcher)
    transport.requests.clear()
    do(watcher, "choose", "sensor-1", "/3303/*")
    do(watcher, "pause")
    do(watcher, "follow", 60_000)
    assert transport.requests == []


def test_names_and_values_of_devices_are_text_never_markup(widget, simulator, client):
    device = simulator.add_device(NASTY, [{"path": "/10250/0/1", "value": NASTY, "observable": True}])
    client.subscribe(device, "/10250/0/1")
    watcher = widget(EventWatcher)
    watcher.model.receive([observation(1, device), *client.events(after=0, timeout=1)])
    watcher.refresh()
    html = watcher._static_body()()
    assert "<img src=x" not in html
    assert html.count("&lt;img src=x onerror=alert(1)&gt;") > 1


# Life


def test_a_live_widget_displays_events_and_leaves_no_thread(widget, client, simulator, device_id):
    client.subscribe(device_id, TEMPERATURE)
    before = set(threading.enumerate())
    one = widget(EventWatcher, live=True)
    wait_for_events(client)
    simulator.set_value(device_id, TEMPERATURE, 23.25)
    until(lambda: "23.25" in str(one._rows("events").rows))
    assert repr(one).startswith("<EventWatcher of ")
    one.close()
    assert client.notifications.status().watches == 0
    until(lambda: "mirror-widget" not in threads_since(before))


def test_closed_client_ends_the_threads_of_its_widgets(widget, client):
    before = set(threading.enumerate())
    watcher = widget(EventWatcher, live=True)
    wait_for_events(client)
    client.close()
    until(lambda: not {"mirror-widget", "mirror-watch"} & threads_since(before))
    assert not watcher.is_running
    assert "closed" in watcher._state["notices"][0]


def test_widget_made_again_with_a_new_client_replaces_the_earlier_one(widget, mirror, client):
    earlier = widget(EventWatcher)
    with MirrorClient(client.base_url, client._session.sender.api_key, transport=mirror.transport) as again:
        other = MirrorClient(client.base_url, mirror.new_key(), transport=mirror.transport)
        with other, EventWatcher(other, live=False):
            assert earlier.comm is not None
        with EventWatcher(again, live=False):
            assert earlier.comm is None
    # Like the next widget of its kind, unless the first one must stay.
    first, watcher = widget(Explorer), widget(EventWatcher)
    second = widget(Explorer)
    assert (first.comm, watcher.comm is None) == (None, False)
    widget(Explorer, keep_previous=True)
    assert second.comm is not None


def test_a_cell_that_runs_again_releases_its_earlier_widgets(client, monkeypatch):
    parent = {"metadata": {"cellId": "a"}, "header": {}}
    config = Config({"HistoryManager": {"enabled": False}})
    shell = InteractiveShell(config=config, user_module=ModuleType("notebook"))
    shell.kernel = SimpleNamespace(get_parent=lambda: parent)
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    shell.push({"client": client, "EventWatcher": EventWatcher})
    watchers = []
    for number in range(1, 7):
        parent["header"]["msg_id"] = str(number)
        shell.run_cell("EventWatcher(client, live=False)", store_history=True).raise_error()
        watchers.append(ref(shell.user_ns["Out"][number]))
    gc.collect()
    # IPython also keeps the last three outputs as "_", "__" and "___".
    assert [watcher() is None for watcher in watchers] == [True] * 3 + [False] * 3
    assert list(shell.user_ns["Out"]) == [6]
    watchers[-1]().close()


def test_a_widget_replaces_an_earlier_one_without_the_outputs_of_ipython(widget, monkeypatch):
    parent = {"metadata": {"cellId": "a"}, "header": {"msg_id": "1"}}
    # As after the cell "_oh = None".
    shell = SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda: parent), user_ns={"_oh": None})
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    first = widget(EventWatcher, keep_previous=False)
    parent["header"]["msg_id"] = "2"
    second = widget(EventWatcher, keep_previous=False)
    assert first.comm is None
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
