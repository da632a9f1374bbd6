"""Devices that run on their own: measurements, updates, sleep, and retries without a response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")
pytest.importorskip("mirror_server.extensions.simulator", reason="its kinds are those of the simulated devices")

from aiocoap import Message
from coap_device import until
from udp_server import UdpServer, set_tuning

from mirror_server.clock import ManualClock
from mirror_server.core.timestamps import from_datetime
from mirror_server.extensions.lwm2m.coap.limits import Tuning
from mirror_server.extensions.lwm2m.device.device import LwM2MDevice, RegistrationRejected
from mirror_server.extensions.lwm2m.device.fleet import BackgroundFleet, DeviceFleet, DeviceOptions, DeviceRunner
from mirror_server.extensions.lwm2m.device.kinds import ModelledDevice
from mirror_server.extensions.simulator.kinds import KINDS

pytestmark = pytest.mark.anyio

START = from_datetime(datetime(2026, 11, 20, 12, 0, tzinfo=UTC))
CREATED, CHANGED, DELETED, NOT_FOUND = 0x41, 0x44, 0x42, 0x84
MINUTE = 60_000


class RespondingServer:
    """A server that responds to the requests of one device with ``codes``; by default with 2.01, 2.04 and 2.02."""

    def __init__(self, server: UdpServer) -> None:
        self._server = server
        self.requests: list[Message] = []
        self.messages: list[Message] = []
        self.codes: list[int | None] = []
        self._task = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        while True:
            message = Message.decode(await self._server.arrived.get())
            if message.code.is_request():
                self.requests.append(message)
                default = DELETED if message.code == 4 else CREATED if message.opt.uri_path == ("rd",) else CHANGED
                code = self.codes.pop(0) if self.codes else default
                if code is not None:
                    response = Message(code=code, _mtype=2, _mid=message.mid, _token=message.token)
                    response.opt.location_path = ("rd", str(len(self.requests))) if code == CREATED else ()
                    self._server.send(response.encode())
            else:
                self.messages.append(message)

    async def wait_for_requests(self, count: int) -> list[tuple[str, ...]]:
        """Wait for a number of requests, and return the paths of all."""
        await until(lambda: len(self.requests) >= count)
        return [message.opt.uri_path for message in self.requests]

    async def wait_for_messages(self, count: int) -> list[Message]:
        await until(lambda: len(self.messages) >= count)
        return self.messages

    def stop(self) -> None:
        self._task.cancel()


class RunnerHarness:
    def __init__(self, server: UdpServer, kind: str, tuning: Tuning | None = None, **options: Any) -> None:
        self.clock = ManualClock(START)
        self.lines: list[str] = []
        self.executed: list[tuple[str, bytes]] = []
        self.model = ModelledDevice(kind, "probe", 7, self.clock.now, lambda *call: self.executed.append(call))
        self.tuning = tuning
        options.update(clock=self.clock, endpoint_type=self.model.endpoint_type)
        self.device = LwM2MDevice(server.url, "probe", self.model.resources, **options)
        self.runner = DeviceRunner(self.device, self.model, self.clock, self.lines.append)

    async def advance(self, milliseconds: int, times: int = 1) -> None:
        """Advance the clock, and let the loop run the due tasks."""
        for _ in range(times):
            self.clock.advance(milliseconds)
            for _ in range(5):
                await asyncio.sleep(0)

    async def wait_for_line(self, words: str) -> None:
        await until(lambda: any(words in line for line in self.lines))


@asynccontextmanager
async def running(server: UdpServer, kind: str, *more: Any, **options: Any) -> AsyncIterator[Any]:
    """Yield a running device and its server."""
    responding, one = RespondingServer(server), RunnerHarness(server, kind, *more, **options)
    await one.runner.start()
    set_tuning(one.device, one.tuning)
    task = asyncio.create_task(one.runner.run())
    await asyncio.sleep(0)
    try:
        yield one, responding
    finally:
        task.cancel()
        await one.runner.stop()
        responding.stop()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_kind_over_coap_has_resources_and_rules_of_the_simulator(kind):
    model = ModelledDevice(kind.name, "probe", 7, ManualClock(START).now, print)
    for resource, (path, rule) in zip(model.resources, kind.rules.items(), strict=True):
        assert resource.path == path
        assert resource.writable is rule.writable
        assert resource.is_executable is rule.executable
        assert (resource.auto_observed_token is not None) is rule.auto_observable
        assert (resource.value is None) is rule.executable


def test_values_depend_on_seed_and_name_only():
    def values(name: str, seed: int) -> list[Any]:
        now = ManualClock(START).now
        return [resource.value for resource in ModelledDevice("weather-station", name, seed, now, print).resources]

    assert values("a", 1) == values("a", 1) not in (values("b", 1), values("a", 2))


async def test_measured_values_are_notified_to_observer(server):
    async with running(server, "weather-station") as (one, responding):
        assert responding.requests[0].opt.uri_query[-1] == "et=WeatherStation"
        # GET /3304/0/5700 with Observe 0.
        server.send("41 01 0010 bb  60 54 33333034 01 30 04 35373030 60")
        (first,) = await responding.wait_for_messages(1)
        await one.advance(MINUTE, times=10)
        messages = await responding.wait_for_messages(3)
        assert {message.token for message in messages} == {b"\xbb"}
        assert first.payload.decode() != messages[1].payload.decode()


async def test_registration_is_updated_after_half_its_lifetime(server):
    async with running(server, "light", lifetime_seconds=600) as (one, responding):
        await one.advance(299_999)
        assert len(responding.requests) == 1
        await one.advance(1)
        assert await responding.wait_for_requests(2) == [("rd",), ("rd", "1")]
        while len(responding.requests) < 3:
            await one.advance(1_000)
        assert one.clock.now() - START >= 600_000
    assert responding.requests[-1].code == 4
    assert one.lines[-1] == "deregistered"


async def test_device_registers_again_after_not_found_for_update(server):
    async with running(server, "light", lifetime_seconds=600) as (one, responding):
        responding.codes = [NOT_FOUND]
        await one.advance(300_000)
        assert await responding.wait_for_requests(3) == [("rd",), ("rd", "1"), ("rd",)]
        await one.wait_for_line("registered again as /rd/3")


async def test_written_value_stays_and_execute_calls_callback(server):
    async with running(server, "light") as (one, responding):
        # PUT /3311/0/5851 "55", then "101", which the kind does not accept; POST /3/0/4 with "0".
        server.send("41 03 0001 aa  b4 33333131 01 30 04 35383531 10 ff 3535")
        server.send("41 03 0002 aa  b4 33333131 01 30 04 35383531 10 ff 313031")
        server.send("41 02 0003 aa  b1 33 01 30 01 34 ff 30")
        messages = await responding.wait_for_messages(3)
        assert sorted(message.code.dotted for message in messages) == ["2.04", "2.04", "4.00"]
        await one.advance(MINUTE, times=120)
        assert one.device.value("/3311/0/5851") == 55
        assert one.executed == [("/3/0/4", b"0")]


async def test_room_temperature_follows_written_set_point(server):
    async with running(server, "thermostat") as (one, responding):
        # PUT /3308/0/5900 "30".
        server.send("41 03 0001 aa  b4 33333038 01 30 04 35393030 10 ff 3330")
        (message,) = await responding.wait_for_messages(1)
        assert message.code.dotted == "2.04"
        await one.advance(MINUTE, times=180)
        assert one.device.value("/3308/0/5900") == 30.0
        assert abs(one.device.value("/3303/0/5700") - 30) < 1


async def test_door_contact_sends_unacknowledged_change_again(server):
    quick = Tuning(ack_timeout_seconds=0.3, retransmissions=0)
    async with running(server, "door-contact", quick) as (one, responding):
        while not responding.messages:
            await one.advance(5_000)
        (message,) = await responding.wait_for_messages(1)
        assert (message.mtype, message.payload) == (0, b"1")
        # There is no acknowledgement, so the value is sent again at the next contact.
        await until(lambda: one.device.report("/3200/0/5500") or len(responding.messages) > 1)
        assert responding.messages[1].payload == b"1"


async def test_background_fleet_registers_and_deregisters_devices(server):
    responding, lines = RespondingServer(server), []
    # This server responds to one peer at a time.
    arguments = DeviceOptions(server.url, seed=3), [("a", "light")], ManualClock(START), lines.append
    fleet = await asyncio.to_thread(BackgroundFleet, *arguments)
    device = fleet.fleet.devices["a"]
    for act in (device.update, device.cut_off, device.restore):
        await asyncio.to_thread(fleet.call, act)
    for _ in range(2):
        await asyncio.to_thread(fleet.close)
    assert await responding.wait_for_requests(3) == [("rd",), ("rd", "1"), ("rd", "1")]
    assert lines[-1] == "a: deregistered"
    responding.stop()


async def test_fleet_with_a_rejected_device_does_not_start(server):
    responding = RespondingServer(server)
    responding.codes = [0x83]
    fleet = DeviceFleet(DeviceOptions(server.url), [("a", "light")], ManualClock(START), lambda line: None)
    with pytest.raises(RegistrationRejected, match=r"4\.03"):
        await fleet.start()
    await fleet.stop()
    responding.stop()


async def test_runner_without_response_retries_with_growing_pauses_and_stops(server):
    quick = Tuning(ack_timeout_seconds=0.3, retransmissions=0)
    async with running(server, "light", quick, lifetime_seconds=600) as (one, responding):
        responding.codes = [None, None]
        await one.advance(300_000)
        await one.wait_for_line("retrying in 5 s")
        await one.advance(5_000)
        await one.wait_for_line("retrying in 10 s")
        await one.advance(9_999)
        assert len(responding.requests) == 3
        await one.advance(1)
        assert await responding.wait_for_requests(4) == [("rd",), *[("rd", "1")] * 3]
        responding.codes = [None]
    # The last retransmission and the complete request both time out after about 0.3 s, with different messages.
    assert one.lines[-1].startswith("not deregistered: the server did not respond")


async def test_queue_mode_device_sleeps_93_seconds_after_last_message_and_wakes_at_interval(server):
    async with running(server, "thermometer", queue_mode=True) as (one, responding):
        await one.advance(60_000)
        server.send("41 01 0010 bb  b1 33 01 30 01 31 60")
        await responding.wait_for_messages(1)
        await one.advance(92_999)
        assert not one.device.is_asleep
        await one.advance(1)
        assert one.device.is_asleep
        await one.advance(MINUTE, times=15)
        assert await responding.wait_for_requests(2) == [("rd",), ("rd", "1")]
        await one.wait_for_line("wakes")
