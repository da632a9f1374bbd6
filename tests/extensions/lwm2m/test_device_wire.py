"""The bytes that a LwM2M device sends to a plain UDP socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

from udp_server import ACK_CREATED, UdpServer, registered, registering, udp_server

from mirror_server.extensions.lwm2m.coap.limits import Tuning
from mirror_server.extensions.lwm2m.device.device import LwM2MDevice, RegistrationRejected
from mirror_server.extensions.lwm2m.device.resources import DeviceResource, write_links

pytestmark = pytest.mark.anyio


@pytest.fixture
async def device(server: UdpServer) -> AsyncIterator[LwM2MDevice]:
    async with registered(server) as device:
        yield device


async def test_registration_is_confirmable_post_to_rd_with_links(server):
    quick = Tuning(ack_timeout_seconds=0.1)
    async with registering(server, lifetime_seconds=60, tuning=quick) as (device, task, request):
        assert request[:2] == bytes.fromhex("44 02")
        # Uri-Path (11) "rd", Content-Format (12) 40, Uri-Query (15) four times, and the payload.
        assert request[8:] == (
            b"\xb2rd\x11\x28\x38ep=probe\x05lt=60\x09lwm2m=1.0\x03b=U\xff"
            b"</3/0/4>,</3303/0/5700>;obs,</3311/0/5850>;obs,</3311/0/5851>;obs"
        )
        assert await server.next() == request, "it is retransmitted until there is a response"
        server.send(ACK_CREATED + request[2:8] + bytes.fromhex("82 7264 02 6131"))
        await task
        assert device.registration_id == "a1"


async def test_device_responds_with_the_exact_bytes(server, device):
    for request_, response in (
        # GET /3303/0/5700, Accept (17) text/plain: 2.05, Content-Format absent stands for 0, "21.5".
        ("41 01 0001 aa  b4 33333033 01 30 04 35373030 60", "61 45 00 01 aa c0 ff 32 31 2e 35"),
        # Accept TLV (11542 = 2d16): resource 5700 of 4 bytes, as a float of 32 bits.
        ("41 01 0002 aa  b4 33333033 01 30 04 35373030 62 2d16", "61 45 00 02 aa c2 2d 16 ff e4 16 44 41 ac 00 00"),
        # GET /9999/0/1: 4.04.
        ("41 01 0003 aa  b4 39393939 01 30 01 31", "61 84 00 03 aa"),
        # GET /3/0/4, which is executable: 4.05.
        ("41 01 0004 aa  b1 33 01 30 01 34 60", "61 85 00 04 aa"),
        # PUT /3311/0/5850, Content-Format text/plain, "1": 2.04.
        ("41 03 0005 aa  b4 33333131 01 30 04 35383530 10 ff 31", "61 44 00 05 aa"),
        # The same with "on", which is not a boolean: 4.00.
        ("41 03 0006 aa  b4 33333131 01 30 04 35383530 10 ff 6f6e", "61 80 00 06 aa"),
        # "13", which the device does not accept: 4.00.
        ("41 03 0007 aa  b4 33333131 01 30 04 35383531 10 ff 3133", "61 80 00 07 aa"),
        # PUT /3303/0/5700, which is read-only here: 4.05.
        ("41 03 0008 aa  b4 33333033 01 30 04 35373030 10 ff 31", "61 85 00 08 aa"),
        # POST /3/0/4: 2.04.
        ("41 02 0009 aa  b1 33 01 30 01 34", "61 44 00 09 aa"),
        # PUT without content format and payload is Write-Attributes: 2.04, and nothing is written.
        ("41 03 000a aa  b4 33333131 01 30 04 35383530", "61 44 00 0a aa"),
        # Content format 99: 4.15.
        ("41 03 000b aa  b4 33333131 01 30 04 35383530 11 63 ff 31", "61 8f 00 0b aa"),
        # Accept SenML JSON (110) of a device of version 1.0: 4.06.
        ("41 01 000c aa  b4 33333033 01 30 04 35373030 61 6e", "61 86 00 0c aa"),
        # An empty confirmable message is a ping: reset.
        ("40 00 0d0d", "70 00 0d 0d"),
        # A response without a request: reset.
        ("41 45 0007 77 ff 31", "70 00 00 07"),
    ):
        assert await server.exchange(request_) == response, request_


OBSERVE = "41 01 0010 bb  60 54 33333033 01 30 04 35373030 60"
"""GET /3303/0/5700 with Observe (6) 0, Accept text/plain, token bb."""


async def test_observation_sends_value_and_changes_until_reset_or_observe_1(server, device):
    assert await server.exchange(OBSERVE) == "61 45 00 10 bb 61 01 60 ff 32 31 2e 35"
    device.set_value("/3303/0/5700", 21.5)
    device.set_value("/3303/0/5700", 22.5)
    first = await server.next()
    assert first[:2] + first[4:] == bytes.fromhex("51 45 bb 61 02 60 ff 32322e35")
    server.send(b"\x70\x00" + first[2:4])
    await server.exchange("40 00 0001")
    assert len(device.observations) == 0
    device.set_value("/3303/0/5700", 23.5)
    assert await server.exchange("40 00 0002") == "70 00 00 02"
    await server.exchange(OBSERVE.replace("0010", "0012"))
    # Observe 1 is one byte long.
    cancel = "41 01 0011 bb  61 01 54 33333033 01 30 04 35373030 60"
    assert await server.exchange(cancel) == "61 45 00 11 bb c0 ff 32 33 2e 35"
    device.set_value("/3303/0/5700", 24.5)
    assert await server.exchange("40 00 0003") == "70 00 00 03"


@pytest.mark.parametrize(
    ("code", "words"),
    [("64 8c", r"4\.12.*version"), ("64 83", r"4\.03.*not allowed to register"), ("64 41", "without a location")],
)
async def test_rejected_registration_error_has_code_and_cure(server, code, words):
    async with registering(server, version="1.1") as (device, task, request):
        assert b"lwm2m=1.1" in request
        server.send(bytes.fromhex(code) + request[2:8])
        with pytest.raises(RegistrationRejected, match=words):
            await task
        assert not device.is_registered


async def test_deregistration_uses_location_of_registration(server):
    for location, path in (
        ("82 7264 02 6131", "b2 7264 02 6131"),
        ("85 7264 2f 6131", "b2 7264 02 6131"),
        ("82 7264 01 61 01 62", "b2 7264 01 61 01 62"),
    ):
        async with registered(server, location) as device:
            leaving = asyncio.create_task(device.deregister())
            deregistration = await server.next()
            assert (deregistration[1], deregistration[8:]) == (4, bytes.fromhex(path)), location
            server.send(b"\x64\x42" + deregistration[2:8])
            await leaving


@pytest.mark.parametrize(("host", "listens"), [("localhost", "127.0.0.1"), ("[::1]", "::1")])
async def test_server_is_reached_by_host_name_and_over_ipv6(host, listens):
    if ":" in listens and not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    async with udp_server(listens) as server, registered(server, host=host) as device:
        assert device.is_registered


async def test_duplicate_request_gets_same_response_and_runs_once(server):
    executed: list[bytes] = []
    async with registered(server, resources=[DeviceResource("/3/0/4", on_execute=executed.append)]):
        execute = "41 02 0009 aa  b1 33 01 30 01 34 ff 35"
        assert await server.exchange(execute) == await server.exchange(execute) == "61 44 00 09 aa"
        assert executed == [b"5"]


async def test_ping_without_response_is_sent_three_times(server):
    async with registered(server, tuning=Tuning(ack_timeout_seconds=0.02)) as device:
        assert not await device.ping()
        assert server.arrived.qsize() == 3
        assert len({await server.next() for _ in range(3)}) == 1


async def test_auto_observed_resource_is_announced_and_notified_confirmably(server):
    door = DeviceResource("/3200/0/5500", False, auto_observed_token=727)
    assert write_links([door]) == '</3200/0/5500>;obs;aobs="727"'
    async with registered(server, resources=[door], tuning=Tuning(ack_timeout_seconds=0.1)) as device:
        device.set_value("/3200/0/5500", True)
        notification = await server.next()
        # 727 is 02d7; Observe 1, text/plain, "1".
        assert notification[:2] + notification[4:] == bytes.fromhex("42 45 02d7 61 01 60 ff 31")
        assert await server.next() == notification, "it is retransmitted until it is acknowledged"
        server.send(b"\x60\x00" + notification[2:4])
        # An observe request for it is rejected.
        assert await server.exchange("41 01 0010 bb  60 54 33323030 01 30 04 35353030 60") == "61 80 00 10 bb"
