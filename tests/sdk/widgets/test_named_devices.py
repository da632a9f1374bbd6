"""Widgets accept the same device arguments as the client."""

import pytest
from client_test_data import DIMMER
from resource_paths import LEVEL

from mirror_sdk import EventKind, UnknownDevice
from mirror_sdk.widgets import EventWatcher, Explorer, FleetTable, WritePanel


@pytest.fixture
def light(simulator):
    simulator.add_device("station-01", [])
    return simulator.add_device("light-01", [DIMMER])


def test_widgets_take_a_device_by_id_and_name_of_the_directory_of_the_mirror_and_of_a_request(plain, light):
    handle = plain.requests.begin_read(light, LEVEL)
    plain.subscribe(light, LEVEL)
    # The subscription delivers it after a moment.
    assert any(event.kind is EventKind.OBSERVATION for event in plain.events(after=0))
    for spelling in (light, "light-01", plain.devices.get(light), plain.get_device(light), handle):
        with Explorer(plain, spelling, live=False) as explorer:
            assert explorer.model.device_id == light
            explorer.choose("station-01")
            explorer.choose(spelling)
            assert explorer.model.title == "light-01"
        with FleetTable(plain, live=False) as fleet:
            fleet.show_device(spelling)
            assert fleet.explorer.model.device_id == light
        with WritePanel(plain, [spelling, light], live=False) as panel:
            assert panel.model.devices.picked == [light]
        with EventWatcher(plain, [spelling], live=False) as watcher:
            watcher.model.receive(plain.events(after=0, timeout=0))
            assert set(watcher.frame["device_id"].dropna()) == {light}


def test_unknown_device_name_is_an_error_at_once(plain, light):
    for widget in (Explorer, WritePanel):
        with pytest.raises(UnknownDevice, match="similar: light-01"):
            widget(plain, "ligth-01", live=False)
