"""The behavior of a LwM2M device: blocks, attributes, sleep, lost networks, restarts."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

pytest.importorskip("aiocoap", reason="real devices need the extra lwm2m")

import cbor2
from aiocoap import Message
from coap_device import until
from resource_paths import FIRMWARE, SWITCH, TEMPERATURE
from udp_server import ACK_CREATED, LIMIT_SECONDS, UdpServer, registered, registering, thermometer

from mirror_sdk.errors import InvalidValue
from mirror_server.clock import ManualClock, Timer
from mirror_server.core.timestamps import Instant
from mirror_server.extensions.lwm2m.coap.limits import Tuning
from mirror_server.extensions.lwm2m.device.coap_socket import ServerAddress
from mirror_server.extensions.lwm2m.device.device import LwM2MDevice
from mirror_server.extensions.lwm2m.device.resources import DeviceResource, write_links
from mirror_server.extensions.lwm2m.transport_api import NoResponse, Unreachable

pytestmark = pytest.mark.anyio

CON, NON, ACK, RST = range(4)
GET, POST, PUT, DELETE = 1, 2, 3, 4


class StrictClock(ManualClock):
    """A clock that rejects timers for the current time, which would repeat endlessly."""

    def call_at(self, due_at: Instant, action: Callable[[], None]) -> Timer:
        assert due_at > self.now()
        return super().call_at(due_at, action)


@pytest.fixture
def clock() -> ManualClock:
    return StrictClock(0)


@pytest.fixture
async def device(server: UdpServer, clock: ManualClock) -> AsyncIterator[LwM2MDevice]:
    async with registered(server, clock=clock) as device:
        yield device


async def next_message(server: UdpServer) -> Message:
    return Message.decode(await server.next())


async def observe(server: UdpServer, path: str = TEMPERATURE, **options: Any) -> None:
    await send_request(server, GET, path, **{"accept": 0, "observe": 0} | options)


async def expect_notification(server: UdpServer, payload: bytes) -> Message:
    """Check the payload of the next message of the device, and return the message."""
    notification = await next_message(server)
    assert notification.payload == payload
    return notification


async def expect_error(server: UdpServer, code: str, method: int, path: str, **options: Any) -> None:
    assert (await send_request(server, method, path, **options)).code.dotted == code, (method, path)


async def send_request(server: UdpServer, method: int, path: str, **options: Any) -> Message:
    """Send a confirmable request with token aa, and return the next message."""
    message_id = server.message_id = getattr(server, "message_id", 0) + 1
    message = Message(code=method, _mid=message_id, _mtype=CON, _token=options.pop("token", b"\xaa"), **options)
    message.opt.uri_path = tuple(path.strip("/").split("/"))
    server.send(message.encode())
    return await next_message(server)


async def expect_nothing(server: UdpServer) -> None:
    """Check that the device sends nothing before the reset of a ping."""
    assert await server.exchange("40 00 fefe") == "70 00 fe fe"


async def respond_created(server: UdpServer, pending: Any, response: bytes = ACK_CREATED + b"\x82rd\x02b2") -> bytes:
    """Respond to the next request of the device. By default with 2.01 and the location ``/rd/b2``."""
    task = asyncio.ensure_future(pending)
    request = await server.next()
    server.send(response[:2] + request[2:8] + response[2:])
    await asyncio.wait_for(task, LIMIT_SECONDS)
    return request


CHANGED = b"\x64\x44"


async def test_large_value_is_consistent_across_blocks(server):
    text = "0123456789" * 512
    async with registered(server, resources=[DeviceResource("/3/0/0", text)]) as device:
        blocks = []
        for number in range(5):
            response = await send_request(
                server, GET, "/3/0/0", accept=0, **({"block2": (number, False, 6)} if number else {})
            )
            assert response.opt.block2 == (number, number < 4, 6)
            blocks.append(response.payload)
            device.set_value("/3/0/0", f"changed after block {number}")
        assert b"".join(blocks).decode() == text
        assert (await send_request(server, GET, "/3/0/0", block2=(99, False, 6))).code.dotted == "4.02"


async def test_device_can_withhold_response_or_respond_separately(server):
    quick = Tuning(empty_ack_seconds=0.001)
    async with registered(server, tuning=quick) as device:
        device.behavior.responds = False
        server.send("41 01 0009 aa  b4 33333033 01 30 04 35373030 60")
        await expect_nothing(server)
        device.behavior.responds = True
        device.behavior.respond_after = asyncio.Event()
        acknowledgement = await send_request(server, GET, TEMPERATURE, accept=0)
        assert (acknowledgement.code, acknowledgement.mtype) == (0, ACK)
        device.behavior.respond_after.set()
        response = Message.decode(await server.next())
        assert (response.mtype, response.token, response.payload) == (CON, b"\xaa", b"21.5")
        server.send(b"\x60\x00" + response.mid.to_bytes(2, "big"))


async def test_device_without_text_plain_responds_4_06_and_supports_tlv(server, device):
    device.behavior.formats = frozenset({11542})
    assert (await send_request(server, GET, TEMPERATURE, accept=0)).code.dotted == "4.06"
    tlv = await send_request(server, GET, TEMPERATURE, accept=11542)
    assert tlv.payload == bytes.fromhex("e4 1644 41ac0000")
    default = await send_request(server, GET, TEMPERATURE)
    assert (int(default.opt.content_format), default.payload) == (11542, tlv.payload)


async def test_version_1_1_supports_senml(server):
    clock = ManualClock(1_700_000_000_500)
    async with registered(server, version="1.1", clock=clock) as device:
        text = await send_request(server, GET, "/3311/0", accept=110)
        assert text.payload == b'[{"n":"/3311/0/5850","vb":false},{"n":"/3311/0/5851","v":40}]'
        assert (await send_request(server, GET, "/3311", accept=110)).payload == text.payload
        binary = await send_request(server, GET, TEMPERATURE, accept=112)
        assert cbor2.loads(binary.payload) == [{0: TEMPERATURE, 2: 21.5}]
        body = b'[{"n":"/3311/0/5850","vb":true},{"n":"/3311/0/5999","v":1}]'
        assert (await send_request(server, PUT, "/3311/0", payload=body, content_format=110)).code.dotted == "4.04"
        assert device.value(SWITCH) is False
        body = b'[{"bn":"/3311/0/","n":"5850","vb":true}]'
        assert (await send_request(server, PUT, SWITCH, payload=body, content_format=110)).code.dotted == "2.04"
        assert device.value(SWITCH) is True
        device.set_value(TEMPERATURE, 22.5)
        sent = Message.decode(await respond_created(server, device.send(TEMPERATURE), CHANGED))
        assert (int(sent.code), sent.opt.uri_path, int(sent.opt.content_format)) == (POST, ("dp",), 110)
        assert sent.payload == b'[{"n":"/3303/0/5700","v":22.5,"t":1700000000.5}]'
        # Text represents one resource. TLV cannot represent an object.
        for path, accepted in (("/3311", 11542), ("/3311/0", 0), (TEMPERATURE, 42)):
            await expect_error(server, "4.06", GET, path, accept=accepted)
        await expect_error(server, "4.05", POST, SWITCH)
        await expect_error(server, "4.05", DELETE, "/3311/0")


async def test_discover_returns_resources_with_written_attributes(server, device):
    written = await send_request(server, PUT, TEMPERATURE, uri_query=("pmin=5", "pmax=60"))
    assert written.code.dotted == "2.04"
    assert (await send_request(server, PUT, TEMPERATURE, uri_query=("pmin=soon",))).code.dotted == "4.00"
    links = await send_request(server, GET, "/3303/0", accept=40)
    assert int(links.opt.content_format) == 40
    assert links.payload == b"</3303/0>,</3303/0/5700>;pmin=5;pmax=60"


async def test_pmin_delays_change_and_pmax_repeats_unchanged_value(server, device, clock):
    # Attributes of a resource override those of its instance, and these override those of its object.
    await send_request(server, PUT, "/3303", uri_query=("pmin=8",))
    await send_request(server, PUT, "/3303/0", uri_query=("pmin=5", "pmax=9"))
    await send_request(server, PUT, TEMPERATURE, uri_query=("pmax=60",))
    await observe(server)
    for value in (22.0, 23.0):
        device.set_value(TEMPERATURE, value)
    for milliseconds in (5_000, 60_000):
        clock.advance(milliseconds - 1)
        await expect_nothing(server)
        clock.advance(1)
        await expect_notification(server, b"23.0")


async def test_notifications_due_during_sleep_are_sent_at_next_contact(server, device, clock):
    await send_request(server, PUT, TEMPERATURE, uri_query=("pmax=60",))
    await observe(server)
    port = device.port
    device.sleep()
    assert device.is_asleep
    for _ in range(3):
        clock.advance(60_000)
        await asyncio.sleep(0)
    await respond_created(server, device.wake(), CHANGED)
    await expect_notification(server, b"21.5")
    await expect_nothing(server)
    clock.advance(60_000)
    await expect_notification(server, b"21.5")
    device.sleep()
    # Messages to a sleeping device are lost. It sends its changes when it wakes up.
    server.send("40 00 0001")
    await until(lambda: device.lost_datagrams)
    device.set_value(TEMPERATURE, 25.0)
    update = Message.decode(await respond_created(server, device.wake(), CHANGED))
    assert update.opt.uri_path == ("rd", "a1")
    await expect_notification(server, b"25.0")
    assert device.port == port
    await expect_nothing(server)


async def test_elapsed_pmax_notifies_at_once(server, device, clock):
    await observe(server)
    clock.advance(10_000)
    notification = await send_request(server, PUT, TEMPERATURE, uri_query=("pmax=5",))
    assert (notification.token, notification.payload) == (b"\xaa", b"21.5")
    assert (await next_message(server)).code.dotted == "2.04"
    device.remove(TEMPERATURE)
    clock.advance(5_000)
    await expect_nothing(server)


async def test_notify_with_custom_token_sequence_and_type(server, device):
    device.notify(b"\x99", b"1", sequence=7)
    unknown = await next_message(server)
    assert (unknown.mtype, unknown.token, unknown.opt.observe) == (NON, b"\x99", 7)
    await observe(server)
    device.behavior.notifies_confirmable = True
    device.observations.sequence = 2**24 - 2
    for value, sequence in ((1.0, 2**24 - 1), (2.0, 0)):
        device.set_value(TEMPERATURE, value)
        notification = Message.decode(await server.next())
        assert (notification.mtype, notification.opt.observe or 0) == (CON, sequence)
        server.send(b"\x60\x00" + notification.mid.to_bytes(2, "big"))
    device.behavior.notifies = False
    device.set_value(TEMPERATURE, 3.0)
    await expect_nothing(server)


async def test_reset_request_fails(server, device):
    updating = asyncio.ensure_future(device.update())
    request = await server.next()
    server.send(b"\x70\x00" + request[2:4])
    with pytest.raises(Unreachable, match="reset"):
        await updating


async def test_observation_of_instance_replaces_that_of_its_resource(server, device):
    await observe(server, SWITCH, token=b"\x01")
    await observe(server, "/3311/0", accept=11542, token=b"\x02")
    device.set_value(SWITCH, True)
    assert (await expect_notification(server, bytes.fromhex("e1 16da 01  e1 16db 28"))).token == b"\x02"
    await expect_nothing(server)


async def test_cut_off_device_sends_no_responses_and_notifications(server):
    quick = Tuning(ack_timeout_seconds=0.1, retransmissions=1)
    async with registered(server, tuning=quick) as device:
        await observe(server)
        device.cut_off()
        device.set_value(TEMPERATURE, 25.0)
        with pytest.raises(NoResponse):
            await device.update()
        device.restore()
        device.set_value(TEMPERATURE, 26.0)
        await expect_notification(server, b"26.0")


async def test_restart_uses_new_port_and_drops_observations(server, device):
    port = device.port
    await observe(server)
    update = Message.decode(await respond_created(server, device.restart(keeps_registration=True), CHANGED))
    assert (update.opt.uri_path, len(device.observations)) == (("rd", "a1"), 0)
    assert device.port != port


async def test_wake_from_new_port_with_registration_drops_observations(server):
    async with registered(server, queue_mode=True) as device:
        port = device.port
        await observe(server)
        device.sleep()
        registration = await respond_created(server, device.wake(from_new_port=True, registers=True))
        assert b"b=UQ" in registration
        assert (device.registration_id, len(device.observations)) == ("b2", 0)
        assert device.port == server.peer[1] != port
        update = Message.decode(await respond_created(server, device.update(lifetime_seconds=30, binding="U"), CHANGED))
        assert (update.opt.uri_query, update.payload, update.opt.content_format) == (("lt=30", "b=U"), b"", None)
        await respond_created(server, device.deregister(), b"\x64\x42")
        assert not device.is_registered


async def test_failing_callback_responds_5_00_and_next_request_succeeds(server, caplog):
    def fail(_: bytes) -> None:
        raise RuntimeError("out of order")

    with caplog.at_level(logging.CRITICAL):
        async with registered(server, resources=[DeviceResource("/3/0/4", on_execute=fail)]):
            await expect_error(server, "5.00", POST, "/3/0/4")
            await expect_error(server, "4.04", POST, "/3/0/5")


async def test_closed_device_cannot_send_requests(server):
    device = LwM2MDevice(server.url, "probe", thermometer(), clock=ManualClock(0))
    with pytest.raises(Unreachable, match="has to register first"):
        await device.deregister()
    async with registering(server) as (device, task, _):
        await device.close()
        with pytest.raises(Unreachable, match="closed"):
            await task


def test_invalid_path_key_or_value_is_rejected() -> None:
    with pytest.raises(ValueError, match="not the path of a resource"):
        LwM2MDevice("coap://127.0.0.1", "probe", [DeviceResource("/3303/0")], clock=ManualClock(0))
    with pytest.raises(ValueError, match="needs a pre-shared key"):
        LwM2MDevice("coaps://127.0.0.1", "probe", clock=ManualClock(0))
    device = LwM2MDevice("coap://127.0.0.1", "probe", thermometer(), clock=ManualClock(0))
    with pytest.raises(InvalidValue):
        device.set_value(TEMPERATURE, "warm")
    assert device.value(TEMPERATURE) == 21.5


def test_links_announce_observable_and_auto_observed_resources() -> None:
    resources = [
        DeviceResource("/3303/0/5700", 1.5),
        DeviceResource("/3/0/0", "a", observable=False),
        DeviceResource("/3/0/4", on_execute=lambda argument: None),
        DeviceResource("/3200/0/5500", True, auto_observed_token=513),
    ]
    assert write_links(resources) == '</3/0/0>,</3/0/4>,</3200/0/5500>;obs;aobs="513",</3303/0/5700>;obs'


def test_server_address_is_parsed_with_default_ports():
    for url, address in {
        "coap://192.0.2.1": ServerAddress("192.0.2.1", 5683),
        "coaps://mirror.example": ServerAddress("mirror.example", 5684, is_secure=True),
        "coap://[::1]:7/": ServerAddress("::1", 7),
    }.items():
        assert ServerAddress.parse(url) == address == ServerAddress.parse(str(address))


def _mutated(chance: random.Random) -> bytes:
    """Return a request with some bytes changed, removed or added."""
    request = bytearray.fromhex("41 01 0001 aa  60 54 33333033 01 30 04 35373030 60 ff 31")
    request[2:4] = chance.randbytes(2)
    for _ in range(chance.randrange(4)):
        request[chance.randrange(len(request))] = chance.randrange(256)
    return bytes(request[: chance.randrange(1, len(request) + 1)]) + chance.randbytes(chance.choice((0, 0, 3, 40)))


async def test_mutated_datagrams_do_not_stop_device(server, device, caplog):
    chance = random.Random(7)
    for number in range(300):
        server.send(_mutated(chance))
        server.send(b"\x40\x00" + number.to_bytes(2, "big"))
        while await server.next() != b"\x70\x00" + number.to_bytes(2, "big"):
            pass
    device.observations.clear()
    response = await send_request(server, GET, TEMPERATURE, accept=0, token=b"\x99")
    while response.token != b"\x99":
        response = Message.decode(await server.next())
    assert response.payload == b"21.5"
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_value_written_in_blocks_is_read_in_blocks_of_any_size(server):
    written: list[Any] = []
    package = DeviceResource(FIRMWARE, b"", writable=True, on_write=written.append)
    async with registered(server, resources=[package]) as device:
        for size, exponent in ((0, 0), (16, 0), (17, 0), (300, 2), (3072, 6), (5000, 5)):
            body, block = random.Random(size).randbytes(size), 16 << exponent
            for begin in range(0, max(size, 1), block):
                last = begin + block >= size
                block_option = (begin // block, not last, exponent)
                block_request = {"payload": body[begin : begin + block], "content_format": 42, "block1": block_option}
                response = await send_request(server, PUT, FIRMWARE, **block_request)
                assert (response.code.dotted, response.opt.block1[0]) == ("2.04" if last else "2.31", block_option[0])
            assert device.value(FIRMWARE) == written.pop() == body
            read, more = b"", True
            while more:
                block_option = (len(read) // block, False, exponent)
                response = await send_request(server, GET, FIRMWARE, accept=42, block2=block_option)
                read += response.payload
                more = response.opt.block2 is not None and response.opt.block2.more
            assert read == body
        gap = await send_request(server, PUT, FIRMWARE, payload=b"x" * 1024, content_format=42, block1=(1, True, 6))
        assert (gap.code.dotted, device.value(FIRMWARE), written) == ("4.08", body, [])
