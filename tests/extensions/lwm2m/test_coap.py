"""Speaking with devices over CoAP: real sockets on loopback, with bytes made by hand or by aiocoap as the device."""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

from coap_device import READ, Device, block1, block2, confirmable, notification, registered, registration, until

from mirror_server.extensions.lwm2m.coap import Tuning
from mirror_server.extensions.lwm2m.coap.messages import BlockOption, Message, Option, Type, code_text, uint_option
from mirror_server.extensions.lwm2m.transport_api import NoResponse, ObserveNotification, Request, Response, Unreachable

pytestmark = pytest.mark.anyio


def tuned(**tuning: float) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("options", [{"tuning": Tuning(**tuning)}])


@pytest.mark.parametrize("options", [{"host": "127.0.0.1"}, {"host": "::1"}])
async def test_a_registration_comes_whole_and_is_answered_with_its_acknowledgement(registry, endpoint, device):
    answer = await device.ask(registration(message_id=300))
    assert (answer.type, answer.message_id, answer.token) == (Type.ACKNOWLEDGEMENT, 300, b"\x01")
    assert (code_text(answer.code), answer.texts(Option.LOCATION_PATH)) == ("2.01", ("rd", "1"))
    request = Request("POST", "/rd", ("ep=boiler", "lt=300"), b"</3/0>", content_format=40)
    assert registry.requests == [(device.peer, request)]
    # From then on the device is asked, from the socket that it spoke to.
    value = "2.05", b"21.5", ((Option.CONTENT_FORMAT, b""), uint_option(Option.MAX_AGE, 60))
    response = await device.responds(endpoint.request(device.peer, READ), value)
    assert response == Response("2.05", b"21.5", content_format=0, max_age_seconds=60)
    (asked,) = device.heard
    assert (asked.type, asked.texts(Option.URI_PATH)) == (Type.CONFIRMABLE, ("3303", "0", "5700"))
    assert asked.number(Option.ACCEPT) == 0
    assert len(asked.token) > 2


async def test_blocks_after_the_answer_to_observe_are_asked_with_its_token(registry, endpoint, device):
    """A client was seen to notify with the token of the last block; and one that answers with another is heard too."""
    observing, first = await device.asked(endpoint.observe(device.peer, READ, b"mine"))
    more = (uint_option(Option.OBSERVE, 1), block2(0, True, 16))
    device.answer(first, "2.05", bytes(16), *more)
    second = await device.receive()
    assert (second.token, second.number(Option.OBSERVE)) == (b"mine", None)
    device.send(notification(9, b"mine", 2, b"22.0"))
    second.token = b"other"
    device.answer(second, "2.05", b"1", block2(1, False, 16))
    assert (await observing).response.payload == bytes(16) + b"1"
    assert [each.response.payload for each in registry.notifications] == [b"22.0"]


async def test_what_follows_the_beginning_that_a_notification_told_is_asked_for(registry, endpoint, device):
    """A client was seen to notify no more until then; what it gives has the Observe option and is acknowledged."""
    peer = await registered(device, registry)
    beginning = notification(7, b"mine", 2, b"a" * 16)
    beginning.options.append(block2(0, True, 16))
    device.send(beginning)
    await until(lambda: len(registry.notifications) == 1)
    assert not registry.notifications[0].is_complete
    reading, asked = await device.asked(endpoint.read_remaining(peer, READ, b"mine"))
    assert (asked.token, asked.block(Option.BLOCK2)) == (b"mine", BlockOption(1, False, 16))
    newer = notification(8, b"mine", 3, b"newer")
    newer.options.append(block2(0, False, 16))
    device.send(newer)
    options = [uint_option(Option.OBSERVE, 2), block2(1, False, 16)]
    device.send(confirmable("2.05", asked.message_id, b"mine", options=options, payload=b"b"))
    assert (await reading).payload == b"a" * 16 + b"b"
    assert (await device.receive()).type == Type.ACKNOWLEDGEMENT
    assert [(each.response.payload, each.is_complete) for each in registry.notifications[1:]] == [(b"newer", True)]
    again, asked = await device.asked(endpoint.read_remaining(peer, READ, b"mine"))
    assert asked.block(Option.BLOCK2) is None
    device.answer(asked, "2.05", b"whole")
    assert (await again).payload == b"whole"


async def test_a_long_payload_is_written_in_blocks_of_the_size_that_the_device_wishes(endpoint, device):
    whole = bytes(range(256)) * 12
    write = Request("PUT", "/19/0/0", payload=whole, content_format=42)
    writing = asyncio.ensure_future(endpoint.request(device.peer, write))
    taken = b""
    first = asked = await device.receive()
    assert asked.number(Option.SIZE1) == len(whole)
    while (block := asked.block(Option.BLOCK1)) and block.more:
        assert block.offset == len(taken)
        taken += asked.payload
        device.answer(asked, "2.31", b"", block1(block.number, True, 256))
        asked = await device.receive()
        assert (asked.number(Option.CONTENT_FORMAT), len(asked.payload)) == (42, 256)
        assert asked.token == first.token
    device.answer(asked, "2.04")
    assert await writing == Response("2.04")
    assert taken + asked.payload == whole


async def test_the_answer_to_observe_ends_the_request_and_what_follows_is_handed_on(registry, endpoint, device):
    value = "2.05", b"21.5", (uint_option(Option.OBSERVE, 7),)
    observed = await device.responds(endpoint.observe(device.peer, READ, b"mine"), value)
    assert observed == (Response("2.05", b"21.5"), 7)
    (asked,) = device.heard
    assert (asked.token, asked.number(Option.OBSERVE), asked.number(Option.ACCEPT)) == (b"mine", 0, 0)
    answer = await device.ask(notification(20, b"mine", 8, b"22.0", Type.CONFIRMABLE))
    assert (answer.type, answer.message_id) == (Type.ACKNOWLEDGEMENT, 20)
    value = Response("2.05", b"22.0")
    assert registry.notifications == [
        ObserveNotification(device.peer, b"mine", 8, value, is_confirmable=True, is_complete=True)
    ]


async def test_a_handler_that_fails_is_logged_and_the_next_notification_comes(registry, device, monkeypatch, caplog):
    asyncio.get_running_loop().set_exception_handler(None)
    noted = Mock(side_effect=RuntimeError("broken"))
    monkeypatch.setattr(registry, "notified", noted)
    for number in (1, 2):
        answer = await device.ask(notification(number, b"mine", number, b"1", Type.CONFIRMABLE))
        assert answer.type == Type.ACKNOWLEDGEMENT
    assert noted.call_count == 2
    assert "broken" in caplog.text


async def test_a_late_response_follows_an_acknowledgement_until_it_is_acknowledged(registry, endpoint, device):
    held = registry.hold("2.04")
    answer = await device.ask(registration(message_id=5))
    assert (answer.type, answer.code, answer.message_id) == (Type.ACKNOWLEDGEMENT, 0, 5)
    assert await device.ask(registration(message_id=5)) == answer
    held.set()
    separate = await device.receive()
    assert (separate.type, code_text(separate.code), separate.token) == (Type.CONFIRMABLE, "2.04", b"\x01")
    assert await device.receive() == separate
    device.acknowledge(separate)
    await until(lambda: endpoint.counts.acknowledgements_received == 1)
    assert endpoint.counts.retransmissions >= 1
    assert len(registry.requests) == 1


async def test_a_request_that_wants_no_acknowledgement_is_answered_without_one(device):
    message = registration(message_id=5)
    message.type = Type.NON_CONFIRMABLE
    first = await device.ask(message)
    assert (first.type, first.token, code_text(first.code)) == (Type.NON_CONFIRMABLE, b"\x01", "2.01")
    assert await device.ask(message) == first


async def test_a_long_answer_to_a_device_is_cut_into_blocks(registry, device):
    whole, got = bytes(range(256)) * 10, b""
    registry.hold("2.05", whole, content_format=42).set()
    for number in range(5):
        wanted = [block2(number, False, 512)] if number else []
        answer = await device.ask(confirmable("0.01", number + 1, options=[(Option.URI_PATH, b"x"), *wanted]))
        got = got[: answer.block(Option.BLOCK2).offset] + answer.payload
    assert got == whole


async def test_a_device_that_takes_smaller_blocks_is_written_to_in_them(endpoint, device):
    write = Request("PUT", "/19/0/0", payload=bytes(range(256)) * 4, content_format=42)
    for last in ("2.04", "4.08"):
        writing, asked = await device.asked(endpoint.request(device.peer, write))
        assert asked.block(Option.BLOCK1) is None
        device.answer(asked, "4.13", b"", block1(0, False, 512))
        first, second = await device.serve(("2.31", b"", ()), (last, b"told", ()))
        assert await writing == Response(last, b"told"), "what it refuses in the middle is its response, too"
        assert first.block(Option.BLOCK1) == BlockOption(0, True, 512)
        assert first.payload + second.payload == write.payload


async def test_an_observed_value_in_blocks_comes_whole_though_it_changes_meanwhile(endpoint, device):
    def part(tag: bytes, number: int, *more: tuple[int, bytes]) -> tuple[str, bytes, tuple[tuple[int, bytes], ...]]:
        return "2.05", tag * 16, ((Option.ETAG, tag), block2(number, number == 0, 16), *more)

    parts = part(b"a", 0, uint_option(Option.OBSERVE, 7)), part(b"b", 1), part(b"b", 0), part(b"b", 1)
    observed = await device.responds(endpoint.observe(device.peer, READ, b"mine"), *parts)
    assert observed == (Response("2.05", b"b" * 32), 7)
    assert [message.number(Option.OBSERVE) for message in device.heard] == [0, None, None, None]
    assert [message.number(Option.ACCEPT) for message in device.heard] == [0] * 4


async def test_cancelling_bears_the_token_and_takes_no_notification_for_its_response(registry, endpoint, device):
    cancelling, asked = await device.asked(endpoint.cancel(device.peer, READ, b"mine"))
    assert (asked.token, asked.number(Option.OBSERVE)) == (b"mine", 1)
    device.send(notification(20, b"mine", 8, b"22.0"))
    device.answer(asked, "2.05", b"22.5")
    assert await cancelling == Response("2.05", b"22.5")
    assert [told.response.payload for told in registry.notifications] == [b"22.0"]


@pytest.mark.parametrize("kind", [Type.CONFIRMABLE, Type.NON_CONFIRMABLE])
async def test_a_notification_of_a_token_that_nobody_knows_is_answered_with_a_reset(endpoint, device, kind):
    answer = await device.ask(notification(21, b"\x02\xd7", 8, b"22.0", kind))
    assert (answer.type, answer.message_id, endpoint.counts.resets_sent) == (Type.RESET, 21, 1)


async def test_a_device_that_starts_anew_with_the_same_message_id_says_something_new(registry, endpoint, device):
    await device.ask(registration(token=b"\x01"))
    assert (await device.ask(registration(token=b"\x02"))).token == b"\x02"
    assert len(registry.requests) == 2
    assert endpoint.counts.duplicates == 0


@tuned(ack_timeout_seconds=0.1, retransmissions=2)
async def test_silence_ends_and_the_next_request_goes_out_at_once(endpoint, device):
    with pytest.raises(NoResponse, match="no response to 3 transmissions"):
        await endpoint.request(device.peer, READ)
    # What is sent next may have to be repeated too, where the machine is slow.
    assert (endpoint.counts.retransmissions, endpoint.counts.unanswered) == (2, 1)
    sent = [await device.receive() for _ in range(3)]
    assert sent[0] == sent[1] == sent[2]
    assert (await device.responds(endpoint.request(device.peer, READ), ("2.05", b"1", ()))).is_success
    assert endpoint.counts.unanswered == 1


# It is not sent again before it is taken, however slow the machine is.
@tuned(ack_timeout_seconds=60, separate_response_seconds=0.5)
@pytest.mark.parametrize("more", [(), ((Option.CONTENT_FORMAT, b""),)])
async def test_an_answer_that_was_announced_and_never_comes_ends_too(endpoint, device, more):
    """Also where the announcement holds an option, as a client was seen to do: what it does would be done twice."""
    reading, asked = await device.asked(endpoint.request(device.peer, READ))
    device.send(Message(Type.ACKNOWLEDGEMENT, 0, asked.message_id, options=list(more)))
    with pytest.raises(NoResponse, match="the request was acknowledged, but got no response"):
        await reading
    assert endpoint.counts.retransmissions == 0


async def test_a_separate_answer_is_acknowledged_each_time_that_it_comes(registry, endpoint, device):
    reading, asked = await device.asked(endpoint.request(device.peer, READ))
    device.acknowledge(asked)
    separate = confirmable("2.05", 77, asked.token, payload=b"1")
    device.send(separate)
    assert (await reading).payload == b"1"
    device.send(separate)
    answers = [await device.receive(), await device.receive()]
    assert [(answer.type, answer.message_id) for answer in answers] == [(Type.ACKNOWLEDGEMENT, 77)] * 2
    assert registry.notifications == []


async def test_closing_ends_what_waits(endpoint, device):
    reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
    await device.receive()
    await endpoint.close()
    with pytest.raises(Unreachable, match="closed"):
        await reading


@tuned(ack_timeout_seconds=0.5, ack_random_factor=1, retransmissions=1)
async def test_what_is_not_acknowledged_is_sent_again_when_the_device_makes_contact(endpoint, device):
    """Once for a burst of messages, and also after the last one that the timer sends."""
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


@tuned(ack_timeout_seconds=0.05, ack_random_factor=1, retransmissions=1)
async def test_contact_of_a_device_that_never_acknowledges_prolongs_a_request_so_often_and_no_more(endpoint, device):
    reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
    while not reading.done():
        endpoint.retransmit(device.peer)
        await asyncio.sleep(0)
    with pytest.raises(NoResponse, match="no response to 3 transmissions"):
        await reading


async def test_acknowledged_request_is_not_sent_again_at_contact(endpoint, device):
    reading, asked = await device.asked(endpoint.request(device.peer, READ))
    device.acknowledge(asked)
    assert await device.hears_nothing()
    endpoint.retransmit(device.peer)
    assert await device.hears_nothing()
    device.send(confirmable("2.05", 77, asked.token, payload=b"1"))
    assert (await reading).payload == b"1"


@pytest.mark.parametrize(("sendings", "is_acknowledged"), [(1, False), (2, False), (1, True)])
async def test_a_reset_request_may_have_arrived_if_it_was_sent_before(endpoint, device, sendings, is_acknowledged):
    """A device that restarts because of an execute resets what comes after that."""
    executing = asyncio.ensure_future(endpoint.request(device.peer, Request("POST", "/3/0/4")))
    for _ in range(sendings):
        asked = await device.receive()
    if is_acknowledged:
        device.acknowledge(asked)
    device.send(Message(Type.RESET, 0, asked.message_id))
    with pytest.raises(Unreachable, match="reset") as caught:
        await executing
    assert caught.value.may_have_arrived is (sendings > 1 or is_acknowledged)
    assert endpoint.counts.resets_received == 1


@pytest.mark.parametrize("is_heard", [False, True])
async def test_request_to_a_port_that_is_closed_may_have_arrived_if_it_was_open_before(endpoint, device, is_heard):
    """The closed port is reported for a later datagram, here for the response to a ping."""
    peer = device.peer
    if not is_heard:
        device.close()
    executing = asyncio.ensure_future(endpoint.request(peer, Request("POST", "/3/0/4")))
    if is_heard:
        await device.receive()
        device.send(Message(Type.CONFIRMABLE, 0, 0x7777))
        device.close()
    with pytest.raises(Unreachable, match="refused") as caught:
        await executing
    assert caught.value.may_have_arrived is is_heard


async def test_closed_port_of_a_device_ends_no_request_to_another_one(endpoint, device):
    gone = Device(endpoint.coap_address)
    peer = gone.peer
    gone.close()
    reading, asked = await device.asked(endpoint.request(device.peer, READ))
    with pytest.raises(Unreachable):
        await endpoint.request(peer, READ)
    device.answer(asked, "2.05", b"1")
    assert (await reading).payload == b"1"


@pytest.mark.parametrize("argument", [b"", b"5"])
async def test_execute_with_a_long_response_is_not_sent_again_for_its_blocks(endpoint, device, argument):
    execute = endpoint.request(device.peer, Request("POST", "/3/0/4", payload=argument))
    assert (await device.responds(execute, ("2.04", bytes(16), (block2(0, True, 16),)))).code == "2.04"
    assert await device.hears_nothing()
