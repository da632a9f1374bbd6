"""Rate limits per device: a flooding device is stopped, and others lose no messages."""

from __future__ import annotations

import asyncio
import logging

import pytest

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

from coap_device import READ, Device, RecordingHandler, endpoint_with_device, notification, registration, until

from mirror_server.extensions.lwm2m.coap import CoapLimits, sockets
from mirror_server.extensions.lwm2m.coap.limits import AddressRateLimiter
from mirror_server.extensions.lwm2m.coap.messages import Message, Type

pytestmark = pytest.mark.anyio

SMALL = CoapLimits(messages_per_second_of_peer=1, burst_of_peer=10)


def test_address_can_send_a_burst_then_its_sustained_rate():
    """Rejected messages are not counted."""
    now = 1000.0
    limiter = AddressRateLimiter(CoapLimits(messages_per_second_of_peer=4, burst_of_peer=10), lambda: now)
    assert [limiter.consume("a") for _ in range(10_000)] == [True] * 10 + [False] * 9_990
    assert limiter.is_exhausted("a")
    now += 0.25
    assert not limiter.is_exhausted("a")
    assert [limiter.consume("a") for _ in range(2)] == [True, False]
    now += 3600
    assert [limiter.consume("a") for _ in range(11)] == [True] * 10 + [False]


def test_rate_limit_is_per_address_and_address_count_is_bounded():
    limits = CoapLimits(messages_per_second_of_peer=1, burst_of_peer=1, remembered_addresses=100)
    limiter = AddressRateLimiter(limits, lambda: 1000.0)
    assert [limiter.consume("a"), limiter.consume("a")] == [True, False]
    assert all(limiter.consume(f"address {number}") for number in range(1000))
    assert len(limiter) == 100


@pytest.mark.parametrize("options", [{"limits": SMALL}])
async def test_flooding_device_is_reset_and_other_device_loses_no_notification(handler, endpoint, device, caplog):
    handler.known_tokens = {b"flood", b"calm"}
    calm = Device(device.server)
    for number in range(500):
        device.send(notification(number, b"flood", number, b"21.5"))
        if number % 100 == 0:
            calm.send(notification(number, b"calm", number, b"21.5"))
    await until(lambda: len(handler.notifications) + endpoint.counts.dropped == 505)
    received = [each.token for each in handler.notifications]
    assert received.count(b"calm") == 5
    assert 10 <= received.count(b"flood") < 30
    assert [each.token for each in handler.over_limit][:1] == [b"flood"]
    assert (await device.receive()).type == Type.RESET
    assert f"{device.peer.address} sends more than 1 messages per second" in caplog.text
    assert await calm.receives_nothing()
    calm.close()


@pytest.mark.parametrize("options", [{"limits": SMALL}])
async def test_flooding_device_can_still_respond_to_requests(endpoint, device):
    for number in range(20):
        device.send(notification(number, b"unknown", number, b"21.5"))
    await until(lambda: endpoint.counts.dropped > 0)
    reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
    while not (request := await device.receive()).code:
        pass
    device.respond(request, "2.05", b"1")
    assert (await reading).payload == b"1"


@pytest.mark.parametrize("options", [{"limits": SMALL}])
async def test_flood_of_requests_and_acknowledgements_is_dropped_silently(handler, endpoint, device):
    for number in range(100):
        device.send(registration(number))
    for number in range(100):
        device.send(bytes([0x51, number]))
    await until(lambda: len(handler.requests) + endpoint.counts.dropped == 200)
    assert len(handler.requests) < 30
    assert handler.over_limit == []
    assert endpoint.counts.resets_sent == 0


@pytest.mark.parametrize("kernel_has_ipv6", [True, False])
async def test_datagrams_dropped_by_kernel_are_counted_and_logged(kernel_has_ipv6, monkeypatch, caplog):
    monkeypatch.setattr(sockets, "has_ipv6", lambda: kernel_has_ipv6)
    monkeypatch.setattr(sockets, "_DROPS_SECONDS", 0.01)
    caplog.set_level(logging.WARNING)
    handler = RecordingHandler()
    async with endpoint_with_device(handler, limits=CoapLimits(receive_buffer_bytes=1)) as (endpoint, device):
        for number in range(200):
            device.send(notification(number, b"mine", number, b"21.5"))
        await until(lambda: len(handler.notifications) + endpoint.counts.dropped == 200)
        assert endpoint.counts.dropped > 100
        assert f"The system dropped datagrams of devices, {endpoint.counts.dropped} so far" in caplog.text


async def test_errors_of_closed_ports_do_not_delay_datagrams(handler, endpoint, device):
    interface = endpoint._layers[False].transport._interface
    for number in range(20):
        passing = Device(device.server)
        passing.send(Message(Type.CONFIRMABLE, 0, number))  # a ping; its reset arrives at a closed port
        passing.close()
    interface.read_datagrams()
    assert endpoint.counts.resets_sent == 20
    device.send(notification(1, b"mine", 1, b"21.5"))
    interface.read_datagrams()
    assert len(handler.notifications) == 1


async def test_closed_port_of_one_peer_does_not_lose_messages_to_another(endpoint, device):
    """The kernel returns the error of one peer from the next call of the socket, for any peer."""
    transport = endpoint._layers[False].transport
    closing = Device(device.server)
    closed_peer = closing.peer
    closing.close()
    for number in range(3):
        transport.send(closed_peer, Message(Type.RESET, 0, number).encode())
        transport.send(device.peer, Message(Type.RESET, 0, number).encode())
    assert [(await device.receive()).message_id for _ in range(3)] == [0, 1, 2]


async def test_datagram_from_port_0_is_dropped(handler, endpoint):
    manager = endpoint._layers[False].transport._interface._ctx
    manager.pass_on(registration().encode(), [], 0, ("::ffff:127.0.0.1", 0, 0, 0))
    assert endpoint.counts.dropped == 1
    assert handler.requests == []
