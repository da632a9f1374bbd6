"""Devices behind DTLS: who comes in, as whom, and what becomes of sessions."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

from coap_device import QUICK, READ, Registry, notification, registration, until
from dtls_device import DtlsDevice
from DTLSSocket import dtls
from udp_relay import UdpRelay, drop

from mirror_server.extensions.lwm2m.coap import CannotListen, CoapEndpoint, CoapLimits, listen, sessions
from mirror_server.extensions.lwm2m.coap.messages import Message, Type, code_number
from mirror_server.extensions.lwm2m.coap.sessions import DtlsTransport
from mirror_server.extensions.lwm2m.coap.sockets import Receiver
from mirror_server.extensions.lwm2m.transport_api import Peer, Request, Unreachable

pytestmark = pytest.mark.anyio

KEY = bytes(range(16))
OTHER_KEY = bytes(range(16, 32))
KEYS = {"boiler": KEY, "pump": OTHER_KEY}


@asynccontextmanager
async def serving(
    registry: Registry | None = None,
    host: str = "127.0.0.1",
    limits: CoapLimits | None = None,
    keys: Callable[[str], bytes | None] = KEYS.get,
) -> AsyncIterator[tuple[CoapEndpoint, Callable[..., DtlsDevice]]]:
    """An endpoint with DTLS, and what makes devices for it."""
    endpoint = await listen(
        registry or Registry(), coaps=(host, 0), keys=keys, tuning=QUICK, limits=limits or CoapLimits()
    )
    assert endpoint.coaps_address is not None
    port = endpoint.coaps_address[1]
    made: list[DtlsDevice] = []

    def device(identity: str = "boiler", key: bytes = KEY) -> DtlsDevice:
        made.append(DtlsDevice(("127.0.0.1", port), identity, key))
        return made[-1]

    try:
        yield endpoint, device
    finally:
        for each in made:
            each.close()
        await endpoint.close()


async def connected(device: DtlsDevice) -> DtlsDevice:
    assert await device.connect()
    return device


async def register(device: DtlsDevice, message_id: int = 1) -> None:
    device.send(registration(message_id=message_id))
    assert (await device.receive()).code == code_number("2.01")


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::"])
async def test_a_device_registers_and_is_asked_with_its_identity(host):
    registry = Registry()
    async with serving(registry, host) as (endpoint, new_device):
        device = await connected(new_device())
        await register(device)
        peer = Peer(device.address, is_secure=True, identity="boiler")
        assert [who for who, _ in registry.requests] == [peer]
        reading = asyncio.ensure_future(endpoint.request(peer, READ))
        asked = await device.receive()
        device.send(Message(Type.ACKNOWLEDGEMENT, code_number("2.05"), asked.message_id, asked.token, payload=b"1"))
        assert (await reading).payload == b"1"
        assert (endpoint.counts.handshakes, endpoint.counts.sessions) == (1, 1)


async def test_an_unknown_identity_stays_out_and_nothing_is_told_of_keys(caplog):
    caplog.set_level(logging.DEBUG)
    registry = Registry()
    async with serving(registry) as (endpoint, new_device):
        assert not await new_device("stranger").connect()
        assert endpoint.counts.handshake_failures == 1
        assert (registry.requests, endpoint.counts.sessions) == ([], 0)
        assert "identity 'stranger' cannot connect: this identity has no key" in caplog.text
        assert not await new_device("strange\nline").connect()
        assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
        assert KEY.hex() not in caplog.text
        assert KEY.hex() not in repr(vars(endpoint))


@pytest.mark.parametrize(
    ("identity", "key"),
    [(b"boiler", OTHER_KEY), (b"boiler", bytes(17)), (b"boiler", bytes(100_000)), (b"boiler", b""), (b"\xff\xfe", KEY)],
    ids=["another key", "a long key", "a very long key", "no key", "an identity that is not a text"],
)
async def test_who_cannot_be_let_in_is_counted_and_another_one_comes_in(identity, key):
    def keys(name: str) -> bytes:
        return OTHER_KEY if name == "pump" else key

    async with serving(limits=CoapLimits(handshake_seconds=0.5), keys=keys) as (endpoint, new_device):
        device = new_device()
        device._identity, device._keys = identity, {identity: KEY}
        device.restart()
        assert not await device.connect()
        await until(lambda: endpoint.counts.handshake_failures == 1)
        assert await new_device("pump", OTHER_KEY).connect()
        assert endpoint.counts.sessions == 1


async def test_keys_that_cannot_be_looked_up_keep_a_device_out_until_they_can():
    failures = [OSError("the disk is full")]

    def keys(identity: str) -> bytes | None:
        if failures:
            raise failures.pop()
        return KEYS.get(identity)

    async with serving(keys=keys) as (endpoint, new_device):
        assert not await new_device().connect()
        assert await new_device().connect()
        assert endpoint.counts.handshakes == 1


async def test_who_connects_anew_from_the_same_port_gets_in_and_is_who_its_key_says():
    registry = Registry()
    async with serving(registry) as (endpoint, new_device):
        device = await connected(new_device())
        await register(device)
        boiler = registry.requests[0][0]
        waiting = asyncio.ensure_future(endpoint.request(boiler, READ))
        await device.receive()
        device.restart()
        assert await device.connect()
        with pytest.raises(Unreachable, match="session ended"):
            await waiting
        assert registry.ended == [boiler]
        await register(device)
        device._identity, device._keys = b"pump", {b"pump": OTHER_KEY}
        device.restart()
        assert await device.connect()
        await register(device)
        pump = Peer(device.address, is_secure=True, identity="pump")
        assert [who for who, _ in registry.requests] == [boiler, boiler, pump]
        assert (endpoint.counts.duplicates, endpoint.counts.sessions) == (0, 1)
        with pytest.raises(Unreachable):
            await endpoint.request(boiler, READ)


async def test_an_identity_may_come_from_a_new_address_and_its_oldest_sessions_end():
    registry = Registry()
    async with serving(registry, limits=CoapLimits(sessions_of_identity=2)) as (endpoint, new_device):
        devices = [await connected(new_device()) for _ in range(3)]
        await devices[0].closed()
        assert registry.ended == [Peer(devices[0].address, is_secure=True, identity="boiler")]
        assert endpoint.counts.sessions == 2


async def test_the_session_that_was_silent_for_the_longest_goes_for_a_new_one():
    async with serving(limits=CoapLimits(sessions=2), keys=lambda _identity: KEY) as (endpoint, new_device):
        first, second = [await connected(new_device(name)) for name in ("1", "2")]
        await register(first)
        await connected(new_device("3"))
        await second.closed()
        await register(first, 2)
        assert endpoint.counts.sessions == 2


async def test_many_goodbyes_do_no_harm_to_who_stays():
    """The library's table of several peers was seen to break by them, and the process with it."""
    async with serving(keys=lambda _identity: KEY) as (endpoint, new_device):
        staying = [await connected(new_device(f"staying-{number}")) for number in range(10)]
        for number in range(30):
            passing = await connected(new_device(f"passing-{number}"))
            passing.say_goodbye()
            await until(lambda: endpoint.counts.sessions == 10)
        for device in staying:
            await register(device)
        assert endpoint.counts.handshakes == 40


async def test_a_datagram_that_no_record_holds_is_told_and_ends_nothing():
    registry = Registry()
    async with serving(registry) as (endpoint, new_device):
        device = await connected(new_device())
        await register(device)
        peer = registry.requests[0][0]
        with pytest.raises(Unreachable, match="do not fit into a DTLS record"):
            await endpoint.request(peer, Request("GET", "/3/0", query=("x" * 3_000,)))
        await register(device, 2)


def mangled(chance: random.Random, others: list[bytes], datagram: bytes) -> list[bytes]:
    """What becomes of a datagram on its way: mostly nothing, or it is lost, cut, changed or comes after another."""
    fate = chance.random()
    if fate < 0.75:
        return [datagram]
    if fate < 0.8:
        return []
    if fate < 0.85:
        return [datagram[: chance.randrange(len(datagram))]]
    if fate < 0.9 and others:
        return [bytes(bytearray(chance.choice(others))), datagram]
    changed = bytearray(datagram)
    changed[chance.randrange(len(changed))] = chance.randrange(256)
    return [bytes(changed)]


class Swallowing:
    """A socket that keeps what it should send."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, _peer: Peer, datagram: bytes) -> None:
        self.sent.append(datagram)


class HandDevice:
    """A client of DTLS whose datagrams the test carries."""

    def __init__(self, peer: Peer, server: Receiver, answers: list[bytes]) -> None:
        self._peer, self._server, self._answers = peer, server, answers
        self._written: list[bytes] = []
        self._context = dtls.DTLS(
            read=lambda _sender, data: len(data),
            write=self._write,
            event=lambda _level, _code: None,
            pskId=b"boiler",
            pskStore={b"boiler": KEY},
        )
        self._connection = self._context.connect("::1", 1)

    def _write(self, _recipient: object, data: bytes) -> int:
        self._written.append(data)
        return len(data)

    def step(self, fate: Callable[[bytes], list[bytes]]) -> list[bytes]:
        """Carry what is written to the server, and its answers back; gives what was carried."""
        written = self._written[:]
        self._written.clear()
        for datagram in written:
            for outcome in fate(datagram):
                self._server.received(self._peer, outcome)
        answers = self._answers[:]
        self._answers.clear()
        for answer in answers:
            self._context.handleMessageAddr("::1", 1, answer)
        return written

    def vanish(self, *, says_goodbye: bool) -> None:
        """Go, with a word or without."""
        self._connection = None
        if says_goodbye:
            self.step(lambda datagram: [datagram])


@asynccontextmanager
async def carried_by_hand(
    limits: CoapLimits | None = None,
) -> AsyncIterator[tuple[CoapEndpoint, DtlsTransport, HandDevice]]:
    """An endpoint and a device of it, whose datagrams the test carries."""
    async with serving(limits=limits) as (endpoint, _):
        transport = endpoint._layers[True].transport
        assert isinstance(transport, DtlsTransport)
        real, swallowing = transport.socket, Swallowing()
        transport.socket = swallowing  # type: ignore[assignment] - it only sends
        try:
            yield endpoint, transport, HandDevice(Peer("127.0.1.1:5684"), transport, swallowing.sent)
        finally:
            transport.socket = real


def as_it_is(datagram: bytes) -> list[bytes]:
    return [datagram]


async def test_handshakes_that_are_lost_in_part_mangled_and_mixed_break_nothing():
    """Each step of a handshake, as bytes that nobody should send."""
    chance = random.Random(20261123)
    async with carried_by_hand(CoapLimits(handshakes=8, sessions=8)) as (endpoint, transport, survivor):
        seen: list[bytes] = []
        for number in range(300):
            device = HandDevice(Peer(f"127.0.2.{number % 12}:5684"), transport, transport.socket.sent)
            for _ in range(4):
                seen.extend(device.step(functools.partial(mangled, chance, seen)))
                del seen[:-50]
            device.vanish(says_goodbye=chance.random() < 0.5)
        handshakes = endpoint.counts.handshakes
        assert handshakes > 20
        assert endpoint.counts.handshake_failures > 5
        for _ in range(4):
            survivor.step(as_it_is)
        assert endpoint.counts.handshakes == handshakes + 1


async def test_hellos_of_forged_addresses_leave_nothing_behind_and_keep_no_device_out():
    async with carried_by_hand() as (endpoint, transport, device):
        (hello,) = device.step(as_it_is)
        for number in range(3_000):
            transport.received(Peer(f"127.1.{number % 250}.{number // 250}:5684"), hello)
        assert len(transport.socket.sent) == 3_000
        assert not transport._opening
        assert len(transport._cookie_contexts) <= 1024
        transport.socket.sent.clear()
        for _ in range(3):
            device.step(as_it_is)
        assert endpoint.counts.handshakes == 1


async def test_a_device_whose_greeter_another_one_took_gets_in_a_round_trip_later(monkeypatch):
    monkeypatch.setattr(sessions, "_COOKIE_CONTEXTS", 1)
    async with carried_by_hand() as (endpoint, transport, device):
        device.step(as_it_is)
        other = HandDevice(Peer("127.0.1.2:5684"), transport, transport.socket.sent)
        for _ in range(3):
            other.step(as_it_is)
        assert endpoint.counts.handshakes == 1
        for _ in range(4):
            device.step(as_it_is)
        assert endpoint.counts.handshakes == 2


async def test_a_device_that_repeats_its_hello_goes_on_with_the_same_handshake():
    """As one does whose first retransmission comes sooner than the answer, over a slow network."""

    def twice(datagram: bytes) -> list[bytes]:
        again = bytearray(datagram)
        again[10] += 8  # the number of the record
        return [datagram, bytes(again)]

    async with carried_by_hand() as (endpoint, transport, device):
        device.step(as_it_is)
        (hello,) = device.step(twice)
        device.step(as_it_is)
        assert endpoint.counts.handshakes == 1
        transport.received(Peer("127.0.1.1:5684"), hello)  # so late that the session is there
        assert (endpoint.counts.sessions, transport._opening) == (1, {})


PROTECTED = b"\x17\xfe\xfd\x00\x01\x00\x00\x00\x00\x00\x63\x00\x20" + bytes(32)


async def test_a_record_of_an_unknown_session_is_answered_by_an_alert_that_is_shorter_and_these_are_bounded():
    limits = CoapLimits(messages_per_second_of_peer=1, burst_of_peer=10)
    async with carried_by_hand(limits) as (endpoint, transport, _):
        stranger = Peer("127.0.1.9:5684")
        transport.received(stranger, PROTECTED)
        (alert,) = transport.socket.sent
        assert (alert[:5], alert[11:]) == (b"\x15\xfe\xfd\x00\x00", b"\x00\x02\x02\x14")
        assert len(alert) < len(PROTECTED)
        for unanswered in (alert, b"\x15" + PROTECTED[1:], PROTECTED[:20], PROTECTED[:3] + b"\0\0" + PROTECTED[5:]):
            transport.received(stranger, unanswered)
        assert len(transport.socket.sent) == 1
        assert endpoint.counts.dropped == 5
        for number in range(1_000):
            transport.received(Peer(f"127.1.{number % 250}.{number // 250}:5684"), PROTECTED)
        assert 10 <= len(transport.socket.sent) < 20


async def test_records_of_a_flooding_device_are_not_even_decrypted(monkeypatch):
    read: list[bytes] = []
    feed = sessions._Session.feed
    monkeypatch.setattr(sessions._Session, "feed", lambda self, data: read.append(data) or feed(self, data))
    registry = Registry()
    registry.known_tokens = {b"flood"}
    limits = CoapLimits(messages_per_second_of_peer=1, burst_of_peer=10)
    async with serving(registry, limits=limits) as (endpoint, new_device):
        device, other = await connected(new_device()), await connected(new_device("pump", OTHER_KEY))
        read.clear()
        for number in range(200):
            device.send(notification(number, b"flood", number, b"21.5"))
        await until(lambda: len(registry.notifications) + endpoint.counts.dropped == 200)
        assert len(registry.notifications) < 30
        assert len(read) < 60
        assert (await device.receive()).type == Type.RESET
        assert [told.peer.identity for told in registry.floods][:1] == ["boiler"]
        await register(other)


async def test_bytes_beside_a_session_do_not_end_it():
    registry = Registry()
    async with serving(registry) as (endpoint, new_device):
        device = await connected(new_device())
        for junk in (
            b"",
            b"\x16",
            bytes(50),
            registration().encode(),
            b"\x15\xfe\xfd\x00\x00\x00\x00\x00\x00\x00\x09\x00\x02\x02\x28",  # a fatal alert, in plain
            b"\x16\xfe\xfd\x00\x00\x00\x00\x00\x00\x00\x09\x00\x0c\x10" + bytes(11),  # a handshake message, in plain
            PROTECTED,  # data with a wrong sum
            b"\x14\xfe\xfd\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x01\x01",
        ):
            device.send_raw(junk)
        await register(device)
        assert (registry.ended, endpoint.counts.sessions, len(registry.requests)) == ([], 1, 1)


async def test_strangers_that_begin_and_go_away_take_no_memory_beyond_the_limit():
    async with serving(limits=CoapLimits(handshakes=5)) as (endpoint, new_device):
        strangers = [new_device("stranger") for _ in range(20)]
        for stranger in strangers:
            stranger._connection = stranger._context.connect("::1", 1)
            await stranger._read()  # proves its address, and says no more
        await until(lambda: endpoint.counts.handshake_failures == 15)
        assert await new_device().connect()


def of_version_0xfe00(_direction: str, _number: int, datagram: bytes) -> list[bytes]:
    """As mbedTLS 2.28 was seen to begin that may speak everything from SSL 3 on; nothing is agreed on yet."""
    is_client_hello = datagram[0] == 22 and datagram[13] == 1
    return [datagram[:1] + b"\xfe\x00" + datagram[3:] if is_client_hello else datagram]


@pytest.mark.parametrize("fate", [drop("down", 2), drop("down", 4), drop("down", 5), of_version_0xfe00])
async def test_a_handshake_gets_through_losses_and_with_another_version_at_its_begin(fate):
    async with serving() as (endpoint, new_device), UdpRelay(endpoint.coaps_address, fate) as relay:
        device = new_device()
        device.server = relay.address
        assert await device.connect()
        assert endpoint.counts.sessions == 1


async def test_without_dtlssocket_the_cure_is_told(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "DTLSSocket", None)
    with pytest.raises(CannotListen, match="lwm2m-dtls"):
        await listen(Registry(), coap=("127.0.0.1", 0), coaps=("127.0.0.1", 0))


async def test_openssl_comes_in_with_the_key_and_not_without():
    registry = Registry()
    async with serving(registry, "0.0.0.0") as (endpoint, _):
        assert endpoint.coaps_address is not None
        port = endpoint.coaps_address[1]
        answer = await openssl(port, "boiler", KEY, registration(message_id=0x1234).encode())
        assert answer.startswith(b"\x61\x41\x12\x34\x01")
        assert await openssl(port, "stranger", KEY, registration().encode()) == b""
        assert [(who.identity, request.path) for who, request in registry.requests] == [("boiler", "/rd")]


async def openssl(port: int, identity: str, key: bytes, message: bytes) -> bytes:
    """Send a message with OpenSSL's own client; gives what it was answered."""
    client = await asyncio.create_subprocess_exec(
        *["openssl", "s_client", "-dtls1_2", "-quiet", "-connect", f"127.0.0.1:{port}", "-psk_identity", identity],
        *["-psk", key.hex(), "-cipher", "PSK-AES128-CCM8"],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(message)
    try:
        return await asyncio.wait_for(client.stdout.read(2000), 60)
    finally:
        if client.returncode is None:
            client.kill()
        client.stdin.close()
        await client.wait()
