"""The kit's mirror: keys, clients, devices, restart, and shutdown."""

import asyncio
import queue

import httpx
import pytest
from resource_paths import SWITCH, TEMPERATURE

from mirror_sdk import (
    AccessDenied,
    AsyncMirrorClient,
    AuthenticationError,
    ClientClosed,
    EventKind,
    MirrorClient,
    WebhookReceiver,
)
from mirror_sdk.testing import Mirror

SENSOR = [
    {"path": TEMPERATURE, "value": "21.5", "observable": True},
    {"path": SWITCH, "value": "0", "observable": True, "writable": True},
]


@pytest.fixture
def sensor(mirror):
    return mirror.simulator.add_device("sensor-1", SENSOR)


def test_a_key_is_limited_to_its_scopes(mirror, sensor):
    reader = mirror.new_client(scopes=["read"])
    assert reader.get_device(sensor)[TEMPERATURE].reported is None
    with pytest.raises(AccessDenied):
        reader.write_value(sensor, SWITCH, True)
    with pytest.raises(ValueError, match="everything"):
        mirror.new_key(["everything"])
    # No limit, because tests may send wrong keys.
    for _ in range(30):
        with pytest.raises(AuthenticationError):
            mirror.new_client("ak_wrong").devices.list()


def uids(events):
    return [event.uid for event in events]


def test_the_log_of_a_client_begins_with_it(mirror):
    early = mirror.new_client()
    device_id = mirror.simulator.add_device("sensor-1", SENSOR)
    late = mirror.new_client()
    assert [(event.kind, event.device_id) for event in mirror.read_log(early)] == [(EventKind.REGISTRATION, device_id)]
    assert len(mirror.read_log()) == 1
    assert mirror.read_log(late) == []


def test_effects_of_a_call_are_complete_when_it_returns(mirror, sensor):
    requests = [mirror.client.requests.begin_read(sensor, TEMPERATURE) for _ in range(10)]
    assert mirror.client.get_device(sensor)[TEMPERATURE].reported.value.python == 21.5
    assert all(request.done() for request in requests)


def test_a_log_is_read_from_the_requested_position(mirror, sensor):
    (registration,) = mirror.read_log()
    mirror.client.read_value(sensor, TEMPERATURE)
    (answer,) = mirror.read_log(after=registration.seq)
    assert uids(mirror.read_log()) == [registration.uid, answer.uid]
    assert mirror.read_log(after=answer.seq) == []


def test_the_same_fleet_comes_from_the_same_seed(tmp_path):
    def devices(name, seed):
        folder = tmp_path / name
        folder.mkdir()
        with Mirror(folder) as mirror:
            added = mirror.add_fleet(7, seed=seed)
            mirror.clock.advance("3h")
            return [(device, device.values()) for device in added]

    first = devices("first", 1)
    assert first == devices("again", 1)
    assert first != devices("other", 2)
    assert len({device.endpoint_type for device, _ in first}) == 6


def test_fleets_add_up_under_names_of_their_own(mirror, fleet):
    devices = fleet(4) + fleet(4) + fleet(3, seed=9)
    assert len({device.id for device in devices}) == len({device.endpoint_name for device in devices}) == 11
    assert {device.id for device in mirror.client.devices.list()} == {device.id for device in devices}
    assert fleet(0) == []
    with pytest.raises(ValueError, match="n=-1"):
        fleet(-1)


def test_a_device_of_the_fleet_changes_its_values_and_comes_and_goes(mirror, fleet):
    plug = next(device for device in fleet(6) if device.endpoint_type == "SmartPlug")
    path = "/3312/0/5850"
    assert path in plug.paths
    plug.set_value(path, False)
    assert plug.values()[path] == "0"
    assert mirror.client.read_value(plug.id, path) is False
    plug.set_online(False)
    request = mirror.client.requests.begin_read(plug.id, path)
    assert not request.done()
    plug.set_online(True)
    assert request.done()


def test_a_restart_keeps_everything(mirror, fleet, clock):
    (device,) = fleet(1)
    clock.advance("1h")
    request = mirror.client.requests.begin_read(device.id, TEMPERATURE)
    now, values, log = clock.now(), device.values(), uids(mirror.read_log())
    mirror.restart()
    assert (clock.now(), device.values(), uids(mirror.read_log())[: len(log)]) == (now, values, log)
    clock.advance("1h")
    assert request.done()


def test_an_open_poll_loses_its_connection_at_a_restart_and_its_watch_misses_nothing(mirror, sensor):
    mirror.client.subscribe(sensor, TEMPERATURE)
    seen = queue.SimpleQueue()
    with mirror.client.watch(lambda event: seen.put(event.value.python), paths=[TEMPERATURE]):
        for value in [1, 2, 3]:
            mirror.restart()
            mirror.simulator.set_value(sensor, TEMPERATURE, value)
            assert seen.get(timeout=60) == value


def test_the_mirror_ends_though_a_watch_waits(tmp_path):
    with Mirror(tmp_path) as mirror:
        watch = mirror.client.watch(print)
        assert watch.is_running
    assert not watch.is_running
    with pytest.raises(ClientClosed):
        mirror.client.devices.list()


def test_mirror_has_the_settings_it_is_created_with(tmp_path):
    with Mirror(tmp_path, max_body_bytes=1000) as mirror:
        headers = {"Authorization": f"Bearer {mirror.new_key()}"}
        with httpx.Client(base_url=mirror.url, headers=headers, transport=mirror.transport) as client:
            assert client.put("/v2/subscriptions", content=b"[" * 1001).status_code == 413


def test_closing_twice_is_harmless(tmp_path):
    mirror = Mirror(tmp_path)
    client = mirror.client
    for _ in range(2):
        mirror.close()
        with pytest.raises(ClientClosed):
            client.devices.list()


def test_an_asynchronous_client_continues_after_a_restart(mirror, sensor):
    async def use():
        async with mirror.new_async_client() as client:
            await client.write_value(sensor, SWITCH, True)
            mirror.restart()
            await client.write_value(sensor, SWITCH, False)
            return await client.read_value(sensor, SWITCH)

    assert asyncio.run(use()) is False


def test_a_restart_from_the_loop_itself_breaks_its_open_polls(mirror, sensor):
    async def use():
        seen = asyncio.Queue()
        async with mirror.new_async_client() as client:
            await client.subscribe(sensor, TEMPERATURE)
            async with await client.watch(seen.put_nowait, paths=[TEMPERATURE]):
                for value in [1, 2]:
                    mirror.restart()
                    mirror.simulator.set_value(sensor, TEMPERATURE, value)
                    received = [(await asyncio.wait_for(seen.get(), 60)).value.python]
                    if received != [value]:
                        # A device that reports after the restart sends its old value first.
                        received.append((await asyncio.wait_for(seen.get(), 60)).value.python)
                    assert received[-1] == value

    asyncio.run(use())


def test_a_program_may_bring_its_own_http_client(mirror, sensor):
    headers = {"Authorization": f"Bearer {mirror.new_key()}"}
    with httpx.Client(base_url=mirror.url, headers=headers, transport=mirror.transport) as http:
        assert http.get(f"/v3/devices/{sensor}/echo").json()["device_id"] == sensor
    with MirrorClient(mirror.url, mirror.new_key(), transport=mirror.transport) as client:
        assert client.read_value(sensor, TEMPERATURE) == 21.5

    async def request_all():
        transport = mirror.new_async_transport()
        async with AsyncMirrorClient(mirror.url, mirror.new_key(), transport=transport) as client:
            return await client.read_value(sensor, TEMPERATURE)

    assert asyncio.run(request_all()) == 21.5


def test_a_webhook_is_called_over_real_http(mirror, sensor):
    with WebhookReceiver() as receiver:
        mirror.client.notifications.use_webhook(receiver)
        assert mirror.client.read_value(sensor, TEMPERATURE) == 21.5


def test_keys_are_not_displayed(mirror):
    key = mirror.new_key()
    client = mirror.new_client(key)
    assert key not in repr(mirror) + repr(client) + repr(mirror.faults) + repr(mirror.clock)


def test_a_cassette_records_and_plays_each_kind_of_client(mirror, sensor, tmp_path):
    for is_playing in (False, True):
        with mirror.client.cassettes.use(tmp_path / "sync.zip") as cassette:
            assert mirror.client.read_value(sensor, TEMPERATURE) == 21.5
            assert cassette.is_playing == is_playing

    async def use():
        async with mirror.new_async_client() as client:
            for is_playing in (False, True):
                async with client.cassettes.use(tmp_path / "async.zip") as cassette:
                    assert await client.read_value(sensor, TEMPERATURE) == 21.5
                    assert cassette.is_playing == is_playing

    asyncio.run(use())
