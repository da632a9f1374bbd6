"""Devices that send more than their share: they are stopped, and others lose nothing."""

from __future__ import annotations

import asyncio
import logging

import pytest

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

from coap_device import READ, Device, Registry, notification, registration, speaking, until

from mirror_server.extensions.lwm2m.coap import CoapLimits, sockets
from mirror_server.extensions.lwm2m.coap.limits import AddressShares
from mirror_server.extensions.lwm2m.coap.messages import Message, Type

pytestmark = pytest.mark.anyio

SMALL = CoapLimits(messages_per_second_of_peer=1, burst_of_peer=10)


def test_an_address_may_send_a_burst_and_then_its_rate():
    """Messages beyond the share are not counted against it."""
    now = 1000.0
    shares = AddressShares(CoapLimits(messages_per_second_of_peer=4, burst_of_peer=10), lambda: now)
    assert [shares.take("a") for _ in range(10_000)] == [True] * 10 + [False] * 9_990
    assert shares.is_used_up("a")
    now += 0.25
    assert not shares.is_used_up("a")
    assert [shares.take("a") for _ in range(2)] == [True, False]
    now += 3600
    assert [shares.take("a") for _ in range(11)] == [True] * 10 + [False]


def test_each_address_has_a_share_of_its_own_and_as_many_are_kept_as_may_be():
    limits = CoapLimits(messages_per_second_of_peer=1, burst_of_peer=1, remembered_addresses=100)
    shares = AddressShares(limits, lambda: 1000.0)
    assert [shares.take("a"), shares.take("a")] == [True, False]
    assert all(shares.take(f"address {number}") for number in range(1000))
    assert len(shares) == 100


@pytest.mark.parametrize("options", [{"limits": SMALL}])
async def test_flooding_device_is_stopped_and_another_one_loses_nothing(registry, endpoint, device, caplog):
    registry.known_tokens = {b"flood", b"calm"}
    calm = Device(device.server)
    for number in range(500):
        device.send(notification(number, b"flood", number, b"21.5"))
        if number % 100 == 0:
            calm.send(notification(number, b"calm", number, b"21.5"))
    await until(lambda: len(registry.notifications) + endpoint.counts.dropped == 505)
    taken = [told.token for told in registry.notifications]
    assert taken.count(b"calm") == 5
    assert 10 <= taken.count(b"flood") < 30
    assert [told.token for told in registry.floods][:1] == [b"flood"]
    assert (await device.receive()).type == Type.RESET
    assert f"{device.peer.address} sends more than 1 messages per second" in caplog.text
    assert await calm.hears_nothing()
    calm.close()


@pytest.mark.parametrize("options", [{"limits": SMALL}])
async def test_a_flooding_device_may_still_answer_requests(endpoint, device):
    for number in range(20):
        device.send(notification(number, b"unknown", number, b"21.5"))
    await until(lambda: endpoint.counts.dropped > 0)
    reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
    while not (asked := await device.receive()).code:
        pass
    device.answer(asked, "2.05", b"1")
    assert (await reading).payload == b"1"


@pytest.mark.parametrize("options", [{"limits": SMALL}])
async def test_a_flood_of_other_messages_than_notifications_is_dropped_without_a_reply(registry, endpoint, device):
    for number in range(100):
        device.send(registration(number))
    for number in range(100):
        device.send(bytes([0x51, number]))
    await until(lambda: len(registry.requests) + endpoint.counts.dropped == 200)
    assert len(registry.requests) < 30
    assert registry.floods == []
    assert endpoint.counts.resets_sent == 0


@pytest.mark.parametrize("kernel_has_ipv6", [True, False])
async def test_datagrams_that_the_kernel_drops_are_counted_and_logged(kernel_has_ipv6, monkeypatch, caplog):
    monkeypatch.setattr(sockets, "has_ipv6", lambda: kernel_has_ipv6)
    monkeypatch.setattr(sockets, "_DROPS_SECONDS", 0.01)
    caplog.set_level(logging.WARNING)
    registry = Registry()
    async with speaking(registry, limits=CoapLimits(receive_buffer_bytes=1)) as (endpoint, device):
        for number in range(200):
            device.send(notification(number, b"mine", number, b"21.5"))
        await until(lambda: len(registry.notifications) + endpoint.counts.dropped == 200)
        assert endpoint.counts.dropped > 100
        assert f"The system dropped datagrams of devices, {endpoint.counts.dropped} so far" in caplog.text


async def test_closed_ports_of_others_hold_up_no_datagram(registry, endpoint, device):
    interface = endpoint._layers[False].transport._interface
    for number in range(20):
        passing = Device(device.server)
        passing.send(Message(Type.CONFIRMABLE, 0, number))  # a ping, whose reply finds the port closed
        passing.close()
    interface.read_datagrams()
    assert endpoint.counts.resets_sent == 20
    device.send(notification(1, b"mine", 1, b"21.5"))
    interface.read_datagrams()
    assert len(registry.notifications) == 1


async def test_closed_port_of_another_device_loses_no_message(endpoint, device):
    """The kernel gives the error of one peer to the next call of the socket, whomever it is for."""
    transport = endpoint._layers[False].transport
    closing = Device(device.server)
    gone = closing.peer
    closing.close()
    for number in range(3):
        transport.send(gone, Message(Type.RESET, 0, number).encode())
        transport.send(device.peer, Message(Type.RESET, 0, number).encode())
    assert [(await device.receive()).message_id for _ in range(3)] == [0, 1, 2]


async def test_what_comes_from_port_0_is_dropped(registry, endpoint):
    manager = endpoint._layers[False].transport._interface._ctx
    manager.pass_on(registration().encode(), [], 0, ("::ffff:127.0.0.1", 0, 0, 0))
    assert endpoint.counts.dropped == 1
    assert registry.requests == []
