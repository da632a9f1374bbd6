"""The bench against a real server, in process: devices do what they are told, and time passes when it is let."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import matplotlib.pyplot as plt
import pytest
from blocking import Blocking

from mirror_sdk import (
    AsyncBench,
    AsyncMirrorClient,
    Bench,
    DeviceUnavailable,
    MirrorClient,
    NotFound,
    ValueRefused,
    WriteRejected,
)

TEMPERATURE = "/3303/0/5700"
SWITCH = "/3311/0/5850"
URL = "http://mirror.localhost"


@pytest.fixture(params=["Bench", "AsyncBench"])
def bench(mirror: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """Of either kind; an asynchronous one is wrapped, so that it blocks."""
    if request.param == "Bench":
        with MirrorClient(URL, mirror.new_key(), transport=mirror.transport) as operator:
            yield Bench(operator)
        return
    loop = request.getfixturevalue("loop")
    client = AsyncMirrorClient(URL, mirror.new_key(), transport=mirror.async_transport)
    yield Blocking(AsyncBench(client), loop)
    loop.run(client.aclose())


def test_a_new_device_registers_at_once_and_is_listed(client, bench):
    device_id = bench.add_device(
        "sensor-9", [{"path": TEMPERATURE, "value": "1"}], endpoint_type="Fan", queue_mode=True
    )
    (device,) = bench.list_devices()
    listed = (device.id, device.endpoint_name, device.endpoint_type, device.queue_mode, device.registered)
    assert listed == (device_id, "sensor-9", "Fan", True, True)
    assert client.get_directory_device(device_id).state == "registered"


def test_a_device_that_cannot_be_is_refused_by_name(bench):
    with pytest.raises(ValueError, match="path"):
        bench.add_device("s", [{"path": "3303"}])


def test_a_device_changes_its_own_value(client, bench, device_id):
    bench.set_value(device_id, TEMPERATURE, 19.25)
    assert client.read_value(device_id, TEMPERATURE) == 19.25
    bench.set_value(device_id, SWITCH, True)
    assert client.read_value(device_id, SWITCH) is True


def test_a_device_can_have_a_value_that_is_wrong_only_as_a_text(client, bench, device_id):
    bench.set_value(device_id, TEMPERATURE, "warm")
    assert client.begin_read(device_id, TEMPERATURE).result().raw == b"warm"
    with pytest.raises(ValueRefused):
        bench.set_value(device_id, TEMPERATURE, b"\x00\x01")


def test_a_new_resource_is_known_after_an_update_and_a_removed_one_stays_in_the_mirror(client, bench, device_id):
    bench.set_value(device_id, "/3303/1/5700", 5, observable=True)
    assert "/3303/1/5700" not in client.get_device(device_id)
    bench.update_registration(device_id)
    assert "/3303/1/5700" in client.get_device(device_id)
    bench.remove_resource(device_id, "/3303/1/5700")
    bench.update_registration(device_id)
    assert "/3303/1/5700" in client.get_device(device_id)
    assert "/3303/1/5700" not in [resource.uri for resource in client.list_resources(device_id)]


def test_a_device_rejects_when_it_is_told_to(client, bench, device_id):
    bench.set_answer(device_id, "reject")
    with pytest.raises(WriteRejected, match="REJECTED"):
        client.write_value(device_id, SWITCH, True)
    bench.set_answer(device_id, "normal")
    client.write_value(device_id, SWITCH, True)


def test_a_silent_device_is_given_up_when_its_time_is_over(client, bench, device_id):
    bench.set_answer(device_id, "silent")
    request = client.begin_read(device_id, TEMPERATURE)
    bench.advance(timedelta(minutes=10))
    with pytest.raises(DeviceUnavailable, match="TIMEOUT"):
        request.result()


def test_a_slow_device_answers_when_its_latency_is_over(client, bench, device_id):
    bench.set_latency_seconds(device_id, 5)
    request = client.begin_read(device_id, TEMPERATURE)
    bench.advance(4)
    assert not request.done()
    bench.advance(1)
    assert request.done()


def test_a_device_leaves_and_comes_back(client, bench, device_id):
    client.subscribe(device_id, TEMPERATURE)
    bench.deregister(device_id)
    assert client.get_directory_device(device_id).state == "deregistered"
    bench.register(device_id)
    assert client.get_directory_device(device_id).state == "registered"
    assert client.list_subscriptions(device_id) == []


def test_the_clock_moves_by_what_it_is_advanced(bench):
    began = bench.get_clock()
    assert began == datetime(2026, 1, 5, 8, tzinfo=UTC)
    assert bench.advance(1.5) == began + timedelta(seconds=1.5)
    assert bench.advance(timedelta(hours=1)) == bench.get_clock() == began + timedelta(hours=1, seconds=1.5)


@pytest.mark.parametrize("amount", [0, -1, timedelta(days=400)])
def test_time_moves_on_only_and_not_too_far(bench, amount):
    with pytest.raises(ValueError, match="advance_seconds"):
        bench.advance(amount)


def test_an_unknown_simulated_device_is_not_found(bench):
    with pytest.raises(NotFound):
        bench.set_online("nobody", True)


def test_both_kinds_say_whose_they_are(bench):
    assert re.fullmatch(r"<(Async)?Bench of <(Async)?MirrorClient http://mirror.localhost>>", repr(bench))


def test_a_silent_device_is_found_by_its_last_contact(client, bench, device_id):
    other = bench.add_device("sensor-2", [{"path": TEMPERATURE, "value": "1"}])
    for each in (device_id, other):
        client.read_value(each, TEMPERATURE)
    heard_at = client.get_directory_device(device_id).last_contact_at
    assert heard_at == bench.get_clock()
    bench.set_online(device_id, False)
    bench.advance(timedelta(hours=3))
    client.read_value(other, TEMPERATURE)
    silent = client.state_frame().mirror.stale("1h", by="device", devices=client.list_devices())
    assert silent[["endpoint_name", "stale", "last_contact"]].values.tolist() == [["sensor-1", 1, heard_at]]
    assert client.get_directory_device(other).last_contact_at == bench.get_clock()


def test_the_legend_of_what_a_client_heard_has_names(client, bench, device_id):
    client.subscribe(device_id, TEMPERATURE)
    bench.set_value(device_id, TEMPERATURE, 19.25)
    axes = client.events_frame(after=0, timeout=0).mirror.plot_timeline()
    plt.close(axes.figure)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["sensor-1 Temperature · Sensor Value"]


def test_several_instances_are_refused_with_what_can_have_them(bench):
    device = bench.add_device("several", [{"path": "/3/0/7", "value": "3800"}])
    with pytest.raises(ValueRefused, match="a real device can have several instances"):
        bench.set_value(device, "/3/0/7", {0: 3800, 1: 5000})
