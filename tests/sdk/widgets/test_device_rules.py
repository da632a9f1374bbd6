"""The status and the main value of a device: the same in the fleet table and on the server's page.

``device_rules.json`` has examples. A test with a browser compares those of the page.
"""

import pytest
from device_rules import CASES, STATUSES, device_objects

from mirror_sdk.frames import state_frame
from mirror_sdk.widgets.models.fleet_model import DEVICE_STATUSES, FleetModel
from mirror_sdk.wire.directory import Device


def test_statuses_have_one_order():
    assert [status.word for status in DEVICE_STATUSES] == STATUSES


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_device_has_the_status_and_the_main_value_of_the_example(client, case):
    model = FleetModel(client)
    times = {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}
    device = Device.model_validate({"id": "d", "endpoint_name": "d", **times, **case["device"]})
    for read in device_objects(case):
        state = state_frame([read], raw=True, taken_at=read.created_at)
        summary = model._summarize(state, {"d": device}, {"d": "d"})["d"]
    assert (summary.status.word, summary.text, summary.main_path) == (case["status"], case["text"], case["main"])
