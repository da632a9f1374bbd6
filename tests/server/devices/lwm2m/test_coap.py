"""Speaking with devices over CoAP: real sockets on loopback, with bytes made by hand or by aiocoap as the device."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

from coap_device import (
    READ,
    Registry,
    confirmable,
    in_loop,
    notification,
    registered,
    registration,
    relayed,
    speaking,
    until,
)
from udp_relay import drop

from mirror_server.devices.lwm2m.coap import CannotListen, Tuning, listen
from mirror_server.devices.lwm2m.coap.messages import Block, Message, Option, Type, code_number, uint_option
from mirror_server.devices.lwm2m.exchange import NoAnswer, Notification, Request, Response, Unreachable


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
        assert {message.token for message in asked} == {asked[0].token}


@in_loop
async def test_blocks_after_the_answer_to_observe_may_come_with_its_token() -> None:
    """Which names the observation and is not asked with again; a client was seen to answer with it all the same."""
    async with speaking() as (endpoint, device):
        observing = asyncio.ensure_future(endpoint.observe(device.peer, READ, b"mine"))
        first = await device.receive()
        more = (uint_option(Option.OBSERVE, 1), (Option.BLOCK2, Block(0, True, 16).encode()))
        device.answer(first, "2.05", bytes(16), *more)
        second = await device.receive()
        assert second.token != b"mine"
        second.token = b"mine"
        device.answer(second, "2.05", b"1", (Option.BLOCK2, Block(1, False, 16).encode()))
        assert (await observing).response.payload == bytes(16) + b"1"


@in_loop
async def test_a_long_payload_is_written_in_blocks_of_the_size_that_the_device_wishes() -> None:
    whole = bytes(range(256)) * 12
    write = Request("PUT", "/19/0/0", payload=whole, content_format=42)
    async with speaking() as (endpoint, device):
        writing = asyncio.ensure_future(endpoint.request(device.peer, write))
        taken = b""
        first = asked = await device.receive()
        assert asked.number(Option.SIZE1) == len(whole)
        while (block := asked.block(Option.BLOCK1)) and block.more:
            assert block.offset == len(taken)
            taken += asked.payload
            device.answer(asked, "2.31", b"", (Option.BLOCK1, Block(block.number, True, 256).encode()))
            asked = await device.receive()
            assert (asked.number(Option.CONTENT_FORMAT), len(asked.payload)) == (42, 256)
            assert asked.token == first.token
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
