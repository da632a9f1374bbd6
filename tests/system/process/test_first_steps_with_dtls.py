"""The cells of the first notebook with devices of ``mirror-device`` that have keys."""

from __future__ import annotations

import pytest
from process_server import wait_until
from test_first_steps_with_real_devices import Place, place, run_first_notebook  # noqa: F401 - a fixture

pytestmark = pytest.mark.process


@pytest.mark.parametrize("place", ["coaps"], indirect=True)
def test_the_first_notebook_with_real_devices_and_a_service_that_is_killed_between(
    place: Place,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_first_notebook(place, capsys)


@pytest.mark.parametrize("place", ["coaps"], indirect=True)
def test_a_device_with_a_wrong_key_stays_out(place: Place) -> None:  # noqa: F811
    place.new_key("my-station")
    other = place.new_key("my-light")
    unknown = "00" * 16
    for device in [place.begin("my-station", "weather-station", key=key) for key in (other, unknown)]:
        assert device.wait(60) == 1
        assert "registered" not in device.stderr
    with place.server.application().http as http:
        assert http.get("/v3/devices").json()["data"] == []
        # The server waits longer than a device for a handshake to go on.
        failed = 'mirror_coap_handshakes_total{outcome="failed"} 2.0'
        wait_until(lambda: failed in http.get("/metrics").text, "two handshakes that failed")
        assert 'mirror_coap_handshakes_total{outcome="done"} 0.0' in http.get("/metrics").text
    assert not any(secret in place.server.stderr for secret in (other, unknown))
