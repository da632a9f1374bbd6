"""The setup of notebooks: a fleet that starts over, separate devices, a time of day, plots for light and dark pages."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_rgb

from mirror_sdk import NotFound, examples
from mirror_sdk.lab.demo import DemoError

SET_POINT = {"path": "/3308/0/5900", "value": "20.5", "observable": True, "writable": True}
VALVE = {"endpoint_name": "valve-01", "endpoint_type": "Valve", "resources": [SET_POINT]}
PAGES = ["#ffffff", "#111111"]
"""White, and the background of JupyterLab's dark theme."""


def test_reset_makes_registered_devices_respond_and_removes_rules_and_subscriptions(plain, simulator, ids):
    plain.subscriptions.rules.add([{"resource_path": ["/3308/*"]}])
    (valve,) = examples.have_devices(simulator, [VALVE]).values()
    assert plain.subscriptions.list(valve) == ["/3308/0/5900"]
    simulator.deregister(ids[2])
    simulator.set_online(ids[0], False)
    simulator.set_response_mode(ids[1], "reject")
    simulator.set_latency_seconds(ids[1], 2)
    examples.start_over(plain)
    behaviors = {(device.online, device.answer, device.latency_seconds) for device in simulator.list_devices()}
    assert behaviors == {(True, "normal", 0)}
    assert ids[2] in [device.id for device in plain.devices.list(state="deregistered")]
    assert (plain.subscriptions.rules.list(), plain.subscriptions.list(valve)) == ([], [])


@pytest.mark.parametrize("manual_clock", [False])
def test_a_mirror_with_real_devices_or_real_time_is_not_changed(plain, simulator, monkeypatch):
    valve = simulator.add_device(**VALVE)
    simulator.set_online(valve, False)
    assert not simulator.has_manual_clock()
    with pytest.raises(DemoError, match=r"start it with mirror-server demo --clock manual, or unset API_HOST"):
        examples.start_over(plain)
    assert [device.online for device in simulator.list_devices()] == [False]
    plain.subscriptions.rules.add([{"resource_path": ["/3308/*"]}])
    monkeypatch.setattr("mirror_sdk.wire.routes.SIMULATOR_DEVICES", "/sim/v1/nothing")
    with pytest.raises(NotFound):
        examples.start_over(plain)
    assert len(plain.subscriptions.rules.list()) == 1


def test_a_second_call_restores_a_device_to_its_description(plain, simulator):
    first = examples.have_devices(simulator, [VALVE])
    plain.write_value("valve-01", "/3308/0/5900", 19)
    simulator.deregister("valve-01")
    assert examples.have_devices(simulator, [VALVE]) == first
    assert plain.devices.get("valve-01").state == "registered"
    assert plain.read_value("valve-01", "/3308/0/5900") == 20.5


HOURS = [
    (12, {}, datetime(2026, 1, 5, 12, tzinfo=UTC)),
    (8, {}, datetime(2026, 1, 5, 8, 20, tzinfo=UTC)),
    (7, {}, datetime(2026, 1, 6, 7, tzinfo=UTC)),
    (9, {"tz": "Europe/Berlin"}, datetime(2026, 1, 5, 8, 20, tzinfo=UTC)),
    (7, {"tz": "Europe/Berlin"}, datetime(2026, 1, 6, 6, tzinfo=UTC)),
    (8, {"weekdays": [5, 6]}, datetime(2026, 1, 10, 8, tzinfo=UTC)),
]


@pytest.mark.parametrize(("hour", "options", "expected"), HOURS)
def test_time_passes_to_an_hour_and_not_where_it_is_that_hour(simulator, hour, options, expected):
    started_at = simulator.advance(timedelta(minutes=20))
    assert started_at == datetime(2026, 1, 5, 8, 20, tzinfo=UTC)
    assert examples.advance_to(simulator, hour, **options) == expected
    assert simulator.get_clock() == expected


def test_plots_can_be_read_on_light_and_dark_pages_and_have_no_background():
    picture = io.BytesIO()
    with mpl.rc_context():
        examples.style_plots()
        texts = [mpl.rcParams[f"{name}color"] for name in ("text.", "axes.label", "xtick.", "ytick.")]
        lines = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
        figure, axes = plt.subplots()
        axes.plot([1, 2])
        figure.savefig(picture, format="png")
        plt.close(figure)
    picture.seek(0)
    assert plt.imread(picture)[0, 0, 3] == 0
    assert len(set(lines)) == 10
    for page in PAGES:
        assert min(contrast(text, page) for text in texts) > 4.3
        assert min(contrast(line, page) for line in lines) > 3


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colors (WCAG 2)."""
    dark, bright = sorted([luminance(one), luminance(other)])
    return (bright + 0.05) / (dark + 0.05)


def luminance(color: str) -> float:
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(color)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
