"""Each fault does what it says, to both kinds of clients, and a robust client copes with it."""

import asyncio
import inspect
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from operator import attrgetter

import httpx
import pytest
from resource_paths import SWITCH, TEMPERATURE

from mirror_sdk import ConnectionFailed, DeviceUnavailable, EventKind, UnknownDevice, WaitTimeout, WriteRejected

REAL_WAIT_SECONDS = 60
PLACING = "/v2/device-requests/*"
SENSOR = [
    {"path": TEMPERATURE, "value": "0", "observable": True},
    {"path": SWITCH, "value": "0", "observable": True, "writable": True},
]


@pytest.fixture
def sensor(mirror):
    return mirror.simulator.add_device("sensor-1", SENSOR)


@pytest.fixture
def observed(mirror, sensor):
    """A device whose temperature is observed, and whose initial value was reported."""
    mirror.client.subscribe(sensor, TEMPERATURE)
    return sensor


@pytest.fixture
def call(mirror, request):
    """Call a method of a client of either kind."""
    key = mirror.new_key()

    def blocking(name, *arguments, **options):
        return attrgetter(name)(mirror.new_client(key, timeout=5))(*arguments, **options)

    def on_loop(name, *arguments, **options):
        async def use():
            async with mirror.new_async_client(key, timeout=5) as client:
                made = attrgetter(name)(client)(*arguments, **options)
                return await made if inspect.isawaitable(made) else made

        return asyncio.run(use())

    return on_loop if request.param == "async" else blocking


BOTH = pytest.mark.parametrize("call", ["sync", "async"], indirect=True)


def reported(mirror, after=0):
    """Return the values of the observation events, in the order of their arrival."""
    return [event.value.python for event in mirror.read_log(after=after) if event.kind == EventKind.OBSERVATION]


def report(mirror, device_id, *values):
    for value in values:
        mirror.simulator.set_value(device_id, TEMPERATURE, value)


# Requests and responses


@BOTH
@pytest.mark.parametrize("what", ["request", "response"])
def test_a_client_retries_after_a_loss(mirror, faults, sensor, call, what):
    fault = faults.drop(what, times=2)
    assert call("get_device", sensor).device_id == sensor
    assert (fault.acted, fault.is_live) == (2, False)


@BOTH
def test_a_lost_request_never_arrives_and_a_lost_response_follows_one_that_did(mirror, faults, sensor, call):
    with faults.drop("request", times=None), pytest.raises(ConnectionFailed, match="ConnectError"):
        call("subscribe", sensor, TEMPERATURE)
    assert reported(mirror) == []
    assert not call("subscriptions.is_active", sensor, TEMPERATURE)
    with faults.drop("response", times=None), pytest.raises(ConnectionFailed, match="ReadError"):
        call("subscribe", sensor, TEMPERATURE)
    assert call("subscriptions.is_active", sensor, TEMPERATURE)


def test_a_write_with_a_lost_response_is_submitted_once(mirror, faults, sensor):
    faults.drop("response", path=PLACING)
    mirror.client.write_value(sensor, SWITCH, True)
    assert [event.kind for event in mirror.read_log()] == [EventKind.REGISTRATION, EventKind.ASYNC_RESPONSE]


@pytest.fixture
def pauses(monkeypatch):
    """Record the durations of sleeps, of threads and of tasks."""
    durations = [0.0]
    real, real_of_tasks = time.sleep, asyncio.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: durations.append(seconds) or real(seconds))
    monkeypatch.setattr(asyncio, "sleep", lambda seconds: durations.append(seconds) or real_of_tasks(seconds))
    return durations


def test_pauses_after_failures_take_no_time(mirror, faults, sensor, pauses):
    faults.drop("response", times=2, path=PLACING)
    request = mirror.client.requests.begin_read(sensor, TEMPERATURE)
    faults.drop("response", times=8, path="/v2/notification/*")
    assert request.result().python == 0
    assert max(pauses) <= 0.01
    assert sum(pauses) < 1


def test_conditions_say_which_requests_are_meant(mirror, faults, sensor):
    writes = faults.drop("response", times=None, method="POST")
    echo = faults.drop("response", times=None, path="/v3/devices/*")
    mirror.client.subscriptions.list(sensor)
    assert (writes.acted, echo.acted) == (0, 0)
    with pytest.raises(ConnectionFailed):
        mirror.client.get_device(sensor)
    with pytest.raises(ConnectionFailed):
        mirror.client.requests.begin_read(sensor, TEMPERATURE)
    assert (writes.acted, echo.acted) == (3, 3)


@BOTH
def test_a_delayed_response_advances_the_clock(mirror, faults, clock, sensor, call):
    began = clock.now()
    faults.delay("response", "4s")
    assert call("get_device", sensor).created_at == began
    assert clock.now() == began + timedelta(seconds=4)


@BOTH
def test_a_response_later_than_the_timeout_is_a_timeout(mirror, faults, clock, sensor, call):
    began = clock.now()
    fault = faults.delay("response", "1h", times=None)
    with pytest.raises(ConnectionFailed, match="ReadTimeout"):
        call("get_device", sensor)
    assert clock.now() == began + fault.acted * timedelta(seconds=5)


@BOTH
def test_a_request_that_arrives_twice_is_queued_once(mirror, faults, sensor, call):
    fault = faults.duplicate("request", path=PLACING)
    call("write_value", sensor, SWITCH, True)
    assert fault.acted == 1
    assert mirror.client.get_device(sensor)[SWITCH].desired.status == 1


def test_a_duplicated_request_does_arrive_twice(mirror, faults):
    mirror.client.devices.list()
    headers = {"Authorization": f"Bearer {mirror.new_key(['admin'])}"}
    faults.duplicate("request", method="POST")
    with httpx.Client(base_url=mirror.url, headers=headers, transport=mirror.transport) as http:
        began = mirror.clock.now()
        answer = http.post("/sim/v1/clock", json={"advance_seconds": 60})
    assert answer.status_code == 200
    assert mirror.clock.now() - began == timedelta(minutes=2)


# Entries


def test_a_dropped_notification_is_missing_for_every_reader(mirror, faults, observed):
    fault = faults.drop("notification", times=2)
    mirror.client.read_value(observed, SWITCH)
    report(mirror, observed, 1, 2, 3)
    assert fault.acted == 0
    for _ in range(3):
        assert reported(mirror) == [2, 3]
    assert fault.acted == 2
    assert [event.kind for event in mirror.read_log()].count(EventKind.GAP) == 0


def test_faults_of_notifications_go_by_path_and_device(mirror, faults, observed):
    other = mirror.simulator.add_device("sensor-2", SENSOR)
    mirror.client.subscribe(other, TEMPERATURE)
    mirror.client.subscribe(observed, SWITCH)
    end = mirror.read_log()[-1].seq
    faults.drop("notification", times=None, device=other, path="/3303/*")
    report(mirror, observed, 1)
    report(mirror, other, 2)
    mirror.simulator.set_value(observed, SWITCH, True)
    assert reported(mirror, after=end) == [1, True]


def test_a_dropped_async_response_never_comes(mirror, faults, sensor):
    faults.drop("async-response")
    lost = mirror.client.requests.begin_read(sensor, TEMPERATURE)
    came = mirror.client.requests.begin_read(sensor, TEMPERATURE)
    assert came.result().python == 0
    assert not lost.done()
    with pytest.raises(WaitTimeout):
        lost.result(timeout=0.01)
    faults.clear()
    resumed = mirror.client.requests.resume(lost.async_id, sensor, TEMPERATURE)
    assert resumed.result().python == 0


@pytest.mark.parametrize("what", ["notification", "async-response"])
def test_a_duplicate_comes_twice_with_one_identity(mirror, faults, observed, what):
    end = mirror.read_log()[-1].seq
    faults.duplicate(what)
    report(mirror, observed, 1)
    request = mirror.client.requests.begin_read(observed, TEMPERATURE)
    events = mirror.read_log(after=end)
    assert len(events) == 3
    assert len({event.uid for event in events}) == 2
    assert request.result().python == 1


def test_notifications_are_reversed_once_all_are_there(mirror, faults, observed):
    end = mirror.read_log()[-1].seq
    fault = faults.reorder(3)
    report(mirror, observed, 1, 2)
    assert reported(mirror, after=end) == []
    assert fault.is_live
    report(mirror, observed, 3, 4)
    assert reported(mirror, after=end) == [3, 2, 1, 4]
    assert reported(mirror, after=end) == [3, 2, 1, 4]


def test_reordering_spans_several_messages(mirror, faults, observed):
    end = mirror.read_log()[-1].seq
    faults.reorder(2)
    report(mirror, observed, 1)
    silent = mirror.simulator.add_device("silent", SENSOR)
    mirror.simulator.set_response_mode(silent, "silent")
    request = mirror.client.requests.begin_read(silent, TEMPERATURE)
    mirror.clock.advance("10min")
    report(mirror, observed, 2)
    events = list(mirror.client.events(after=end, limit=4))
    assert [event.value.python for event in events if event.kind == EventKind.OBSERVATION] == [2, 1]
    assert [event.category for event in events if event.kind == EventKind.ASYNC_RESPONSE] == ["TIMEOUT"]
    assert isinstance(request.exception(), DeviceUnavailable)


def test_a_waiting_task_receives_delayed_entries(mirror, faults, clock, observed):
    async def use():
        async with mirror.new_async_client() as client:
            faults.delay("notification", "1min")
            request = await client.requests.begin_read(observed, TEMPERATURE)
            waiting = asyncio.ensure_future(request.result(timeout=60))
            await asyncio.to_thread(clock.advance, "1min")
            return (await waiting).python

    assert asyncio.run(use()) == 0


def test_a_poll_of_a_delayed_channel_continues_when_the_clock_advances(mirror, faults, clock, observed, monkeypatch):
    end, waits, wait = mirror.read_log()[-1].seq, threading.Event(), faults.wait
    monkeypatch.setattr(faults, "wait", lambda seconds: (waits.set(), wait(seconds)))
    faults.delay("notification", "1min")
    report(mirror, observed, 1)
    with ThreadPoolExecutor(1) as pool:
        event = pool.submit(next, mirror.client.events(after=end, timeout=60))
        assert waits.wait(REAL_WAIT_SECONDS)
        clock.advance("1min")
        # Otherwise the poll would end after 25 seconds.
        assert event.result(20).value.python == 1


def test_plain_polls_wait_for_a_late_channel_too(mirror, faults, observed):
    headers = {"Authorization": f"Bearer {mirror.new_key()}"}
    with httpx.Client(base_url=mirror.url, headers=headers, transport=mirror.transport) as http:
        report(mirror, observed, 1)
        mirror.simulator.add_device("sensor-2", SENSOR)
        with faults.delay("notification", "1min"):
            assert http.get("/v2/notification/pull?hold=0").status_code == 204
        assert http.get("/v2/notification/pull?hold=0").status_code == 200
        assert http.get("/v2/notification/pull?hold=0").status_code == 204


# Devices, all faults together


def test_call_to_a_silent_device_fails_without_waiting_in_real_time(mirror, faults, clock):
    device = mirror.simulator.add_device("silent", [{"path": SWITCH, "value": "0"}])
    before = clock.now()
    with faults.silence(device), pytest.raises(DeviceUnavailable, match="TIMEOUT"):
        mirror.client.read_value(device, SWITCH)
    assert clock.now() - before == timedelta(seconds=120)
    assert mirror.client.read_value(device, SWITCH) is False


def test_the_clock_stands_still_without_requests_to_silent_devices(mirror, faults, clock):
    device = mirror.simulator.add_device("silent", [{"path": SWITCH, "value": "0"}])
    before = clock.now()
    with faults.silence(device):
        assert list(mirror.client.events(timeout=0.01)) == []
    assert clock.now() == before


def test_clear_ends_everything(mirror, faults, observed):
    faults.silence(observed)
    set_faults = [
        faults.drop("request", times=None),
        faults.drop("notification", times=None),
        faults.delay("notification", "1h"),
        faults.reorder(5),
    ]
    faults.clear()
    assert not any(fault.is_live for fault in set_faults)
    report(mirror, observed, 1)
    assert reported(mirror) == [0, 1]
    mirror.client.write_value(observed, SWITCH, True)


def test_no_fault_acts_on_the_simulator_or_the_clock(mirror, faults, clock, sensor):
    faults.drop("request", times=None)
    faults.delay("response", "1h", times=None)
    began = clock.now()
    assert [device.id for device in mirror.simulator.list_devices()] == [sensor]
    assert clock.now() == began


def test_an_invalid_fault_is_rejected_by_name(faults):
    for name, what, options, message in (
        ("drop", "request", {"device": "x"}, "device"),
        ("drop", "notification", {"method": "GET"}, "method"),
        ("drop", "async-response", {"path": "/3303/*"}, "path"),
        ("drop", "async-response", {"device": "x"}, "device"),
        ("drop", "response", {"times": 0}, "times=0"),
        ("drop", "parcel", {}, "parcel"),
        ("duplicate", "response", {}, "response"),
        ("delay", "request", {"by": "1s"}, "request"),
        ("delay", "response", {"by": float("nan")}, "nan"),
        ("reorder", 1, {}, "count=1"),
    ):
        with pytest.raises(ValueError, match=message):
            getattr(faults, name)(what, **options)


def test_a_device_is_named_as_everywhere(mirror, faults, sensor):
    listed = mirror.client.devices.get(sensor)
    for name in ("sensor-1", listed, mirror.client.get_device(sensor), sensor):
        with faults.reject(name), pytest.raises(WriteRejected, match="REJECTED"):
            mirror.client.write_value(name, SWITCH, True)
    mirror.client.subscribe("sensor-1", TEMPERATURE)
    with faults.drop("notification", device="sensor-1") as fault:
        mirror.simulator.set_value("sensor-1", TEMPERATURE, 30)
        mirror.read_log()
    assert fault.acted == 1
    with pytest.raises(UnknownDevice, match="similar: sensor-1"):
        faults.silence("sensor-2")
