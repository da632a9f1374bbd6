"""Widgets take a device as the client does."""

import pytest
from usual import DIMMER, LEVEL

from mirror_sdk import EventKind, UnknownDevice
from mirror_sdk.widgets import EventWatcher, Explorer, FleetMap, WritePanel


@pytest.fixture
def light(bench):
    bench.add_device("station-01", [])
    return bench.add_device("light-01", [DIMMER])


@pytest.fixture
def spellings(plain, light):
    """A device by id, by name, of the directory, of the mirror, and of a request."""
    handle = plain.begin_read(light, LEVEL)
    return [light, "light-01", plain.get_directory_device(light), plain.get_device(light), handle]


def test_explorers_and_panels_take_a_device_in_any_form(plain, light, spellings):
    for spelling in spellings:
        with Explorer(plain, spelling, live=False) as explorer:
            assert explorer.model.device_id == light
            explorer.choose("station-01")
            explorer.choose(spelling)
            assert explorer.model.title == "light-01"
        with FleetMap(plain, live=False) as fleet:
            fleet.show_device(spelling)
            assert fleet.explorer.model.device_id == light
        with WritePanel(plain, [spelling, light], live=False) as panel:
            assert panel.model.devices.picked == [light]


def test_a_watcher_shows_the_events_of_a_device_in_any_form(plain, light, spellings):
    plain.subscribe(light, LEVEL)
    # The subscription brings it in a while.
    assert any(event.kind is EventKind.OBSERVATION for event in plain.events(after=0))
    for spelling in spellings:
        with EventWatcher(plain, [spelling], live=False) as watcher:
            watcher.model.take(plain.events(after=0, timeout=0))
            assert set(watcher.frame["device_id"].dropna()) == {light}


def test_a_name_that_none_has_is_told_at_once(plain, light):
    for widget in (Explorer, WritePanel):
        with pytest.raises(UnknownDevice, match="close to it: light-01"):
            widget(plain, "ligth-01", live=False)
