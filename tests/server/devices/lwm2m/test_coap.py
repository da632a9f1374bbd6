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
from mirror_server.devices.lwm2m.coap.messages import Block, Message, Option, Type, code_number, code_text, uint_option
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
async def test_blocks_after_the_answer_to_observe_are_asked_with_its_token() -> None:
    """A client was seen to notify with the token of the last block; and one that answers with another is heard too."""
    registry = Registry()
    registry.known_tokens = {b"mine"}
    async with speaking(registry) as (endpoint, device):
        observing = asyncio.ensure_future(endpoint.observe(device.peer, READ, b"mine"))
        first = await device.receive()
        more = (uint_option(Option.OBSERVE, 1), (Option.BLOCK2, Block(0, True, 16).encode()))
        device.answer(first, "2.05", bytes(16), *more)
        second = await device.receive()
        assert (second.token, second.number(Option.OBSERVE)) == (b"mine", None)
        device.send(notification(9, b"mine", 2, b"22.0"))
        second.token = b"other"
        device.answer(second, "2.05", b"1", (Option.BLOCK2, Block(1, False, 16).encode()))
        assert (await observing).response.payload == bytes(16) + b"1"
        assert [each.response.payload for each in registry.notifications] == [b"22.0"]


@in_loop
async def test_what_follows_the_beginning_that_a_notification_told_is_asked_for() -> None:
    """A client was seen to notify no more until then; what it gives has the Observe option and is acknowledged."""
    registry = Registry()
    registry.known_tokens = {b"mine"}
    async with speaking(registry) as (endpoint, device):
        peer = await registered(device, registry)
        beginning = notification(7, b"mine", 2, b"a" * 16)
        beginning.options.append((Option.BLOCK2, Block(0, True, 16).encode()))
        device.send(beginning)
        await until(lambda: len(registry.notifications) == 1)
        assert not registry.notifications[0].is_whole
        reading = asyncio.ensure_future(endpoint.rest(peer, READ, b"mine"))
        asked = await device.receive()
        assert (asked.token, asked.block(Option.BLOCK2)) == (b"mine", Block(1, False, 16))
        device.send(notification(8, b"mine", 3, b"newer"))
        options = [uint_option(Option.OBSERVE, 2), (Option.BLOCK2, Block(1, False, 16).encode())]
        device.send(confirmable("2.05", asked.message_id, b"mine", options=options, payload=b"b"))
        assert (await reading).payload == b"a" * 16 + b"b"
        assert (await device.receive()).type == Type.ACKNOWLEDGEMENT
        assert [each.response.payload for each in registry.notifications[1:]] == [b"newer"]
        again = asyncio.ensure_future(endpoint.rest(peer, READ, b"mine"))
        asked = await device.receive()
        assert asked.block(Option.BLOCK2) is None
        device.answer(asked, "2.05", b"whole")
        assert (await again).payload == b"whole"


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


@pytest.mark.parametrize(("block", "is_whole"), [(Block(0, True, 16), False), (Block(0, False, 16), True)])
@in_loop
async def test_a_notification_in_blocks_is_told_to_be_the_first_of_them(block: Block, is_whole: bool) -> None:
    registry = Registry()
    async with speaking(registry) as (_, device):
        message = notification(20, b"mine", 8, bytes(16))
        message.options.append((Option.BLOCK2, block.encode()))
        device.send(message)
        await device.receive()
        assert [told.is_whole for told in registry.notifications] == [is_whole]


@in_loop
async def test_a_handler_that_fails_at_a_notification_is_heard_and_the_next_one_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Failing(Registry):
        def notified(self, notification: Notification) -> bool:
            super().notified(notification)
            raise RuntimeError("broken")

    registry = Failing()
    async with speaking(registry) as (_, device):
        for number in (1, 2):
            device.send(notification(number, b"mine", number, b"1", Type.CONFIRMABLE))
            assert (await device.receive()).type == Type.ACKNOWLEDGEMENT
        assert len(registry.notifications) == 2
        assert "broken" in caplog.text


@in_loop
async def test_a_reset_of_a_request_says_that_the_device_takes_none() -> None:
    async with speaking() as (endpoint, device):
        reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
        asked = await device.receive()
        device.send(Message(Type.RESET, 0, asked.message_id))
        with pytest.raises(Unreachable, match="reset"):
            await reading
        assert endpoint.counts.resets_received == 1


@in_loop
async def test_an_answer_that_takes_its_time_comes_after_an_acknowledgement_until_it_is_heard() -> None:
    registry = Registry()
    held = asyncio.Event()

    async def hold(_request: Request) -> Response:
        await held.wait()
        return Response("2.04")

    registry.respond = hold
    async with speaking(registry) as (endpoint, device):
        device.send(registration(message_id=5))
        answer = await device.receive()
        assert (answer.type, answer.code, answer.message_id) == (Type.ACKNOWLEDGEMENT, 0, 5)
        device.send(registration(message_id=5))
        assert await device.receive() == answer
        held.set()
        separate = await device.receive()
        assert (separate.type, code_text(separate.code), separate.token) == (Type.CONFIRMABLE, "2.04", b"\x01")
        assert await device.receive() == separate
        device.send(Message(Type.ACKNOWLEDGEMENT, 0, separate.message_id))
        await until(lambda: endpoint.counts.acknowledgements_received == 1)
        assert endpoint.counts.retransmissions >= 1
        assert len(registry.requests) == 1


@in_loop
async def test_a_request_that_wants_no_acknowledgement_is_answered_without_one() -> None:
    async with speaking() as (_, device):
        message = registration(message_id=5)
        message.type = Type.NON_CONFIRMABLE
        device.send(message)
        first = await device.receive()
        assert (first.type, first.token, code_text(first.code)) == (Type.NON_CONFIRMABLE, b"\x01", "2.01")
        device.send(message)
        assert await device.receive() == first


@in_loop
async def test_a_long_answer_to_a_device_is_cut_into_blocks() -> None:
    registry = Registry()
    whole = bytes(range(256)) * 10

    async def long(_request: Request) -> Response:
        return Response("2.05", whole, content_format=42)

    registry.respond = long
    async with speaking(registry) as (_, device):
        got = b""
        for number in range(5):
            wanted = [(Option.BLOCK2, Block(number, False, 512).encode())] if number else []
            device.send(confirmable("0.01", number + 1, options=[(Option.URI_PATH, b"x"), *wanted]))
            answer = await device.receive()
            block = answer.block(Option.BLOCK2)
            assert block is not None
            got = got[: block.offset] + answer.payload
        assert got == whole


@in_loop
async def test_a_device_that_takes_smaller_blocks_is_written_to_in_them() -> None:
    write = Request("PUT", "/19/0/0", payload=bytes(range(256)) * 4, content_format=42)
    async with speaking() as (endpoint, device):
        writing = asyncio.ensure_future(endpoint.request(device.peer, write))
        asked = await device.receive()
        assert asked.block(Option.BLOCK1) is None
        device.answer(asked, "4.13", b"", (Option.BLOCK1, Block(0, False, 512).encode()))
        first, second = await device.serve(("2.31", b"", ()), ("2.04", b"", ()))
        assert (await writing).is_success
        assert first.block(Option.BLOCK1) == Block(0, True, 512)
        assert first.payload + second.payload == write.payload


@in_loop
async def test_what_the_device_refuses_in_the_middle_of_a_write_is_its_answer() -> None:
    write = Request("PUT", "/19/0/0", payload=bytes(5_000), content_format=42)
    async with speaking() as (endpoint, device):
        writing = asyncio.ensure_future(endpoint.request(device.peer, write))
        await device.serve(("2.31", b"", ()), ("4.08", b"lost", ()))
        assert await writing == Response("4.08", b"lost")


@in_loop
async def test_an_observed_value_in_blocks_comes_whole_though_it_changes_meanwhile() -> None:
    def part(tag: bytes, number: int, *more: tuple[int, bytes]) -> tuple[str, bytes, tuple[tuple[int, bytes], ...]]:
        return "2.05", tag * 16, ((Option.ETAG, tag), (Option.BLOCK2, Block(number, number == 0, 16).encode()), *more)

    async with speaking() as (endpoint, device):
        observing = asyncio.ensure_future(endpoint.observe(device.peer, READ, b"mine"))
        observed = uint_option(Option.OBSERVE, 7)
        asked = await device.serve(part(b"a", 0, observed), part(b"b", 1), part(b"b", 0), part(b"b", 1))
        assert await observing == (Response("2.05", b"b" * 32), 7)
        assert [message.number(Option.OBSERVE) for message in asked] == [0, None, None, None]
        assert [message.number(Option.ACCEPT) for message in asked] == [0] * 4


@in_loop
async def test_what_cannot_be_observed_is_told_with_its_answer() -> None:
    async with speaking() as (endpoint, device):
        observing = asyncio.ensure_future(endpoint.observe(device.peer, READ, b"mine"))
        await device.serve(("4.05", b"", ()))
        assert await observing == (Response("4.05"), None)


@in_loop
async def test_what_a_device_made_is_told_with_its_place() -> None:
    async with speaking() as (endpoint, device):
        making = asyncio.ensure_future(endpoint.request(device.peer, Request("POST", "/3303", payload=b"x")))
        await device.serve(("2.01", b"", ((Option.LOCATION_PATH, b"3303"), (Option.LOCATION_PATH, b"5"))))
        assert await making == Response("2.01", location=("3303", "5"))


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
        # One answers what was lost; on a slow machine it is sent once more before the answer comes.
        assert endpoint.counts.retransmissions >= 1


@in_loop
async def test_silence_ends_and_the_next_request_goes_out_at_once() -> None:
    tuning = Tuning(ack_timeout_seconds=0.1, retransmissions=2)
    async with speaking(tuning=tuning) as (endpoint, device):
        with pytest.raises(NoAnswer, match="no answer to 3 sendings"):
            await endpoint.request(device.peer, READ)
        # What is sent next may have to be repeated too, where the machine is slow.
        assert (endpoint.counts.retransmissions, endpoint.counts.unanswered) == (2, 1)
        sent = [await device.receive() for _ in range(3)]
        assert sent[0] == sent[1] == sent[2]
        reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
        await device.serve(("2.05", b"1", ()))
        assert (await reading).is_success
        assert endpoint.counts.unanswered == 1


@pytest.mark.parametrize("more", [(), ((Option.CONTENT_FORMAT, b""),)])
@in_loop
async def test_an_answer_that_was_announced_and_never_comes_ends_too(more: tuple[tuple[int, bytes], ...]) -> None:
    """Also where the announcement holds an option, as a client was seen to do: what it does would be done twice."""
    # It is not sent again before it is taken, however slow the machine is.
    tuning = Tuning(ack_timeout_seconds=60, separate_response_seconds=0.5)
    async with speaking(tuning=tuning) as (endpoint, device):
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


@in_loop
async def test_what_is_not_acknowledged_is_sent_again_when_the_device_makes_contact() -> None:
    """Once for a burst of messages, and also after the last one that the timer sends."""
    async with speaking(tuning=Tuning(ack_timeout_seconds=0.5, ack_random_factor=1, retransmissions=1)) as (
        endpoint,
        device,
    ):
        reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
        sent = [await device.receive(), await device.receive()]
        for _ in range(50):
            endpoint.retransmit(device.peer)
        sent.append(await device.receive())
        assert sent[0] == sent[1] == sent[2]
        device.answer(sent[2], "2.05", b"1")
        assert (await reading).is_success
        assert endpoint.counts.retransmissions == 2
        endpoint.retransmit(device.peer)
        assert await device.hears_nothing()


@in_loop
async def test_contact_of_a_device_that_never_acknowledges_prolongs_a_request_so_often_and_no_more() -> None:
    async with speaking(tuning=Tuning(ack_timeout_seconds=0.05, ack_random_factor=1, retransmissions=1)) as (
        endpoint,
        device,
    ):
        reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
        while not reading.done():
            endpoint.retransmit(device.peer)
            await asyncio.sleep(0)
        with pytest.raises(NoAnswer, match="no answer to 3 sendings"):
            await reading


@in_loop
async def test_acknowledged_request_is_not_sent_again_at_contact() -> None:
    async with speaking() as (endpoint, device):
        reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
        asked = await device.receive()
        device.send(Message(Type.ACKNOWLEDGEMENT, 0, asked.message_id))
        assert await device.hears_nothing()
        endpoint.retransmit(device.peer)
        assert await device.hears_nothing()
        device.send(confirmable("2.05", 77, asked.token, payload=b"1"))
        assert (await reading).payload == b"1"


@pytest.mark.parametrize("sendings", [1, 2])
@in_loop
async def test_request_that_a_device_resets_may_have_arrived_if_it_was_sent_before(sendings: int) -> None:
    """A device that restarts because of an execute resets what comes after that."""
    async with speaking() as (endpoint, device):
        executing = asyncio.ensure_future(endpoint.request(device.peer, Request("POST", "/3/0/4")))
        for _ in range(sendings):
            asked = await device.receive()
        device.send(Message(Type.RESET, 0, asked.message_id))
        with pytest.raises(Unreachable) as caught:
            await executing
        assert caught.value.may_have_arrived is (sendings > 1)


@pytest.mark.parametrize("is_heard", [False, True])
@in_loop
async def test_request_to_a_port_that_is_closed_may_have_arrived_if_it_was_open_before(is_heard: bool) -> None:
    """The closed port is reported for a later datagram, here for the response to a ping."""
    async with speaking() as (endpoint, device):
        peer = device.peer
        if not is_heard:
            device.close()
        executing = asyncio.ensure_future(endpoint.request(peer, Request("POST", "/3/0/4")))
        if is_heard:
            await device.receive()
            device.send(Message(Type.CONFIRMABLE, 0, 0x7777))
            device.close()
        with pytest.raises(Unreachable) as caught:
            await executing
        assert caught.value.may_have_arrived is is_heard


@in_loop
async def test_request_that_a_device_resets_has_arrived_if_it_was_acknowledged_before() -> None:
    async with speaking() as (endpoint, device):
        executing = asyncio.ensure_future(endpoint.request(device.peer, Request("POST", "/3/0/4")))
        asked = await device.receive()
        device.send(Message(Type.ACKNOWLEDGEMENT, 0, asked.message_id))
        device.send(Message(Type.RESET, 0, asked.message_id))
        with pytest.raises(Unreachable) as caught:
            await executing
        assert caught.value.may_have_arrived


@in_loop
async def test_execute_with_a_long_response_is_not_sent_again_for_its_blocks() -> None:
    async with speaking() as (endpoint, device):
        executing = asyncio.ensure_future(endpoint.request(device.peer, Request("POST", "/3/0/4")))
        await device.serve(("2.04", bytes(16), ((Option.BLOCK2, Block(0, True, 16).encode()),)))
        assert (await executing).code == "2.04"
        assert await device.hears_nothing()
