"""Messages between the endpoint and devices, on real sockets: exchanges, blocks, observations, retransmissions."""

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
async def test_registration_gets_piggybacked_response_and_device_gets_requests(handler, endpoint, device):
    response = await device.exchange(registration(message_id=300))
    assert (response.type, response.message_id, response.token) == (Type.ACKNOWLEDGEMENT, 300, b"\x01")
    assert (code_text(response.code), response.texts(Option.LOCATION_PATH)) == ("2.01", ("rd", "1"))
    request = Request("POST", "/rd", ("ep=boiler", "lt=300"), b"</3/0>", content_format=40)
    assert handler.requests == [(device.peer, request)]
    # Requests to the device are sent from the socket that it used.
    value = "2.05", b"21.5", ((Option.CONTENT_FORMAT, b""), uint_option(Option.MAX_AGE, 60))
    response = await device.run_with_responses(endpoint.request(device.peer, READ), value)
    assert response == Response("2.05", b"21.5", content_format=0, max_age_seconds=60)
    (request,) = device.received_requests
    assert (request.type, request.texts(Option.URI_PATH)) == (Type.CONFIRMABLE, ("3303", "0", "5700"))
    assert request.number(Option.ACCEPT) == 0
    assert len(request.token) > 2


async def test_blocks_after_observe_response_are_requested_with_its_token(handler, endpoint, device):
    """A client was seen to notify with the token of the last block. A response with another token is accepted too."""
    observing, first = await device.start_request(endpoint.observe(device.peer, READ, b"mine"))
    more = (uint_option(Option.OBSERVE, 1), block2(0, True, 16))
    device.respond(first, "2.05", bytes(16), *more)
    second = await device.receive()
    assert (second.token, second.number(Option.OBSERVE)) == (b"mine", None)
    device.send(notification(9, b"mine", 2, b"22.0"))
    second.token = b"other"
    device.respond(second, "2.05", b"1", block2(1, False, 16))
    assert (await observing).response.payload == bytes(16) + b"1"
    assert [each.response.payload for each in handler.notifications] == [b"22.0"]


async def test_remaining_blocks_of_notification_are_requested(handler, endpoint, device):
    """A client was seen to send no notification before. The response has the Observe option and is acknowledged."""
    peer = await registered(device, handler)
    beginning = notification(7, b"mine", 2, b"a" * 16)
    beginning.options.append(block2(0, True, 16))
    device.send(beginning)
    await until(lambda: len(handler.notifications) == 1)
    assert not handler.notifications[0].is_complete
    reading, request = await device.start_request(endpoint.read_remaining(peer, READ, b"mine"))
    assert (request.token, request.block(Option.BLOCK2)) == (b"mine", BlockOption(1, False, 16))
    newer = notification(8, b"mine", 3, b"newer")
    newer.options.append(block2(0, False, 16))
    device.send(newer)
    options = [uint_option(Option.OBSERVE, 2), block2(1, False, 16)]
    device.send(confirmable("2.05", request.message_id, b"mine", options=options, payload=b"b"))
    assert (await reading).payload == b"a" * 16 + b"b"
    assert (await device.receive()).type == Type.ACKNOWLEDGEMENT
    assert [(each.response.payload, each.is_complete) for each in handler.notifications[1:]] == [(b"newer", True)]
    again, request = await device.start_request(endpoint.read_remaining(peer, READ, b"mine"))
    assert request.block(Option.BLOCK2) is None
    device.respond(request, "2.05", b"whole")
    assert (await again).payload == b"whole"


async def test_upload_uses_block_size_requested_by_device(endpoint, device):
    data = bytes(range(256)) * 12
    write = Request("PUT", "/19/0/0", payload=data, content_format=42)
    writing = asyncio.ensure_future(endpoint.request(device.peer, write))
    received = b""
    first = request = await device.receive()
    assert request.number(Option.SIZE1) == len(data)
    while (block := request.block(Option.BLOCK1)) and block.more:
        assert block.offset == len(received)
        received += request.payload
        device.respond(request, "2.31", b"", block1(block.number, True, 256))
        request = await device.receive()
        assert (request.number(Option.CONTENT_FORMAT), len(request.payload)) == (42, 256)
        assert request.token == first.token
    device.respond(request, "2.04")
    assert await writing == Response("2.04")
    assert received + request.payload == data


async def test_observe_response_completes_request_and_notifications_go_to_handler(handler, endpoint, device):
    value = "2.05", b"21.5", (uint_option(Option.OBSERVE, 7),)
    observed = await device.run_with_responses(endpoint.observe(device.peer, READ, b"mine"), value)
    assert observed == (Response("2.05", b"21.5"), 7)
    (request,) = device.received_requests
    assert (request.token, request.number(Option.OBSERVE), request.number(Option.ACCEPT)) == (b"mine", 0, 0)
    response = await device.exchange(notification(20, b"mine", 8, b"22.0", Type.CONFIRMABLE))
    assert (response.type, response.message_id) == (Type.ACKNOWLEDGEMENT, 20)
    value = Response("2.05", b"22.0")
    assert handler.notifications == [
        ObserveNotification(device.peer, b"mine", 8, value, is_confirmable=True, is_complete=True)
    ]


async def test_failing_handler_is_logged_and_next_notification_arrives(handler, device, monkeypatch, caplog):
    asyncio.get_running_loop().set_exception_handler(None)
    noted = Mock(side_effect=RuntimeError("broken"))
    monkeypatch.setattr(handler, "notified", noted)
    for number in (1, 2):
        response = await device.exchange(notification(number, b"mine", number, b"1", Type.CONFIRMABLE))
        assert response.type == Type.ACKNOWLEDGEMENT
    assert noted.call_count == 2
    assert "broken" in caplog.text


async def test_separate_response_is_retransmitted_until_acknowledged(handler, endpoint, device):
    response_ready = handler.delay_response("2.04")
    response = await device.exchange(registration(message_id=5))
    assert (response.type, response.code, response.message_id) == (Type.ACKNOWLEDGEMENT, 0, 5)
    assert await device.exchange(registration(message_id=5)) == response
    response_ready.set()
    separate = await device.receive()
    assert (separate.type, code_text(separate.code), separate.token) == (Type.CONFIRMABLE, "2.04", b"\x01")
    assert await device.receive() == separate
    device.acknowledge(separate)
    await until(lambda: endpoint.counts.acknowledgements_received == 1)
    assert endpoint.counts.retransmissions >= 1
    assert len(handler.requests) == 1


async def test_non_confirmable_request_gets_non_confirmable_response(device):
    message = registration(message_id=5)
    message.type = Type.NON_CONFIRMABLE
    first = await device.exchange(message)
    assert (first.type, first.token, code_text(first.code)) == (Type.NON_CONFIRMABLE, b"\x01", "2.01")
    assert await device.exchange(message) == first


async def test_long_response_to_device_is_sent_in_blocks(handler, device):
    data, got = bytes(range(256)) * 10, b""
    handler.delay_response("2.05", data, content_format=42).set()
    for number in range(5):
        block = [block2(number, False, 512)] if number else []
        response = await device.exchange(confirmable("0.01", number + 1, options=[(Option.URI_PATH, b"x"), *block]))
        got = got[: response.block(Option.BLOCK2).offset] + response.payload
    assert got == data


async def test_upload_restarts_with_smaller_blocks_after_4_13(endpoint, device):
    write = Request("PUT", "/19/0/0", payload=bytes(range(256)) * 4, content_format=42)
    for last in ("2.04", "4.08"):
        writing, request = await device.start_request(endpoint.request(device.peer, write))
        assert request.block(Option.BLOCK1) is None
        device.respond(request, "4.13", b"", block1(0, False, 512))
        first, second = await device.respond_to_requests(("2.31", b"", ()), (last, b"reason", ()))
        assert await writing == Response(last, b"reason"), "an error response to a block ends the upload"
        assert first.block(Option.BLOCK1) == BlockOption(0, True, 512)
        assert first.payload + second.payload == write.payload


async def test_observed_value_in_blocks_is_consistent_if_it_changes_during_transfer(endpoint, device):
    def block(tag: bytes, number: int, *more: tuple[int, bytes]) -> tuple[str, bytes, tuple[tuple[int, bytes], ...]]:
        return "2.05", tag * 16, ((Option.ETAG, tag), block2(number, number == 0, 16), *more)

    blocks = block(b"a", 0, uint_option(Option.OBSERVE, 7)), block(b"b", 1), block(b"b", 0), block(b"b", 1)
    observed = await device.run_with_responses(endpoint.observe(device.peer, READ, b"mine"), *blocks)
    assert observed == (Response("2.05", b"b" * 32), 7)
    assert [message.number(Option.OBSERVE) for message in device.received_requests] == [0, None, None, None]
    assert [message.number(Option.ACCEPT) for message in device.received_requests] == [0] * 4


async def test_cancel_uses_token_and_does_not_mistake_notification_for_response(handler, endpoint, device):
    cancelling, request = await device.start_request(endpoint.cancel(device.peer, READ, b"mine"))
    assert (request.token, request.number(Option.OBSERVE)) == (b"mine", 1)
    device.send(notification(20, b"mine", 8, b"22.0"))
    device.respond(request, "2.05", b"22.5")
    assert await cancelling == Response("2.05", b"22.5")
    assert [each.response.payload for each in handler.notifications] == [b"22.0"]


@pytest.mark.parametrize("kind", [Type.CONFIRMABLE, Type.NON_CONFIRMABLE])
async def test_notification_with_unknown_token_is_reset(endpoint, device, kind):
    response = await device.exchange(notification(21, b"\x02\xd7", 8, b"22.0", kind))
    assert (response.type, response.message_id, endpoint.counts.resets_sent) == (Type.RESET, 21, 1)


async def test_same_message_id_with_other_token_is_not_a_duplicate(handler, endpoint, device):
    await device.exchange(registration(token=b"\x01"))
    assert (await device.exchange(registration(token=b"\x02"))).token == b"\x02"
    assert len(handler.requests) == 2
    assert endpoint.counts.duplicates == 0


@tuned(ack_timeout_seconds=0.1, retransmissions=2)
async def test_request_without_response_fails_and_next_request_is_sent_at_once(endpoint, device):
    with pytest.raises(NoResponse, match="no response to 3 transmissions"):
        await endpoint.request(device.peer, READ)
    # On a slow machine, the next request may need a retransmission too.
    assert (endpoint.counts.retransmissions, endpoint.counts.unanswered) == (2, 1)
    sent = [await device.receive() for _ in range(3)]
    assert sent[0] == sent[1] == sent[2]
    assert (await device.run_with_responses(endpoint.request(device.peer, READ), ("2.05", b"1", ()))).is_success
    assert endpoint.counts.unanswered == 1


# No retransmission before the device has read the request, even on a slow machine.
@tuned(ack_timeout_seconds=60, separate_response_seconds=0.5)
@pytest.mark.parametrize("more", [(), ((Option.CONTENT_FORMAT, b""),)])
async def test_acknowledged_request_without_response_times_out(endpoint, device, more):
    """Also if the acknowledgement has an option, as a client was seen to send. A retransmission could execute twice."""
    reading, request = await device.start_request(endpoint.request(device.peer, READ))
    device.send(Message(Type.ACKNOWLEDGEMENT, 0, request.message_id, options=list(more)))
    with pytest.raises(NoResponse, match="the request was acknowledged, but got no response"):
        await reading
    assert endpoint.counts.retransmissions == 0


async def test_duplicate_separate_response_is_acknowledged_again(handler, endpoint, device):
    reading, request = await device.start_request(endpoint.request(device.peer, READ))
    device.acknowledge(request)
    separate = confirmable("2.05", 77, request.token, payload=b"1")
    device.send(separate)
    assert (await reading).payload == b"1"
    device.send(separate)
    responses = [await device.receive(), await device.receive()]
    assert [(response.type, response.message_id) for response in responses] == [(Type.ACKNOWLEDGEMENT, 77)] * 2
    assert handler.notifications == []


async def test_close_fails_requests_in_flight(endpoint, device):
    reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
    await device.receive()
    await endpoint.close()
    with pytest.raises(Unreachable, match="closed"):
        await reading


@tuned(ack_timeout_seconds=0.5, ack_random_factor=1, retransmissions=1)
async def test_unacknowledged_request_is_retransmitted_at_contact(endpoint, device):
    """A burst of messages causes one retransmission, also after the last one of the timer."""
    reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
    sent = [await device.receive(), await device.receive()]
    for _ in range(50):
        endpoint.retransmit(device.peer)
    sent.append(await device.receive())
    assert sent[0] == sent[1] == sent[2]
    device.respond(sent[2], "2.05", b"1")
    assert (await reading).is_success
    assert endpoint.counts.retransmissions == 2
    endpoint.retransmit(device.peer)
    assert await device.receives_nothing()


@tuned(ack_timeout_seconds=0.05, ack_random_factor=1, retransmissions=1)
async def test_retransmissions_at_contact_are_limited(endpoint, device):
    reading = asyncio.ensure_future(endpoint.request(device.peer, READ))
    while not reading.done():
        endpoint.retransmit(device.peer)
        await asyncio.sleep(0)
    with pytest.raises(NoResponse, match="no response to 3 transmissions"):
        await reading


async def test_acknowledged_request_is_not_retransmitted_at_contact(endpoint, device):
    reading, request = await device.start_request(endpoint.request(device.peer, READ))
    device.acknowledge(request)
    assert await device.receives_nothing()
    endpoint.retransmit(device.peer)
    assert await device.receives_nothing()
    device.send(confirmable("2.05", 77, request.token, payload=b"1"))
    assert (await reading).payload == b"1"


@pytest.mark.parametrize(("sendings", "is_acknowledged"), [(1, False), (2, False), (1, True)])
async def test_reset_request_may_have_arrived_if_retransmitted_or_acknowledged(
    endpoint, device, sendings, is_acknowledged
):
    """A device that restarts because of an execute resets the retransmissions."""
    executing = asyncio.ensure_future(endpoint.request(device.peer, Request("POST", "/3/0/4")))
    for _ in range(sendings):
        request = await device.receive()
    if is_acknowledged:
        device.acknowledge(request)
    device.send(Message(Type.RESET, 0, request.message_id))
    with pytest.raises(Unreachable, match="reset") as caught:
        await executing
    assert caught.value.may_have_arrived is (sendings > 1 or is_acknowledged)
    assert endpoint.counts.resets_received == 1


@pytest.mark.parametrize("has_contact", [False, True])
async def test_request_to_closed_port_may_have_arrived_if_other_message_was_sent(endpoint, device, has_contact):
    """The closed port is reported for a later datagram, here for the response to a ping."""
    peer = device.peer
    if not has_contact:
        device.close()
    executing = asyncio.ensure_future(endpoint.request(peer, Request("POST", "/3/0/4")))
    if has_contact:
        await device.receive()
        device.send(Message(Type.CONFIRMABLE, 0, 0x7777))
        device.close()
    with pytest.raises(Unreachable, match="refused") as caught:
        await executing
    assert caught.value.may_have_arrived is has_contact


async def test_closed_port_of_one_device_does_not_fail_requests_to_another(endpoint, device):
    closed = Device(endpoint.coap_address)
    peer = closed.peer
    closed.close()
    reading, request = await device.start_request(endpoint.request(device.peer, READ))
    with pytest.raises(Unreachable):
        await endpoint.request(peer, READ)
    device.respond(request, "2.05", b"1")
    assert (await reading).payload == b"1"


@pytest.mark.parametrize("argument", [b"", b"5"])
async def test_execute_with_long_response_is_not_repeated_for_its_blocks(endpoint, device, argument):
    execute = endpoint.request(device.peer, Request("POST", "/3/0/4", payload=argument))
    assert (await device.run_with_responses(execute, ("2.04", bytes(16), (block2(0, True, 16),)))).code == "2.04"
    assert await device.receives_nothing()
