"""Devices that go on by themselves: measurements, updates, sleep, and what they do without an answer."""

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
from udp_server import UdpServer, speak

from mirror_server.clock import ManualClock
from mirror_server.core.instants import from_datetime
from mirror_server.extensions.lwm2m.coap.limits import Tuning
from mirror_server.extensions.lwm2m.device.device import LwM2MDevice, RegistrationRejected
from mirror_server.extensions.lwm2m.device.fleet import BackgroundFleet, DeviceFleet, DeviceOptions, DeviceRunner
from mirror_server.extensions.lwm2m.device.kinds import ModelledDevice
from mirror_server.extensions.simulator.kinds import KINDS

pytestmark = pytest.mark.anyio

BEGIN_AT = from_datetime(datetime(2026, 11, 20, 12, 0, tzinfo=UTC))
CREATED, CHANGED, DELETED, NOT_FOUND = 0x41, 0x44, 0x42, 0x84
MINUTE = 60_000


class AnsweringServer:
    """Takes what one device asks, and answers it from a list; 2.01, 2.04 and 2.02 by itself."""

    def __init__(self, server: UdpServer) -> None:
        self._server = server
        self.asked: list[Message] = []
        self.told: list[Message] = []
        self.codes: list[int | None] = []
        self._task = asyncio.create_task(self._serve())

    async def _serve(self) -> None:
        while True:
            message = Message.decode(await self._server.arrived.get())
            if message.code.is_request():
                self.asked.append(message)
                usual = DELETED if message.code == 4 else CREATED if message.opt.uri_path == ("rd",) else CHANGED
                code = self.codes.pop(0) if self.codes else usual
                if code is not None:
                    answer = Message(code=code, _mtype=2, _mid=message.mid, _token=message.token)
                    answer.opt.location_path = ("rd", str(len(self.asked))) if code == CREATED else ()
                    self._server.send(answer.encode())
            else:
                self.told.append(message)

    async def has_asked(self, count: int) -> list[tuple[str, ...]]:
        """The paths of all requests, once there are so many."""
        await until(lambda: len(self.asked) >= count)
        return [message.opt.uri_path for message in self.asked]

    async def has_told(self, count: int) -> list[Message]:
        await until(lambda: len(self.told) >= count)
        return self.told

    def stop(self) -> None:
        self._task.cancel()


class Running:
    def __init__(self, server: UdpServer, kind: str, tuning: Tuning | None = None, **options: Any) -> None:
        self.clock = ManualClock(BEGIN_AT)
        self.lines: list[str] = []
        self.executed: list[tuple[str, bytes]] = []
        self.model = ModelledDevice(kind, "probe", 7, self.clock.now, lambda *told: self.executed.append(told))
        self.tuning = tuning
        options.update(clock=self.clock, endpoint_type=self.model.endpoint_type)
        self.device = LwM2MDevice(server.url, "probe", self.model.resources, **options)
        self.runner = DeviceRunner(self.device, self.model, self.clock, self.lines.append)

    async def advance(self, milliseconds: int, times: int = 1) -> None:
        """Let time pass, and the loop do what is due."""
        for _ in range(times):
            self.clock.advance(milliseconds)
            for _ in range(5):
                await asyncio.sleep(0)

    async def said(self, words: str) -> None:
        await until(lambda: any(words in line for line in self.lines))


@asynccontextmanager
async def running(server: UdpServer, kind: str, *more: Any, **options: Any) -> AsyncIterator[Any]:
    """The device, and what answers it."""
    answering, one = AnsweringServer(server), Running(server, kind, *more, **options)
    await one.runner.start()
    speak(one.device, one.tuning)
    task = asyncio.create_task(one.runner.run())
    await asyncio.sleep(0)
    try:
        yield one, answering
    finally:
        task.cancel()
        await one.runner.stop()
        answering.stop()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_over_coap_has_the_resources_and_rules_of_the_simulator(kind):
    model = ModelledDevice(kind.name, "probe", 7, ManualClock(BEGIN_AT).now, print)
    for resource, (path, rule) in zip(model.resources, kind.rules.items(), strict=True):
        assert resource.path == path
        assert resource.writable is rule.writable
        assert resource.is_executable is rule.executable
        assert (resource.auto_observed_token is not None) is rule.auto_observable
        assert (resource.value is None) is rule.executable


def test_the_same_seed_and_name_measure_the_same_and_others_do_not():
    def values(name: str, seed: int) -> list[Any]:
        now = ManualClock(BEGIN_AT).now
        return [resource.value for resource in ModelledDevice("weather-station", name, seed, now, print).resources]

    assert values("a", 1) == values("a", 1) not in (values("b", 1), values("a", 2))


async def test_values_run_and_are_told_to_who_observes_them(server):
    async with running(server, "weather-station") as (one, answering):
        assert answering.asked[0].opt.uri_query[-1] == "et=WeatherStation"
        # GET /3304/0/5700 with Observe 0.
        server.send("41 01 0010 bb  60 54 33333034 01 30 04 35373030 60")
        (first,) = await answering.has_told(1)
        await one.advance(MINUTE, times=10)
        told = await answering.has_told(3)
        assert {message.token for message in told} == {b"\xbb"}
        assert first.payload.decode() != told[1].payload.decode()


async def test_the_registration_is_updated_after_half_its_lifetime(server):
    async with running(server, "light", lifetime_seconds=600) as (one, answering):
        await one.advance(299_999)
        assert len(answering.asked) == 1
        await one.advance(1)
        assert await answering.has_asked(2) == [("rd",), ("rd", "1")]
        while len(answering.asked) < 3:
            await one.advance(1_000)
        assert one.clock.now() - BEGIN_AT >= 600_000
    assert answering.asked[-1].code == 4
    assert one.lines[-1] == "deregistered"


async def test_a_server_that_forgot_the_device_gets_a_full_registration(server):
    async with running(server, "light", lifetime_seconds=600) as (one, answering):
        answering.codes = [NOT_FOUND]
        await one.advance(300_000)
        assert await answering.has_asked(3) == [("rd",), ("rd", "1"), ("rd",)]
        await one.said("registered anew as /rd/3")


async def test_what_is_written_stays_and_what_is_executed_is_told(server):
    async with running(server, "light") as (one, answering):
        # PUT /3311/0/5851 "55", then "101", which the kind does not accept; POST /3/0/4 with "0".
        server.send("41 03 0001 aa  b4 33333131 01 30 04 35383531 10 ff 3535")
        server.send("41 03 0002 aa  b4 33333131 01 30 04 35383531 10 ff 313031")
        server.send("41 02 0003 aa  b1 33 01 30 01 34 ff 30")
        told = await answering.has_told(3)
        assert sorted(message.code.dotted for message in told) == ["2.04", "2.04", "4.00"]
        await one.advance(MINUTE, times=120)
        assert one.device.value("/3311/0/5851") == 55
        assert one.executed == [("/3/0/4", b"0")]


async def test_a_room_comes_after_the_set_point_that_was_written(server):
    async with running(server, "thermostat") as (one, answering):
        # PUT /3308/0/5900 "30".
        server.send("41 03 0001 aa  b4 33333038 01 30 04 35393030 10 ff 3330")
        (told,) = await answering.has_told(1)
        assert told.code.dotted == "2.04"
        await one.advance(MINUTE, times=180)
        assert one.device.value("/3308/0/5900") == 30.0
        assert abs(one.device.value("/3303/0/5700") - 30) < 1


async def test_a_door_tells_by_itself_and_again_if_nobody_took_it(server):
    hasty = Tuning(ack_timeout_seconds=0.3, retransmissions=0)
    async with running(server, "door-contact", hasty) as (one, answering):
        while not answering.told:
            await one.advance(5_000)
        (told,) = await answering.has_told(1)
        assert (told.mtype, told.payload) == (0, b"1")
        # Nobody acknowledges; the next contact brings it once more.
        await until(lambda: one.device.report("/3200/0/5500") or len(answering.told) > 1)
        assert answering.told[1].payload == b"1"


async def test_a_fleet_on_a_thread_registers_and_deregisters_all(server):
    answering, lines = AnsweringServer(server), []
    # The server here answers one peer at a time, which is enough for two in turn.
    wanted = DeviceOptions(server.url, seed=3), [("a", "light")], ManualClock(BEGIN_AT), lines.append
    fleet = await asyncio.to_thread(BackgroundFleet, *wanted)
    device = fleet.fleet.devices["a"]
    for act in (device.update, device.cut_off, device.restore):
        await asyncio.to_thread(fleet.call, act)
    for _ in range(2):
        await asyncio.to_thread(fleet.close)
    assert await answering.has_asked(3) == [("rd",), ("rd", "1"), ("rd", "1")]
    assert lines[-1] == "a: deregistered"
    answering.stop()


async def test_a_fleet_of_which_one_is_refused_does_not_start(server):
    answering = AnsweringServer(server)
    answering.codes = [0x83]
    fleet = DeviceFleet(DeviceOptions(server.url), [("a", "light")], ManualClock(BEGIN_AT), lambda line: None)
    with pytest.raises(RegistrationRejected, match=r"4\.03"):
        await fleet.start()
    await fleet.stop()
    answering.stop()


async def test_without_an_answer_it_tries_again_with_growing_pauses_and_ends_all_the_same(server):
    hasty = Tuning(ack_timeout_seconds=0.3, retransmissions=0)
    async with running(server, "light", hasty, lifetime_seconds=600) as (one, answering):
        answering.codes = [None, None]
        await one.advance(300_000)
        await one.said("tries again in 5 s")
        await one.advance(5_000)
        await one.said("tries again in 10 s")
        await one.advance(9_999)
        assert len(answering.asked) == 3
        await one.advance(1)
        assert await answering.has_asked(4) == [("rd",), *[("rd", "1")] * 3]
        answering.codes = [None]
    # Both the last retransmission and the whole request end after about 0.3 s, each with words of its own.
    assert one.lines[-1].startswith("not deregistered: the server did not answer")


async def test_in_queue_mode_it_sleeps_93_seconds_after_the_last_message_and_wakes_for_its_contact(server):
    async with running(server, "thermometer", queue_mode=True) as (one, answering):
        await one.advance(60_000)
        server.send("41 01 0010 bb  b1 33 01 30 01 31 60")
        await answering.has_told(1)
        await one.advance(92_999)
        assert not one.device.is_asleep
        await one.advance(1)
        assert one.device.is_asleep
        await one.advance(MINUTE, times=15)
        assert await answering.has_asked(2) == [("rd",), ("rd", "1")]
        await one.said("wakes")
