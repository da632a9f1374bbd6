"""Speaking with devices over CoAP: real sockets on loopback, with bytes made by hand or by aiocoap as the device."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

from udp_relay import UdpRelay, drop

from mirror_server.devices.lwm2m.coap import CannotListen, CoapEndpoint, Limits, Tuning, listen
from mirror_server.devices.lwm2m.coap.messages import Block, Message, Option, Type, code_number, decode, uint_option
from mirror_server.devices.lwm2m.exchange import NoAnswer, Notification, Peer, Request, Response, Unreachable

QUICK = Tuning(ack_timeout_seconds=0.05, separate_response_seconds=0.3, empty_ack_seconds=0.05, answer_seconds=5)
READ = Request("GET", "/3303/0/5700", accept=0)


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on an event loop of its own, for half a minute at most."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 30))

    return run


class Registry:
    """A handler that writes down what it hears, and answers as it is told."""

    def __init__(self) -> None:
        self.requests: list[tuple[Peer, Request]] = []
        self.notifications: list[Notification] = []
        self.known_tokens: set[bytes] = set()
        self.ended: list[Peer] = []
        self.respond: Callable[[Request], Awaitable[Response]] = self._created

    async def answer(self, peer: Peer, request: Request) -> Response:
        self.requests.append((peer, request))
        return await self.respond(request)

    def notified(self, notification: Notification) -> bool:
        self.notifications.append(notification)
        return notification.token in self.known_tokens

    def session_ended(self, peer: Peer) -> None:
        self.ended.append(peer)

    async def _created(self, _request: Request) -> Response:
        return Response("2.01", location=("rd", "1"))


class Device:
    """A plain socket that sends and receives bytes."""

    def __init__(self, server: tuple[str, int]) -> None:
        family = socket.AF_INET6 if ":" in server[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        self.server = server

    @property
    def peer(self) -> Peer:
        host, port, *_ = self._socket.getsockname()
        return Peer(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    def close(self) -> None:
        self._socket.close()

    def send(self, message: Message | bytes) -> None:
        self._socket.sendto(message if isinstance(message, bytes) else message.encode(), self.server)

    async def receive(self) -> Message:
        datagram = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self._socket, 65_535), 5)
        return decode(datagram)

    async def hears_nothing(self) -> bool:
        """Whether nothing comes, not even after a message that is answered at once."""
        self.send(Message(Type.CONFIRMABLE, 0, 0x7777))
        return (await self.receive()).message_id == 0x7777

    def answer(self, asked: Message, code: str, payload: bytes = b"", *options: tuple[int, bytes]) -> None:
        """Answer with the acknowledgement."""
        message = Message(
            Type.ACKNOWLEDGEMENT, code_number(code), asked.message_id, asked.token, list(options), payload
        )
        self.send(message)

    async def serve(self, *answers: tuple[str, bytes, tuple[tuple[int, bytes], ...]]) -> list[Message]:
        """Answer one request after the other; gives the requests."""
        asked = []
        for code, payload, options in answers:
            asked.append(await self.receive())
            self.answer(asked[-1], code, payload, *options)
        return asked


@asynccontextmanager
async def speaking(
    handler: Registry | None = None, host: str = "127.0.0.1", tuning: Tuning = QUICK, limits: Limits | None = None
) -> AsyncIterator[tuple[CoapEndpoint, Device]]:
    """An endpoint, and a device that knows its address."""
    endpoint = await listen(handler or Registry(), coap=(host, 0), tuning=tuning, limits=limits or Limits())
    assert endpoint.coap_address is not None
    device = Device(endpoint.coap_address)
    try:
        yield endpoint, device
    finally:
        device.close()
        await endpoint.close()


@asynccontextmanager
async def relayed(endpoint: CoapEndpoint, device: Device) -> AsyncIterator[UdpRelay]:
    """A relay between the device and the endpoint."""
    assert endpoint.coap_address is not None
    async with UdpRelay(endpoint.coap_address) as relay:
        device.server = relay.address
        yield relay


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something to become true."""
    while not condition():
        await asyncio.sleep(0.001)


async def registered(device: Device, registry: Registry) -> Peer:
    """Let a device register; gives what the endpoint knows it by."""
    device.send(registration(message_id=60_000))
    await device.receive()
    return registry.requests[-1][0]


def confirmable(code: str, message_id: int = 1, token: bytes = b"\x01", **more: Any) -> Message:
    """A message that is to be acknowledged."""
    return Message(Type.CONFIRMABLE, code_number(code), message_id, token, **more)


def registration(message_id: int = 1, payload: bytes = b"</3/0>", **more: Any) -> Message:
    """A registration as a device sends it."""
    options = [
        (Option.URI_PATH, b"rd"),
        uint_option(Option.CONTENT_FORMAT, 40),
        (Option.URI_QUERY, b"ep=boiler"),
        (Option.URI_QUERY, b"lt=300"),
    ]
    return confirmable("0.02", message_id, options=options + more.pop("options", []), payload=payload, **more)


def notification(
    message_id: int, token: bytes, sequence: int, payload: bytes, kind: Type = Type.NON_CONFIRMABLE
) -> Message:
    """A notification of an observation."""
    return Message(kind, code_number("2.05"), message_id, token, [uint_option(Option.OBSERVE, sequence)], payload)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@in_loop
async def test_a_registration_comes_whole_and_is_answered_with_its_acknowledgement(host: str) -> None:
    registry = Registry()
    async with speaking(registry, host) as (_, device):
        device.send(registration(message_id=300))
        answer = await device.receive()
        assert (answer.type, answer.message_id, answer.token) == (Type.ACKNOWLEDGEMENT, 300, b"\x01")
        assert answer.code == code_number("2.01")
        assert answer.texts(Option.LOCATION_PATH) == ("rd", "1")
        assert registry.requests == [
            (device.peer, Request("POST", "/rd", ("ep=boiler", "lt=300"), b"</3/0>", content_format=40))
        ]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@in_loop
async def test_a_device_is_asked_from_the_socket_that_it_spoke_to(host: str) -> None:
    async with speaking(host=host) as (endpoint, device):
        reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
        [asked] = await device.serve(("2.05", b"21.5", ((Option.CONTENT_FORMAT, b""), uint_option(Option.MAX_AGE, 60))))
        assert await reading == Response("2.05", b"21.5", content_format=0, max_age_seconds=60)
        assert (asked.type, asked.texts(Option.URI_PATH)) == (Type.CONFIRMABLE, ("3303", "0", "5700"))
        assert asked.number(Option.ACCEPT) == 0
        assert len(asked.token) > 2


@in_loop
async def test_a_long_answer_is_read_in_blocks_each_of_which_says_what_is_accepted() -> None:
    whole = bytes(range(256)) * 20
    async with speaking() as (endpoint, device):
        reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
        asked = await device.serve(
            *[("2.05", whole[at : at + 512], ((Option.BLOCK2, Block(at // 512, at + 512 < len(whole), 512).encode()),))
              for at in range(0, len(whole), 512)]
        )  # fmt: skip
        assert (await reading).payload == whole
        assert [message.number(Option.ACCEPT) for message in asked] == [0] * 10
        assert [message.block(Option.BLOCK2) for message in asked[1:]] == [Block(n, False, 512) for n in range(1, 10)]


@in_loop
async def test_a_long_payload_is_written_in_blocks_of_the_size_that_the_device_wishes() -> None:
    whole = bytes(range(256)) * 12
    write = Request("PUT", "/19/0/0", payload=whole, content_format=42)
    async with speaking() as (endpoint, device):
        writing = asyncio.ensure_future(endpoint.request(device.peer, write))
        taken = b""
        asked = await device.receive()
        assert asked.number(Option.SIZE1) == len(whole)
        while (block := asked.block(Option.BLOCK1)) and block.more:
            assert block.offset == len(taken)
            taken += asked.payload
            device.answer(asked, "2.31", b"", (Option.BLOCK1, Block(block.number, True, 256).encode()))
            asked = await device.receive()
            assert (asked.number(Option.CONTENT_FORMAT), len(asked.payload)) == (42, 256)
        device.answer(asked, "2.04")
        assert await writing == Response("2.04")
        assert taken + asked.payload == whole


@in_loop
async def test_the_answer_to_observe_ends_the_request_and_what_follows_is_handed_on() -> None:
    registry = Registry()
    registry.known_tokens = {b"mine"}
    async with speaking(registry) as (endpoint, device):
        observing = asyncio.ensure_future(endpoint.observe(device.peer, READ, b"mine"))
        [asked] = await device.serve(("2.05", b"21.5", (uint_option(Option.OBSERVE, 7),)))
        assert (asked.token, asked.number(Option.OBSERVE), asked.number(Option.ACCEPT)) == (b"mine", 0, 0)
        assert await observing == (Response("2.05", b"21.5"), 7)
        device.send(notification(20, b"mine", 8, b"22.0", Type.CONFIRMABLE))
        answer = await device.receive()
        assert (answer.type, answer.message_id) == (Type.ACKNOWLEDGEMENT, 20)
        assert registry.notifications == [
            Notification(device.peer, b"mine", 8, Response("2.05", b"22.0"), is_confirmable=True, is_whole=True)
        ]


@in_loop
async def test_to_cancel_takes_the_token_of_the_observation_and_no_late_notification_for_its_answer() -> None:
    registry = Registry()
    registry.known_tokens = {b"mine"}
    async with speaking(registry) as (endpoint, device):
        cancelling = asyncio.ensure_future(endpoint.cancel(device.peer, READ, b"mine"))
        asked = await device.receive()
        assert (asked.token, asked.number(Option.OBSERVE)) == (b"mine", 1)
        device.send(notification(20, b"mine", 8, b"22.0"))
        device.answer(asked, "2.05", b"22.5")
        assert await cancelling == Response("2.05", b"22.5")
        assert [told.response.payload for told in registry.notifications] == [b"22.0"]


@pytest.mark.parametrize("kind", [Type.CONFIRMABLE, Type.NON_CONFIRMABLE])
@in_loop
async def test_a_notification_of_a_token_that_nobody_knows_is_answered_with_a_reset(kind: Type) -> None:
    async with speaking() as (endpoint, device):
        device.send(notification(21, b"\x02\xd7", 8, b"22.0", kind))
        answer = await device.receive()
        assert (answer.type, answer.message_id) == (Type.RESET, 21)
        assert endpoint.counts.resets_sent == 1


@in_loop
async def test_a_request_whose_answer_got_lost_is_done_once_and_answered_again() -> None:
    registry = Registry()
    async with speaking(registry) as (endpoint, device), relayed(endpoint, device) as relay:
        relay.fate = drop("down", 1)
        device.send(registration())
        await until(lambda: relay.passed["down"] == 1)
        device.send(registration())
        assert (await device.receive()).code == code_number("2.01")
        assert len(registry.requests) == 1
        assert endpoint.counts.duplicates == 1


@in_loop
async def test_a_device_that_starts_anew_with_the_same_message_id_says_something_new() -> None:
    registry = Registry()
    async with speaking(registry) as (endpoint, device):
        device.send(registration(token=b"\x01"))
        await device.receive()
        device.send(registration(token=b"\x02"))
        assert (await device.receive()).token == b"\x02"
        assert len(registry.requests) == 2
        assert endpoint.counts.duplicates == 0


@in_loop
async def test_a_request_to_a_device_gets_through_losses() -> None:
    registry = Registry()
    async with speaking(registry) as (endpoint, device), relayed(endpoint, device) as relay:
        peer = await registered(device, registry)
        relay.fate = drop("down", 2)
        reading = asyncio.ensure_future(endpoint.request(peer, READ))
        await device.serve(("2.05", b"1", ()))
        assert (await reading).payload == b"1"
        assert endpoint.counts.retransmissions == 1


@in_loop
async def test_silence_ends_and_the_next_request_goes_out_at_once() -> None:
    tuning = Tuning(ack_timeout_seconds=0.02, retransmissions=2)
    async with speaking(tuning=tuning) as (endpoint, device):
        with pytest.raises(NoAnswer, match="no answer to 3 sendings"):
            await endpoint.request(device.peer, READ)
        sent = [await device.receive() for _ in range(3)]
        assert sent[0] == sent[1] == sent[2]
        reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
        await device.serve(("2.05", b"1", ()))
        assert (await reading).is_success
        assert (endpoint.counts.retransmissions, endpoint.counts.unanswered) == (2, 1)


@pytest.mark.parametrize("more", [(), ((Option.CONTENT_FORMAT, b""),)])
@in_loop
async def test_an_answer_that_was_announced_and_never_comes_ends_too(more: tuple[tuple[int, bytes], ...]) -> None:
    """Also where the announcement holds an option, as a client was seen to do: what it does would be done twice."""
    async with speaking() as (endpoint, device):
        reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
        asked = await device.receive()
        device.send(Message(Type.ACKNOWLEDGEMENT, 0, asked.message_id, options=list(more)))
        with pytest.raises(NoAnswer, match="it took the request and did not answer"):
            await reading
        assert endpoint.counts.retransmissions == 0


@in_loop
async def test_a_separate_answer_is_acknowledged_each_time_that_it_comes() -> None:
    registry = Registry()
    async with speaking(registry) as (endpoint, device):
        reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
        asked = await device.receive()
        device.send(Message(Type.ACKNOWLEDGEMENT, 0, asked.message_id))
        separate = confirmable("2.05", 77, asked.token, payload=b"1")
        device.send(separate)
        assert (await reading).payload == b"1"
        device.send(separate)
        answers = [await device.receive(), await device.receive()]
        assert [(answer.type, answer.message_id) for answer in answers] == [(Type.ACKNOWLEDGEMENT, 77)] * 2
        assert registry.notifications == []


@in_loop
async def test_a_closed_port_is_unreachable_at_once() -> None:
    async with speaking(tuning=Tuning()) as (endpoint, device):
        peer = device.peer
        device.close()
        with pytest.raises(Unreachable, match="refused"):
            await endpoint.request(peer, READ)


@in_loop
async def test_a_taken_port_is_told_with_the_cure() -> None:
    async with speaking() as (endpoint, _):
        assert endpoint.coap_address is not None
        with pytest.raises(CannotListen, match=f"UDP port {endpoint.coap_address[1]} of 127.0.0.1 is taken"):
            await listen(Registry(), coap=endpoint.coap_address)


@in_loop
async def test_closing_ends_what_waits() -> None:
    async with speaking(tuning=Tuning()) as (endpoint, device):
        reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
        await device.receive()
        await endpoint.close()
        with pytest.raises(Unreachable, match="closed"):
            await reading
