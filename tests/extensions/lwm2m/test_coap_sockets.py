"""The sockets of CoAP: the parts of aiocoap in use, addresses, and limits of the kernel."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket

import pytest

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

from coap_device import READ, Device, RecordingHandler, endpoint_with_device, notification, registration, until
from ports import free_port

from mirror_server.extensions.lwm2m.coap import CannotListen, CoapLimits, listen, sockets
from mirror_server.extensions.lwm2m.transport_api import Peer, Unreachable

pytestmark = pytest.mark.anyio


async def test_datagram_larger_than_four_kilobytes_is_complete(handler, device):
    """``max_size`` of aiocoap's transport is 4,096 bytes."""
    await device.exchange(registration(payload=bytes(60_000)))
    assert handler.requests[0][1].payload == bytes(60_000)


async def test_datagram_dropped_by_full_kernel_buffer_does_not_fail_request(endpoint, device):
    """The request continues, and is retransmitted."""
    manager = endpoint._layers[False].transport._interface._ctx
    reading, request = await device.start_request(endpoint.request(device.peer, READ))
    manager.dispatch_error(BlockingIOError(errno.EAGAIN, "try again"), manager.remote(device.peer.address))
    device.respond(request, "2.05", b"1")
    assert (await reading).payload == b"1"
    assert endpoint.counts.dropped == 1


async def test_requests_are_sent_from_the_address_the_device_used():
    """This needs ``pktinfo``: a NAT lets only that address reach the device."""
    handler = RecordingHandler()
    async with endpoint_with_device(handler, host="0.0.0.0") as (endpoint, device):
        device.server = ("127.0.0.9", endpoint.coap_address[1])
        device._socket.connect(device.server)
        await device.exchange(registration())
        reading = endpoint.request(handler.requests[0][0], READ)
        assert (await device.run_with_responses(reading, ("2.05", b"1", ()))).payload == b"1"


async def test_ipv4_is_used_if_kernel_has_no_ipv6(monkeypatch):
    monkeypatch.setattr(sockets, "has_ipv6", lambda: False)
    handler = RecordingHandler()
    async with endpoint_with_device(handler) as (endpoint, device):
        assert await device.exchange(registration()) == await device.exchange(registration())
        assert handler.requests[0][0] == device.peer
        assert endpoint.counts.duplicates == 1
        assert (
            await device.run_with_responses(endpoint.request(device.peer, READ), ("2.05", b"1", ()))
        ).payload == b"1"
        with pytest.raises(Unreachable, match="no IPv6"):
            await endpoint.request(Peer("[::1]:5683"), READ)
        with pytest.raises(CannotListen, match="in use"):
            await listen(RecordingHandler(), coap=endpoint.coap_address)
    with pytest.raises(CannotListen, match="not an address of this machine"):
        await listen(RecordingHandler(), coap=("::1", 0))


async def test_listening_on_foreign_address_fails():
    for host in ("192.0.2.1", "2001:db8::1", "no.such.host.invalid:0"):
        with pytest.raises(CannotListen, match=f"{host} is not an address of this machine"):
            await listen(RecordingHandler(), coap=(host.removesuffix(":0"), 0))


async def test_first_socket_is_closed_if_second_address_is_in_use(endpoint):
    address = ("127.0.0.1", free_port(socket.SOCK_DGRAM))
    with pytest.raises(CannotListen):
        await listen(RecordingHandler(), coap=address, coaps=endpoint.coap_address)
    again = await listen(RecordingHandler(), coap=address)
    await again.close()


async def test_port_is_not_shared_with_so_reuseport(endpoint):
    """With ``SO_REUSEPORT`` a second server would get half of the devices."""
    other_socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    other_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    with pytest.raises(OSError, match="in use"):
        other_socket.bind(endpoint.coap_address)
    other_socket.close()


async def test_smaller_receive_buffer_is_logged_with_sysctl(caplog):
    caplog.set_level(logging.WARNING)
    endpoint = await listen(RecordingHandler(), coap=("127.0.0.1", 0), limits=CoapLimits(receive_buffer_bytes=1 << 30))
    await endpoint.close()
    assert "sysctl -w net.core.rmem_max=1073741824" in caplog.text


async def test_burst_of_five_thousand_notifications_is_received_without_loss(handler, endpoint):
    """This needs the buffer: all are sent before the loop reads the socket."""
    listening = endpoint._layers[False].transport._interface.transport.get_extra_info("socket")
    if listening.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) < 2 * CoapLimits().receive_buffer_bytes:
        pytest.skip("the kernel grants no receive buffer of 4 MB")
    devices = [Device(endpoint.coap_address) for _ in range(10)]
    for number in range(5_000):
        devices[number % 10].send(notification(number, b"mine", number, b"21.5"))
    await until(lambda: len(handler.notifications) == 5_000)
    assert [each.sequence for each in handler.notifications] == list(range(5_000))
    for each in devices:
        each.close()


OVERLOAD = 2 * sockets._LOAD_DATAGRAMS
"""A number of datagrams that makes the socket pause."""


async def notify_repeatedly(handler: RecordingHandler, device: Device, count: int) -> None:
    """Send a number of notifications at once, and wait until the handler has them."""
    before = len(handler.notifications)
    for number in range(before, before + count):
        device.send(notification(number, b"mine", number, b"21.5"))
    await until(lambda: len(handler.notifications) == before + count)


async def test_socket_reads_pause_under_load(monkeypatch):
    monkeypatch.setattr(sockets, "_PAUSE_SECONDS", 3600)
    handler = RecordingHandler()
    async with endpoint_with_device(handler) as (endpoint, device):
        interface = endpoint._layers[False].transport._interface
        await notify_repeatedly(handler, device, OVERLOAD)
        device.send(notification(OVERLOAD, b"mine", OVERLOAD, b"21.5"))
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(handler.notifications) == OVERLOAD

        interface.read_datagrams()
        assert len(handler.notifications) == OVERLOAD + 1
    assert interface._pause_timer.cancelled()


async def test_single_datagrams_are_read_without_pause(handler, device, monkeypatch):
    monkeypatch.setattr(sockets, "_PAUSE_SECONDS", 3600)
    for _ in range(sockets._LOAD_DATAGRAMS):
        await notify_repeatedly(handler, device, 1)


async def test_failure_to_handle_a_datagram_does_not_stop_reading(handler, endpoint, device, caplog):
    asyncio.get_running_loop().set_exception_handler(None)
    layer = endpoint._layers[False]
    manager = layer.transport._interface._ctx
    await notify_repeatedly(handler, device, OVERLOAD)
    manager._receiver = None
    device.send(notification(OVERLOAD, b"mine", OVERLOAD, b"21.5"))
    await until(lambda: "AttributeError" in caplog.text)
    manager._receiver = layer
    await notify_repeatedly(handler, device, 1)


def test_peer_addresses_round_trip_as_text():
    for sockaddr, text in {
        ("::ffff:192.0.2.1", 5683, 0, 0): "192.0.2.1:5683",
        ("2001:db8::1", 40_000, 0, 0): "[2001:db8::1]:40000",
        ("fe80::1", 40_000, 0, 3): "[fe80::1%3]:40000",
        ("::ffff:0:1", 1, 0, 0): "[::ffff:0:1]:1",
    }.items():
        assert sockets.address_text(sockaddr) == text
        assert sockets.sockaddr_of(text) == sockaddr


async def test_peer_with_invalid_address_or_protocol_is_unreachable(endpoint, device):
    for address in ("", "nonsense", "192.0.2.1", "192.0.2.1:port", "[fe80::1%eth0]:1", "[::1]:99999999"):
        with pytest.raises(Unreachable):
            await endpoint.request(Peer(address), READ)
    with pytest.raises(Unreachable, match="does not listen for coaps"):
        await endpoint.request(Peer(device.peer.address, is_secure=True, identity="boiler"), READ)
