"""Two clients with one key: their shared and separate state, in the order of ``mirror help client``."""

import threading

import pytest
from resource_paths import SWITCH, TEMPERATURE

from mirror_sdk import Conflict


def test_a_request_of_one_client_is_listed_and_resumed_by_another(rivals, new_client, simulator, device_id):
    one, two = rivals
    other_client = new_client()
    simulator.set_online(device_id, False)
    request = one.requests.begin_write(device_id, SWITCH, True, async_id="night")
    assert [waiting.async_response_id for waiting in two.requests.list()] == ["night"]
    assert other_client.requests.list() == []
    resumed = two.requests.resume("night", device_id, SWITCH, method="PUT")
    with pytest.raises(Conflict):
        two.requests.begin_write(device_id, SWITCH, False, async_id="night")
    other_client.requests.begin_write(device_id, TEMPERATURE, 1, async_id="night", allow_read_only=True)
    simulator.set_online(device_id, True)
    request.result(60)
    resumed.result(60)


def test_each_recorder_and_watch_has_its_own_position(rivals, simulator, device_id, tmp_path):
    one, two = rivals
    one.subscribe(device_id, TEMPERATURE)
    received = threading.Semaphore(0)
    with (
        one.record(tmp_path / "one") as first,
        two.record(tmp_path / "two") as second,
        two.watch(lambda _: received.release()),
    ):
        simulator.set_value(device_id, TEMPERATURE, "30")
        assert received.acquire(timeout=60)
    assert [recorder.recording.events()["value_num"].tolist()[-1] for recorder in (first, second)] == [30.0, 30.0]
