"""An async-id identifies its request for exactly 24 h after the response. Source: wire.md 2."""

from dataclasses import replace

import pytest
from device_resources import sensor, setting
from resource_paths import HUMIDITY, TEMPERATURE

DAY_SECONDS = 24 * 3600


@pytest.fixture
def device(server, key):
    resources = [sensor(path, "1") for path in (TEMPERATURE, HUMIDITY)]
    return server.add_device(key, "sensor-1", *resources)


def end_of_log(server, key):
    return server.services.log.last_seq(key.split("_")[1])


def response_ids(server, key, after):
    return [entry["id"] for kind, entry in server.log(key, after) if kind == "async-responses"]


def test_async_id_is_reserved_per_application_for_a_day_after_the_response(server, key, other, device):
    # Between two hourly runs of the housekeeping.
    server.advance(key, 1800)
    for async_id in ("id", "same"):
        assert server.submit(key, device, async_id, "GET", TEMPERATURE).status_code == 202
    server.advance(key, DAY_SECONDS - 1)
    position = end_of_log(server, key)
    assert server.submit(key, device, "id", "GET", HUMIDITY).status_code == 409
    for async_id in ("id", "same"):
        assert server.submit(key, device, async_id, "GET", TEMPERATURE).status_code == 202
    assert server.submit(other, device, "id", "GET", HUMIDITY).status_code == 202
    assert response_ids(server, key, position) == []
    server.advance(key, 1)
    assert server.submit(key, device, "id", "GET", HUMIDITY).status_code == 202
    assert server.submit(key, device, "same", "GET", TEMPERATURE).status_code == 202
    assert response_ids(server, key, position) == ["id", "same"]


def test_reservation_starts_with_the_response_regardless_of_log_retention(server, key, device):
    server.settings = replace(server.settings, keep_log_seconds=60)
    server.restart()
    server.patch(key, device, online=False)
    server.submit(key, device, "id", "GET", TEMPERATURE, expiry_seconds=3 * DAY_SECONDS)
    server.advance(key, 2 * DAY_SECONDS)
    assert server.submit(key, device, "id", "GET", HUMIDITY).status_code == 409
    server.patch(key, device, online=True)
    server.advance(key, DAY_SECONDS - 1)
    assert server.submit(key, device, "id", "GET", HUMIDITY).status_code == 409
    server.advance(key, 1)
    assert server.submit(key, device, "id", "GET", HUMIDITY).status_code == 202


def test_write_with_a_reused_async_id_sets_the_desired_value(server, key):
    """The first command is deleted with its id, and its desired value stays."""
    path = "/3311/0/5851"
    device = server.add_device(key, "light-1", setting(path))
    server.submit(key, device, "id", "PUT", path, value="1")
    server.advance(key, DAY_SECONDS)
    assert server.resource(key, device, path)["desired"]["status"] == 1
    server.submit(key, device, "id", "PUT", path, value="2")
    desired = server.resource(key, device, path)["desired"]
    assert (desired["value"], desired["status"]) == ("Mg==", 1)
