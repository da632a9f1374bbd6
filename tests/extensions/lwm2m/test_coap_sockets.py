"""The sockets under CoAP: what is touched of aiocoap, addresses, and kernels that grant less."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket

import pytest

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

from coap_device import READ, Device, Registry, notification, registration, speaking, until
from ports import free_port

from mirror_server.extensions.lwm2m.coap import CannotListen, CoapLimits, listen, sockets
from mirror_server.extensions.lwm2m.transport_api import Peer, Unreachable

pytestmark = pytest.mark.anyio


async def test_a_datagram_of_more_than_four_kilobytes_is_taken_whole(registry, device):
    """``max_size`` of aiocoap's transport is 4,096 bytes."""
    await device.ask(registration(payload=bytes(60_000)))
    assert registry.requests[0][1].payload == bytes(60_000)


async def test_a_kernel_that_has_no_room_for_a_datagram_has_lost_it(endpoint, device):
    """And no more: the request goes on, and is sent again."""
    manager = endpoint._layers[False].transport._interface._ctx
    reading, asked = await device.asked(endpoint.request(device.peer, READ))
    manager.dispatch_error(BlockingIOError(errno.EAGAIN, "try again"), manager.remote(device.peer.address))
    device.answer(asked, "2.05", b"1")
    assert (await reading).payload == b"1"
    assert endpoint.counts.dropped == 1


async def test_an_answer_comes_from_the_address_that_was_spoken_to():
    """What ``pktinfo`` is kept for: a device behind a NAT hears nobody else."""
    registry = Registry()
    async with speaking(registry, host="0.0.0.0") as (endpoint, device):
        device.server = ("127.0.0.9", endpoint.coap_address[1])
        device._socket.connect(device.server)
        await device.ask(registration())
        reading = endpoint.request(registry.requests[0][0], READ)
        assert (await device.responds(reading, ("2.05", b"1", ()))).payload == b"1"


async def test_where_the_kernel_has_no_ipv6_ipv4_is_spoken(monkeypatch):
    monkeypatch.setattr(sockets, "has_ipv6", lambda: False)
    registry = Registry()
    async with speaking(registry) as (endpoint, device):
        assert await device.ask(registration()) == await device.ask(registration())
        assert registry.requests[0][0] == device.peer
        assert endpoint.counts.duplicates == 1
        assert (await device.responds(endpoint.request(device.peer, READ), ("2.05", b"1", ()))).payload == b"1"
        with pytest.raises(Unreachable, match="no IPv6"):
            await endpoint.request(Peer("[::1]:5683"), READ)
        with pytest.raises(CannotListen, match="in use"):
            await listen(Registry(), coap=endpoint.coap_address)
    with pytest.raises(CannotListen, match="no address of this machine"):
        await listen(Registry(), coap=("::1", 0))


async def test_an_address_that_is_not_here_is_told():
    for host in ("192.0.2.1", "2001:db8::1", "no.such.host.invalid:0"):
        with pytest.raises(CannotListen, match=f"{host} is not an address of this machine"):
            await listen(Registry(), coap=(host.removesuffix(":0"), 0))


async def test_what_was_opened_is_closed_when_the_second_address_is_taken(endpoint):
    address = ("127.0.0.1", free_port(socket.SOCK_DGRAM))
    with pytest.raises(CannotListen):
        await listen(Registry(), coap=address, coaps=endpoint.coap_address)
    again = await listen(Registry(), coap=address)
    await again.close()


async def test_a_port_that_may_be_shared_elsewhere_is_not_taken_from_us(endpoint):
    """With ``SO_REUSEPORT`` a second server would get half of the devices."""
    thief = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    with pytest.raises(OSError, match="in use"):
        thief.bind(endpoint.coap_address)
    thief.close()


async def test_a_kernel_that_grants_a_smaller_buffer_is_told_of(caplog):
    caplog.set_level(logging.WARNING)
    endpoint = await listen(Registry(), coap=("127.0.0.1", 0), limits=CoapLimits(receive_buffer_bytes=1 << 30))
    await endpoint.close()
    assert "sysctl -w net.core.rmem_max=1073741824" in caplog.text


async def test_a_burst_of_five_thousand_notifications_is_taken_without_loss(registry, endpoint):
    """Which needs the buffer: all is sent before the loop looks at the socket once."""
    listening = endpoint._layers[False].transport._interface.transport.get_extra_info("socket")
    if listening.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) < 2 * CoapLimits().receive_buffer_bytes:
        pytest.skip("the kernel grants no receive buffer of 4 MB")
    devices = [Device(endpoint.coap_address) for _ in range(10)]
    for number in range(5_000):
        devices[number % 10].send(notification(number, b"mine", number, b"21.5"))
    await until(lambda: len(registry.notifications) == 5_000)
    assert [told.sequence for told in registry.notifications] == list(range(5_000))
    for each in devices:
        each.close()


OVERLOAD = 2 * sockets._LOAD_DATAGRAMS
"""So many datagrams at once that the socket rests."""


async def tell(registry: Registry, device: Device, count: int) -> None:
    """Notify so often at once, and wait until that was taken."""
    before = len(registry.notifications)
    for number in range(before, before + count):
        device.send(notification(number, b"mine", number, b"21.5"))
    await until(lambda: len(registry.notifications) == before + count)


async def test_while_much_comes_the_socket_is_not_looked_at_for_each_datagram(monkeypatch):
    monkeypatch.setattr(sockets, "_PAUSE_SECONDS", 3600)
    registry = Registry()
    async with speaking(registry) as (endpoint, device):
        interface = endpoint._layers[False].transport._interface
        await tell(registry, device, OVERLOAD)
        device.send(notification(OVERLOAD, b"mine", OVERLOAD, b"21.5"))
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(registry.notifications) == OVERLOAD

        interface.read_datagrams()
        assert len(registry.notifications) == OVERLOAD + 1
    assert interface._pause_timer.cancelled()


async def test_what_comes_one_by_one_is_taken_at_once(registry, device, monkeypatch):
    monkeypatch.setattr(sockets, "_PAUSE_SECONDS", 3600)
    for _ in range(sockets._LOAD_DATAGRAMS):
        await tell(registry, device, 1)


async def test_a_datagram_that_cannot_be_taken_is_not_the_last_one(registry, endpoint, device, caplog):
    asyncio.get_running_loop().set_exception_handler(None)
    way = endpoint._layers[False]
    manager = way.transport._interface._ctx
    await tell(registry, device, OVERLOAD)
    manager._receiver = None
    device.send(notification(OVERLOAD, b"mine", OVERLOAD, b"21.5"))
    await until(lambda: "AttributeError" in caplog.text)
    manager._receiver = way
    await tell(registry, device, 1)


def test_addresses_are_told_as_people_write_them_and_read_again():
    for sockaddr, text in {
        ("::ffff:192.0.2.1", 5683, 0, 0): "192.0.2.1:5683",
        ("2001:db8::1", 40_000, 0, 0): "[2001:db8::1]:40000",
        ("fe80::1", 40_000, 0, 3): "[fe80::1%3]:40000",
        ("::ffff:0:1", 1, 0, 0): "[::ffff:0:1]:1",
    }.items():
        assert sockets.address_text(sockaddr) == text
        assert sockets.sockaddr_of(text) == sockaddr


async def test_a_peer_with_a_wrong_address_or_protocol_is_unreachable(endpoint, device):
    for address in ("", "nonsense", "192.0.2.1", "192.0.2.1:port", "[fe80::1%eth0]:1", "[::1]:99999999"):
        with pytest.raises(Unreachable):
            await endpoint.request(Peer(address), READ)
    with pytest.raises(Unreachable, match="does not listen for coaps"):
        await endpoint.request(Peer(device.peer.address, is_secure=True, identity="boiler"), READ)
