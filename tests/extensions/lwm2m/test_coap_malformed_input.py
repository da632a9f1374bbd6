"""Unauthenticated clients: malformed datagrams, endless transfers, too many requests."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

from coap_device import READ, Device, RecordingHandler, block1, block2, confirmable, endpoint_with_device, registration

from mirror_server.extensions.lwm2m.coap import CoapLimits, Tuning, sockets
from mirror_server.extensions.lwm2m.coap.blocks import Uploads
from mirror_server.extensions.lwm2m.coap.messages import (
    BlockOption,
    Message,
    NotCoap,
    Option,
    Type,
    code_text,
    decode,
    uint_option,
)
from mirror_server.extensions.lwm2m.transport_api import NoResponse, Peer, Request, RequestRejected, Response

pytestmark = pytest.mark.anyio

BYTES = st.binary(max_size=200)
OPTIONS = st.lists(
    st.tuples(st.sampled_from([*Option, 1, 2, 9, 35, 60, 258, 65_000]), st.binary(max_size=20)), max_size=6
)
NUMBERS = (st.sampled_from(Type), st.integers(0, 255), st.integers(0, 0xFFFF))
MESSAGES = st.builds(Message, *NUMBERS, st.binary(max_size=8), OPTIONS, BYTES).map(Message.encode)


@settings(
    max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.lists(st.one_of(BYTES, MESSAGES), min_size=1, max_size=60))
def test_endpoint_responds_after_arbitrary_datagrams(caplog, datagrams):
    async def scenario() -> None:
        async with endpoint_with_device() as (endpoint, device):
            for datagram in datagrams:
                device.send(datagram)
            device.send(registration(message_id=1, token=b"\xfe\xdc\xba"))
            while (response := await device.receive()).token != b"\xfe\xdc\xba":
                pass
            assert code_text(response.code) == "2.01"
            assert endpoint.counts.dropped <= len(datagrams)

    asyncio.run(asyncio.wait_for(scenario(), 120))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@given(MESSAGES)
def test_messages_round_trip(datagram: bytes) -> None:
    try:
        message = decode(datagram)
    except NotCoap:
        return
    if message.code:
        assert decode(message.encode()).options == message.options


@pytest.mark.parametrize(
    "datagram",
    [
        "49 02 0009" + "00" * 9,  # a token of nine bytes
        "40 02 0009 ff",  # a payload marker without a payload
        "40 02 0009 d0",  # an option that is cut off
        "40 02 0009 f1 00",  # the reserved length of an option
        "40 02 0009 b5 72 64",
        "40 00 0009 ff 00",  # a ping with content
        "40 00 0009",  # a ping
        "40 20 0009",  # an undefined code
    ],
)
async def test_malformed_confirmable_message_is_reset(endpoint, device, datagram):
    response = await device.exchange(bytes.fromhex(datagram))
    assert (response.type, response.code, response.message_id) == (Type.RESET, 0, 9)
    device.send(bytes([bytes.fromhex(datagram)[0] | 0x10]) + bytes.fromhex(datagram)[1:])
    assert await device.receives_nothing()
    assert endpoint.counts.resets_sent == 2


@pytest.mark.parametrize("datagram", ["", "40", "40 02 00", "80 02 0009", "00 02 0009", "c0 02 0009"])
async def test_datagram_that_is_not_coap_is_dropped(endpoint, device, datagram):
    device.send(bytes.fromhex(datagram))
    assert await device.receives_nothing()
    assert endpoint.counts.dropped == 1


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (registration(options=[(9, b"\x01")]), "4.02"),  # OSCORE
        (registration(options=[(35, b"coap://elsewhere/")]), "4.02"),  # Proxy-Uri
        (registration(options=[(1, b"")]), "4.02"),  # If-Match
        (registration(options=[(Option.ACCEPT, b"\0\0\0\x28")]), "4.02"),  # a critical option of a wrong length
        (registration(options=[(Option.URI_PATH, b"\xff")]), "4.00"),
        (registration(options=[(Option.URI_PATH, b"a/b")]), "4.00"),
        (registration(options=[(Option.URI_QUERY, b"\xff\xfe")]), "4.00"),
        (confirmable("0.05"), "4.05"),  # FETCH
        (registration(options=[block1(3, True, 64)]), "4.08"),
        (registration(options=[block1(0, True, 64)]), "4.00"),
        (registration(options=[block1(0, True, 16), uint_option(60, 300_000)]), "4.13"),
        (registration(options=[block2(7, False, 64)]), "4.02"),
    ],
)
async def test_invalid_request_gets_error_code(device, caplog, message, code):
    response = await device.exchange(message)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (code_text(response.code), response.token, response.payload != b"") == (code, message.token, True)


async def test_unknown_elective_options_are_ignored(handler, device):
    response = await device.exchange(registration(options=[(2, b"x"), (258, b""), (65_000, b"y" * 300)]))
    assert code_text(response.code) == "2.01"
    assert handler.requests[0][1].query == ("ep=boiler", "lt=300")


async def test_response_with_unknown_critical_option_is_rejected(endpoint, device):
    with pytest.raises(NoResponse, match="option 9"):
        await device.run_with_responses(endpoint.request(device.peer, READ), ("2.05", b"1", ((9, b""),)))


async def test_registration_in_blocks_is_reassembled(handler, device):
    links = ",".join(f"</3303/{n}>" for n in range(300)).encode()
    for at in range(0, len(links), 256):
        block = BlockOption(at // 256, at + 256 < len(links), 256)
        # Twice with different message ids, as after a lost acknowledgement.
        for number in (2 * at, 2 * at + 1) if block.more else (2 * at,):
            response = await device.exchange(registration(number, links[at : at + 256], options=[block1(*block)]))
            assert code_text(response.code) == ("2.31" if block.more else "2.01")
            assert response.block(Option.BLOCK1) == block
    ((_, request),) = handler.requests
    assert request == Request("POST", "/rd", ("ep=boiler", "lt=300"), links, content_format=40)


@pytest.mark.parametrize("options", [{"limits": CoapLimits(payload_bytes=2_000)}])
async def test_endless_upload_is_rejected_at_the_limit(device):
    responses = []
    for number in range(4):
        response = await device.exchange(registration(number, bytes(1024), options=[block1(number, True, 1024)]))
        responses.append(code_text(response.code))
    assert responses == ["2.31", "4.13", "4.08", "4.08"]


def upload(peer: int = 1) -> tuple[Peer, Message]:
    return Peer(f"192.0.2.{peer}:5683"), registration(payload=bytes(16))


def test_incomplete_uploads_are_bounded_in_number_bytes_and_time() -> None:
    now = 0.0
    uploads = Uploads(CoapLimits(uploads=10, uploads_bytes=100, upload_idle_seconds=60), lambda: now)
    for number in range(50):
        assert uploads.add(*upload(number), BlockOption(0, True, 16)) is None
    assert len(uploads) == 6
    assert uploads.buffered_bytes == 96
    now = 59
    uploads.add(*upload(49), BlockOption(1, True, 16))
    now = 61
    uploads.add(*upload(49), BlockOption(2, True, 16))
    assert (len(uploads), uploads.buffered_bytes) == (1, 48)
    assert uploads.add(*upload(49), BlockOption(3, False, 16)) == bytes(64)
    assert (len(uploads), uploads.buffered_bytes) == (0, 0)


def test_active_upload_is_not_evicted_by_new_ones() -> None:
    uploads = Uploads(CoapLimits(uploads=2), lambda: 0.0)
    for peer, number in ((1, 0), (2, 0), (1, 1), (3, 0)):
        uploads.add(*upload(peer), BlockOption(number, True, 16))
    assert uploads.add(*upload(1), BlockOption(2, False, 16)) == bytes(48)
    with pytest.raises(RequestRejected):
        uploads.add(*upload(2), BlockOption(1, False, 16))


@pytest.mark.parametrize("options", [{"limits": CoapLimits(payload_bytes=3_000)}])
async def test_endless_response_fails_at_the_limit(endpoint, device):
    blocks = (("2.05", bytes(1024), (block2(number, True, 1024),)) for number in range(3))
    with pytest.raises(NoResponse, match="more than 3000 bytes"):
        await device.run_with_responses(endpoint.request(device.peer, READ), *blocks)


async def test_response_with_invalid_or_slow_blocks_fails():
    invalid = (
        (b"", "not have the length that it declares", 60),
        (bytes(100), "not have the length that it declares", 60),
    )
    for payload, text, seconds in (*invalid, (bytes(16), "within 0.3 s", 0.3)):
        async with endpoint_with_device(tuning=Tuning(response_seconds=seconds)) as (endpoint, device):
            with pytest.raises(NoResponse, match=text):
                await device.run_with_responses(
                    endpoint.request(device.peer, READ), ("2.05", payload, (block2(0, True, 16),))
                )
            assert endpoint.counts.unanswered == 0


async def test_value_changed_between_blocks_is_read_again_once(endpoint, device):
    def block_response(number: int, *options: tuple[int, bytes]) -> tuple[str, bytes, tuple[tuple[int, bytes], ...]]:
        return "2.05", bytes(16), (*options, block2(number, number == 0, 16))

    text, tlv = uint_option(Option.CONTENT_FORMAT, 0), uint_option(Option.CONTENT_FORMAT, 11_542)
    blocks = block_response(0, text), block_response(1, tlv), block_response(0, text), block_response(1, text)
    read = await device.run_with_responses(endpoint.request(device.peer, READ), *blocks)
    assert read == Response("2.05", bytes(32), content_format=0)
    changing = (block_response(number % 2, (Option.ETAG, b"%d" % number)) for number in range(4))
    with pytest.raises(NoResponse, match="changes faster"):
        await device.run_with_responses(endpoint.request(device.peer, READ), *changing)


@pytest.mark.parametrize("options", [{"limits": CoapLimits(requests_in_progress=3, requests_in_progress_of_peer=2)}])
async def test_too_many_concurrent_requests_get_5_03(handler, endpoint, device):
    response_ready = handler.delay_response("2.01")
    other = Device(endpoint.coap_address)
    for number in range(3):
        device.send(registration(number, token=bytes([number])))
    response = await device.receive()
    assert (response.token, code_text(response.code), response.number(Option.MAX_AGE)) == (b"\x02", "5.03", 5)
    other.send(registration(1))
    assert code_text((await other.exchange(registration(2))).code) == "5.03"
    response_ready.set()
    codes = [code_text((await each.receive()).code) for each in (device, device, other)]
    assert codes[0] in ("0.00", "2.01")
    device.send(registration(9, token=b"later"))
    while (response := await device.receive()).token != b"later":
        pass
    assert code_text(response.code) == "2.01"
    other.close()


@pytest.mark.parametrize("options", [{"tuning": Tuning(empty_ack_seconds=5, response_seconds=0.3)}])
async def test_failing_or_slow_handler_responds_without_details(handler, device, caplog):
    async def fail(request: Request) -> Response:
        if request.payload == b"wait":
            await asyncio.Event().wait()
        raise ValueError("a secret")

    handler.respond = fail
    response = await device.exchange(registration(1))
    assert (code_text(response.code), b"secret" in response.payload) == ("5.00", False)
    assert code_text((await device.exchange(registration(2, b"wait"))).code) == "5.03"
    assert "a secret" in caplog.text


@pytest.mark.parametrize("kernel_has_ipv6", [True, False])
async def test_multicast_request_gets_no_response(kernel_has_ipv6, monkeypatch):
    monkeypatch.setattr(sockets, "has_ipv6", lambda: kernel_has_ipv6)
    handler = RecordingHandler()
    async with endpoint_with_device(handler, host="0.0.0.0") as (endpoint, device):
        port = device.server[1]
        device.server = ("127.0.0.1", port)
        member = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        group = struct.pack("4s4s", socket.inet_aton("224.0.1.187"), socket.inet_aton("127.0.0.1"))
        listening = endpoint._layers[False].transport
        joining = listening._interface.transport.get_extra_info("socket") if kernel_has_ipv6 else member
        joining.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
        member.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        member.sendto(registration().encode(), ("224.0.1.187", port))
        member.close()
        await device.exchange(registration(message_id=2))
        assert len(handler.requests) == 1
        assert endpoint.counts.dropped == (1 if kernel_has_ipv6 else 0)


def test_out_of_order_block_ends_upload_and_first_block_restarts_it():
    uploads = Uploads(CoapLimits(), lambda: 0.0)
    for number in (0, 1, 0):
        uploads.add(*upload(), BlockOption(number, True, 16))
    assert uploads.buffered_bytes == 16
    assert uploads.add(*upload(), BlockOption(1, False, 16)) == bytes(32)
    for number in (3, 7, (1 << 20) - 1):
        for follows in (0, 1):
            uploads.add(*upload(), BlockOption(follows, True, 16))
        with pytest.raises(RequestRejected) as rejected:
            uploads.add(*upload(), BlockOption(number, True, 16))
        assert (rejected.value.code, len(uploads), uploads.buffered_bytes) == ("4.08", 0, 0)


async def test_remembered_requests_are_bounded_in_number_and_time():
    handler = RecordingHandler()
    async with endpoint_with_device(handler, limits=CoapLimits(remembered_messages=3)) as (endpoint, device):
        for number in (1, 2, 3, 4, 1, 4):
            await device.exchange(registration(number))
        assert (len(handler.requests), endpoint.counts.duplicates) == (5, 1)
    async with endpoint_with_device(handler, tuning=Tuning(exchange_lifetime_seconds=0.02)) as (_, device):
        while len(handler.requests) < 7:
            await device.exchange(registration(1))
