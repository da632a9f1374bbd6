"""A client can see that a write of another application failed, but not the reason.

Source: specification 3.1 and 7.
"""

from datetime import timedelta

import pandas as pd
import pytest
from resource_paths import LEVEL

from mirror_sdk.frames import events_frame
from mirror_sdk.wire.device_object import DesiredStatus


@pytest.fixture
def other(new_client):
    return new_client()


@pytest.fixture
def device_id(simulator):
    return simulator.add_device("light-1", [{"path": LEVEL, "value": "10", "writable": True}], endpoint_type="Light")


@pytest.fixture
def failed(client, other, simulator, device_id):
    """The request of a write that the device rejected, after the other client has read the log."""
    list(other.events(limit=1, timeout=0))
    simulator.set_response_mode(device_id, "reject")
    request = client.requests.begin_write(device_id, LEVEL, 40)
    assert request.exception().category == "REJECTED"
    simulator.set_response_mode(device_id, "normal")
    return request


def test_reason_of_a_failed_write_is_only_sent_to_its_application(client, other, device_id, failed):
    own, others = (each.get_device(device_id)[LEVEL].desired for each in (client, other))
    assert own.status is others.status is DesiredStatus.FAILURE
    assert (own.category, others.category) == ("REJECTED", None)
    assert "REJECTED, the device rejected" in str(client.devices.explain(device_id, LEVEL))
    explanation = str(other.devices.explain(device_id, LEVEL))
    assert "only the application that requested it can see why" in explanation
    assert "REJECTED" not in explanation
    pd.testing.assert_frame_equal(client.fleet.snapshot(), other.fleet.snapshot())
    (reason,) = client.requests.frame([failed])["reason"]
    assert reason == "the device rejected the request; its own log may say why"
    assert events_frame(client.events(timeout=0, after=0))["category"].dropna().tolist() == ["REJECTED"]
    assert events_frame(other.events(timeout=0, after=0))["category"].dropna().tolist() == []


def test_a_write_whose_failure_is_not_explained_may_have_reached_the_device(client, other, simulator, device_id):
    """A plan of another application therefore writes the previously reported value again."""
    client.read_value(device_id, LEVEL)
    simulator.set_response_mode(device_id, "silent")
    client.requests.begin_write(device_id, LEVEL, 40, expiry_seconds=300)
    simulator.advance(timedelta(seconds=301))
    simulator.set_response_mode(device_id, "normal")
    assert other.get_device(device_id)[LEVEL].desired.status is DesiredStatus.FAILURE
    for each in (client, other):
        assert each.plan([(device_id, LEVEL, 10)]).frame["decision"].tolist() == ["write"]
