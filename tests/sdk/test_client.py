"""The client against a real server, in process."""

import subprocess
import sys
from datetime import UTC, datetime

import pytest
from changed_responses import LIGHT as SWITCH
from changed_responses import TEMPERATURE
from waits import wait_until

import mirror_sdk
from mirror_sdk import (
    AccessDenied,
    Event,
    EventKind,
    InvalidValue,
    MirrorClient,
    Simulator,
    WaitTimeout,
)
from mirror_server.service.keys import Scope

pytestmark = pytest.mark.both_clients


# Devices


def test_devices_match_every_filter_up_to_the_limit(client, simulator):
    lamp = simulator.add_device("lamp", endpoint_type="Light")
    fan = simulator.add_device("fan", endpoint_type="Fan")
    simulator.deregister(fan)
    assert client.devices.list(endpoint_type="Light", id=lamp).ids == [lamp]
    assert client.devices.list(state="deregistered").ids == [fan]
    assert client.devices.list(state="registered", endpoint_name="fan").ids == []
    assert client.devices.list(limit=0).ids == []
    filters = {"endpoint_type__in": ["Fan"], "created_at__gte": simulator.get_clock()}
    assert client.devices.list(filters=filters).ids == [fan]


# Device requests


def test_a_handle_has_its_request_and_start_time(client, device_id):
    before = datetime.now(UTC)
    request = client.requests.begin_read(device_id, TEMPERATURE, expiry_seconds=30, async_id="my-id")
    fields = (request.async_id, request.device_id, request.path, request.method, request.expiry_seconds)
    assert fields == ("my-id", device_id, TEMPERATURE, "GET", 30)
    assert before <= request.issued_at <= datetime.now(UTC)
    assert "waiting" in repr(request)
    assert [request.result().python for _ in range(2)] == [21.5] * 2
    assert "answered" in repr(request)
    assert (request.done(), request.exception()) == (True, None)


def test_a_wait_that_timed_out_can_be_resumed(client, simulator, device_id):
    simulator.set_online(device_id, False)
    request = client.requests.begin_read(device_id, TEMPERATURE)
    with pytest.raises(WaitTimeout, match="may still finish"):
        request.result(timeout=0)
    assert not request.done()
    # Responses match their requests in any order.
    writes = [client.requests.begin_write(device_id, SWITCH, number % 2 == 0) for number in range(5)]
    simulator.set_online(device_id, True)
    assert request.result().python == 21.5
    assert [write.exception() for write in reversed(writes)] == [None] * 5


def test_a_value_that_does_not_go_with_its_resource_is_not_sent(client, device_id):
    with pytest.raises(InvalidValue):
        client.write_value(device_id, SWITCH, "warm")
    assert client.get_device(device_id)[SWITCH].desired is None


# Subscriptions and events


def test_events_are_those_from_the_call_on(client, simulator, device_id):
    client.subscribe(device_id, TEMPERATURE)
    simulator.set_value(device_id, TEMPERATURE, 1)
    events = client.events(limit=2)
    simulator.set_value(device_id, TEMPERATURE, 22.5)
    simulator.deregister(device_id)
    first, second = events
    fields = (first.kind, first.device_id, first.path, first.value.python, first.changed_at)
    assert fields == ("observation", device_id, TEMPERATURE, 22.5, simulator.get_clock())
    assert (second.kind, second.device_id) == (EventKind.DEREGISTRATION, device_id)
    assert list(client.events(after=0, limit=0)) == []


def test_a_watch_receives_only_matching_events(client, simulator, device_id):
    client.subscribe(device_id, TEMPERATURE)
    client.subscribe(device_id, SWITCH)
    simulator.set_value(device_id, TEMPERATURE, 20)
    seen: list[Event] = []
    watch = client.watch(seen.append, paths=["/3303/*"], devices=[device_id])
    simulator.set_value(device_id, SWITCH, "1")
    simulator.set_value(device_id, TEMPERATURE, 22.5)
    simulator.set_value(device_id, TEMPERATURE, 23.5)
    wait_until(lambda: len(seen) >= 2)
    assert [event.value.python for event in seen if event.value is not None] == [22.5, 23.5]
    client.close()
    assert not watch.is_running


def test_the_poll_channel_can_be_deleted_at_any_time(client, device_id):
    for _ in range(2):
        client.notifications.delete_poll_channel()
        assert client.read_value(device_id, TEMPERATURE) == 21.5


# The client itself


def test_the_key_is_in_no_repr_and_in_no_error(mirror):
    key = mirror.new_key(Scope.READ)
    with MirrorClient("http://mirror.localhost", key, transport=mirror.transport) as client:
        with pytest.raises(AccessDenied) as denied:
            client.subscriptions.rules.list()
        texts = [repr(client), repr(Simulator(client)), repr(denied.value), str(vars(denied.value))]
    assert texts[0] == "<MirrorClient http://mirror.localhost>"
    assert not [text for text in texts if key in text]


def test_every_public_name_is_there_and_none_twice():
    assert len(set(mirror_sdk.__all__)) == len(mirror_sdk.__all__)
    assert all(hasattr(mirror_sdk, name) for name in mirror_sdk.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Client'"):
        mirror_sdk.Client  # noqa: B018 - that it is not there is the point


def test_an_import_loads_nothing_that_is_not_needed():
    code = """
import sys, mirror_sdk
print([name for name in sys.modules if name.startswith(('mirror_sdk.', 'httpx'))])
from mirror_sdk import MirrorClient
unused = {'httpx', 'pandas', 'rich', 'mirror_sdk._async_client', 'flask', 'asyncio', 'http.server', 'xml.etree'}
print(sorted((unused | {'mirror_sdk.wire.simulator'}) & set(sys.modules)))
MirrorClient('http://localhost', 'a-key').close()
from mirror_sdk import AsyncMirrorClient
AsyncMirrorClient('http://localhost', 'a-key')
# Its command line is there as it is without a client.
import httpx
print(type(httpx.main).__name__, 'httpx._main' in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == ["[]", "[]", "Command True"]
