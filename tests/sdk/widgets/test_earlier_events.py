"""The watcher starts with the history of the service, if it has one."""

from datetime import timedelta

import pytest
from client_test_data import URL
from resource_paths import TEMPERATURE

from mirror_sdk import MirrorClient, Simulator, show_progress
from mirror_sdk.events import EventKind
from mirror_sdk.recording import Recording
from mirror_sdk.widgets import EventWatcher
from mirror_sdk.widgets.models import earlier_events
from mirror_sdk.widgets.models.earlier_events import read_earlier_events
from mirror_server.service.keys import Scope

pytestmark = [pytest.mark.keeps_history, pytest.mark.usefixtures("earlier")]


@pytest.fixture
def earlier(mirror, simulator: Simulator, device_id, plain):
    """Values that another application received before the key of the client existed."""
    with MirrorClient(URL, mirror.new_key(), transport=mirror.transport) as other:
        other.subscribe(device_id, TEMPERATURE)
        for value in (22.5, 23.5):
            simulator.advance(60)
            simulator.set_value(device_id, TEMPERATURE, value)
        other.unsubscribe(device_id, TEMPERATURE)
    simulator.advance(60)


def reported(events):
    return [event.value.python for event in events if event.path == TEMPERATURE]


def every_event(_):
    return True


def test_history_of_other_subscribers_comes_before_the_log(mirror, plain, simulator, device_id, monkeypatch):
    def recorded(plain, most=100, **options):
        return reported(read_earlier_events(plain, None, every_event, most, **options).recorded)

    found = read_earlier_events(plain, None, every_event, 100)
    assert reported(found.recorded) == [21.5, 22.5, 23.5]
    assert EventKind.REGISTRATION in {event.kind for event in found.recorded}
    assert [event.changed_at for event in found.recorded] == sorted(event.changed_at for event in found.recorded)
    assert reported(found.logged) == []
    assert recorded(plain, devices=[device_id]) == [21.5, 22.5, 23.5]
    assert recorded(plain, paths=["/3311/*"]) == recorded(plain, devices=["nobody"]) == []
    assert recorded(plain, most=1, paths=[TEMPERATURE]) == [23.5]
    with MirrorClient(URL, mirror.new_key(Scope.SUBSCRIBE), transport=mirror.transport) as listener:
        listener.subscriptions.rules.list()
        assert recorded(listener) == []
    # As long as a plot that begins in the first year.
    assert recorded(plain, length=timedelta(days=366 * 2200)) == [21.5, 22.5, 23.5]
    monkeypatch.setattr(earlier_events, "ENTRIES_READ", 4)
    assert 23.5 in recorded(plain)
    assert 21.5 not in recorded(plain)
    # The history reaches a day back.
    simulator.advance(timedelta(days=2))
    assert recorded(plain) == []


def test_history_and_log_have_no_event_twice(plain, simulator, device_id):
    plain.subscribe(device_id, TEMPERATURE)
    simulator.advance(60)
    simulator.set_value(device_id, TEMPERATURE, 24.5)
    found = read_earlier_events(plain, None, every_event, 100)
    assert reported(found.logged)[-1] == 24.5
    assert 24.5 not in reported(found.recorded)
    assert reported(found.recorded)[:2] == [21.5, 22.5]


def test_recording_replaces_the_history(plain, simulator, folder):
    with plain.record(folder):
        simulator.advance(1)
    assert reported(read_earlier_events(plain, Recording(folder), every_event, 100).recorded) == []


def test_watcher_prints_no_progress_bar(plain, capfd):
    show_progress(True)
    try:
        with EventWatcher(plain) as watcher:
            watcher._live.wait_until_idle(60)
            watcher.refresh()
            assert watcher.model.before
    finally:
        show_progress(None)
    assert capfd.readouterr().err == ""
