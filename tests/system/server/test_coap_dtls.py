"""Devices with DTLS: handshakes, identities and sessions."""

from __future__ import annotations

import asyncio
import functools
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("aiocoap", reason="speaks CoAP: needs the extra lwm2m")

from coap_device import QUICK, READ, RecordingHandler, notification, registration, until
from dtls_device import DtlsDevice
from DTLSSocket import dtls
from udp_relay import UdpRelay, drop

from mirror_server.extensions.lwm2m.coap import CannotListen, CoapEndpoint, CoapLimits, dtls_transport, listen
from mirror_server.extensions.lwm2m.coap.dtls_transport import DtlsTransport
from mirror_server.extensions.lwm2m.coap.messages import Message, Type, code_number
from mirror_server.extensions.lwm2m.coap.sockets import Receiver
from mirror_server.extensions.lwm2m.transport_api import Peer, Request, Unreachable

pytestmark = pytest.mark.anyio

KEY = bytes(range(16))
OTHER_KEY = bytes(range(16, 32))
KEYS = {"boiler": KEY, "pump": OTHER_KEY}


@asynccontextmanager
async def dtls_endpoint(
    handler: RecordingHandler | None = None,
    host: str = "127.0.0.1",
    limits: CoapLimits | None = None,
    keys: Callable[[str], bytes | None] = KEYS.get,
) -> AsyncIterator[tuple[CoapEndpoint, Callable[..., DtlsDevice]]]:
    """Yield an endpoint with DTLS, and a factory of devices for it."""
    endpoint = await listen(
        handler or RecordingHandler(), coaps=(host, 0), keys=keys, tuning=QUICK, limits=limits or CoapLimits()
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
async def test_device_registers_and_gets_requests_with_its_identity(host):
    handler = RecordingHandler()
    async with dtls_endpoint(handler, host) as (endpoint, new_device):
        device = await connected(new_device())
        await register(device)
        peer = Peer(device.address, is_secure=True, identity="boiler")
        assert [sender for sender, _ in handler.requests] == [peer]
        reading = asyncio.ensure_future(endpoint.request(peer, READ))
        request = await device.receive()
        device.send(Message(Type.ACKNOWLEDGEMENT, code_number("2.05"), request.message_id, request.token, payload=b"1"))
        assert (await reading).payload == b"1"
        assert (endpoint.counts.handshakes, endpoint.counts.sessions) == (1, 1)


async def test_unknown_identity_is_rejected_and_keys_are_not_logged(caplog):
    caplog.set_level(logging.DEBUG)
    handler = RecordingHandler()
    async with dtls_endpoint(handler) as (endpoint, new_device):
        assert not await new_device("stranger").connect()
        assert endpoint.counts.handshake_failures == 1
        assert (handler.requests, endpoint.counts.sessions) == ([], 0)
        assert "identity 'stranger' cannot connect: this identity has no key" in caplog.text
        assert not await new_device("strange\nline").connect()
        assert len([record for record in caplog.records if record.levelno >= logging.WARNING]) == 1
        assert KEY.hex() not in caplog.text
        assert KEY.hex() not in repr(vars(endpoint))


@pytest.mark.parametrize(
    ("identity", "key"),
    [(b"boiler", OTHER_KEY), (b"boiler", bytes(17)), (b"boiler", bytes(100_000)), (b"boiler", b""), (b"\xff\xfe", KEY)],
    ids=["another key", "a long key", "a very long key", "no key", "an identity that is not text"],
)
async def test_failed_handshake_is_counted_and_other_device_connects(identity, key):
    def keys(name: str) -> bytes:
        return OTHER_KEY if name == "pump" else key

    async with dtls_endpoint(limits=CoapLimits(handshake_seconds=0.5), keys=keys) as (endpoint, new_device):
        device = new_device()
        device._identity, device._keys = identity, {identity: KEY}
        device.restart()
        assert not await device.connect()
        await until(lambda: endpoint.counts.handshake_failures == 1)
        assert await new_device("pump", OTHER_KEY).connect()
        assert endpoint.counts.sessions == 1


async def test_failing_key_lookup_rejects_device_until_it_works():
    failures = [OSError("the disk is full")]

    def keys(identity: str) -> bytes | None:
        if failures:
            raise failures.pop()
        return KEYS.get(identity)

    async with dtls_endpoint(keys=keys) as (endpoint, new_device):
        assert not await new_device().connect()
        assert await new_device().connect()
        assert endpoint.counts.handshakes == 1


async def test_reconnect_from_same_port_gets_identity_of_its_key():
    handler = RecordingHandler()
    async with dtls_endpoint(handler) as (endpoint, new_device):
        device = await connected(new_device())
        await register(device)
        boiler = handler.requests[0][0]
        waiting = asyncio.ensure_future(endpoint.request(boiler, READ))
        await device.receive()
        device.restart()
        assert await device.connect()
        with pytest.raises(Unreachable, match="session ended"):
            await waiting
        assert handler.ended_sessions == [boiler]
        await register(device)
        device._identity, device._keys = b"pump", {b"pump": OTHER_KEY}
        device.restart()
        assert await device.connect()
        await register(device)
        pump = Peer(device.address, is_secure=True, identity="pump")
        assert [sender for sender, _ in handler.requests] == [boiler, boiler, pump]
        assert (endpoint.counts.duplicates, endpoint.counts.sessions) == (0, 1)
        with pytest.raises(Unreachable):
            await endpoint.request(boiler, READ)


async def test_oldest_sessions_of_identity_end_above_limit():
    handler = RecordingHandler()
    async with dtls_endpoint(handler, limits=CoapLimits(sessions_of_identity=2)) as (endpoint, new_device):
        devices = [await connected(new_device()) for _ in range(3)]
        await devices[0].closed()
        assert handler.ended_sessions == [Peer(devices[0].address, is_secure=True, identity="boiler")]
        assert endpoint.counts.sessions == 2


async def test_least_recently_active_session_is_replaced_above_limit():
    async with dtls_endpoint(limits=CoapLimits(sessions=2), keys=lambda _identity: KEY) as (endpoint, new_device):
        first, second = [await connected(new_device(name)) for name in ("1", "2")]
        await register(first)
        await connected(new_device("3"))
        await second.closed()
        await register(first, 2)
        assert endpoint.counts.sessions == 2


async def test_many_close_notifies_do_not_affect_other_sessions():
    """The messages were seen to corrupt the library's table of several peers, and to crash the process."""
    async with dtls_endpoint(keys=lambda _identity: KEY) as (endpoint, new_device):
        staying = [await connected(new_device(f"staying-{number}")) for number in range(10)]
        for number in range(30):
            passing = await connected(new_device(f"passing-{number}"))
            passing.send_close_notify()
            await until(lambda: endpoint.counts.sessions == 10)
        for device in staying:
            await register(device)
        assert endpoint.counts.handshakes == 40


async def test_datagram_too_long_for_a_record_fails_and_session_continues():
    handler = RecordingHandler()
    async with dtls_endpoint(handler) as (endpoint, new_device):
        device = await connected(new_device())
        await register(device)
        peer = handler.requests[0][0]
        with pytest.raises(Unreachable, match="do not fit into a DTLS record"):
            await endpoint.request(peer, Request("GET", "/3/0", query=("x" * 3_000,)))
        await register(device, 2)


def mangled(chance: random.Random, others: list[bytes], datagram: bytes) -> list[bytes]:
    """Return the datagrams to deliver: usually the same, or none, a part, a changed one, or another one first."""
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


class CapturingSocket:
    """A socket that stores the datagrams to send."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, _peer: Peer, datagram: bytes) -> None:
        self.sent.append(datagram)


class ManualDtlsDevice:
    """A DTLS client without a socket. The test delivers its datagrams."""

    def __init__(self, peer: Peer, server: Receiver, responses: list[bytes]) -> None:
        self._peer, self._server, self._responses = peer, server, responses
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
        """Deliver the written datagrams to the server, and its responses back. Return the written datagrams."""
        written = self._written[:]
        self._written.clear()
        for datagram in written:
            for outcome in fate(datagram):
                self._server.received(self._peer, outcome)
        responses = self._responses[:]
        self._responses.clear()
        for response in responses:
            self._context.handleMessageAddr("::1", 1, response)
        return written

    def disconnect(self, *, sends_close_notify: bool) -> None:
        """Disconnect, with or without a close_notify."""
        self._connection = None
        if sends_close_notify:
            self.step(lambda datagram: [datagram])


@asynccontextmanager
async def manual_transport(
    limits: CoapLimits | None = None,
) -> AsyncIterator[tuple[CoapEndpoint, DtlsTransport, ManualDtlsDevice]]:
    """Yield an endpoint, its transport, and a device. The test delivers the datagrams."""
    async with dtls_endpoint(limits=limits) as (endpoint, _):
        transport = endpoint._layers[True].transport
        assert isinstance(transport, DtlsTransport)
        real, capturing = transport.socket, CapturingSocket()
        transport.socket = capturing  # type: ignore[assignment] - it only sends
        try:
            yield endpoint, transport, ManualDtlsDevice(Peer("127.0.1.1:5684"), transport, capturing.sent)
        finally:
            transport.socket = real


def unchanged(datagram: bytes) -> list[bytes]:
    return [datagram]


async def test_mangled_handshakes_do_not_prevent_others():
    """Each step of the handshakes has malformed datagrams."""
    chance = random.Random(20261123)
    async with manual_transport(CoapLimits(handshakes=8, sessions=8)) as (endpoint, transport, survivor):
        seen: list[bytes] = []
        for number in range(300):
            device = ManualDtlsDevice(Peer(f"127.0.2.{number % 12}:5684"), transport, transport.socket.sent)
            for _ in range(4):
                seen.extend(device.step(functools.partial(mangled, chance, seen)))
                del seen[:-50]
            device.disconnect(sends_close_notify=chance.random() < 0.5)
        handshakes = endpoint.counts.handshakes
        assert handshakes > 20
        assert endpoint.counts.handshake_failures > 5
        for _ in range(4):
            survivor.step(unchanged)
        assert endpoint.counts.handshakes == handshakes + 1


async def test_hellos_of_forged_addresses_use_no_memory_and_block_no_device():
    async with manual_transport() as (endpoint, transport, device):
        (hello,) = device.step(unchanged)
        for number in range(3_000):
            transport.received(Peer(f"127.1.{number % 250}.{number // 250}:5684"), hello)
        assert len(transport.socket.sent) == 3_000
        assert not transport._opening
        assert len(transport._cookie_contexts) <= 1024
        transport.socket.sent.clear()
        for _ in range(3):
            device.step(unchanged)
        assert endpoint.counts.handshakes == 1


async def test_device_whose_cookie_context_was_used_connects_after_one_more_round_trip(monkeypatch):
    monkeypatch.setattr(dtls_transport, "_COOKIE_CONTEXTS", 1)
    async with manual_transport() as (endpoint, transport, device):
        device.step(unchanged)
        other = ManualDtlsDevice(Peer("127.0.1.2:5684"), transport, transport.socket.sent)
        for _ in range(3):
            other.step(unchanged)
        assert endpoint.counts.handshakes == 1
        for _ in range(4):
            device.step(unchanged)
        assert endpoint.counts.handshakes == 2


async def test_duplicate_hello_continues_the_same_handshake():
    """A device does so over a slow network if its retransmission timeout is shorter than the round trip."""

    def twice(datagram: bytes) -> list[bytes]:
        again = bytearray(datagram)
        again[10] += 8  # the number of the record
        return [datagram, bytes(again)]

    async with manual_transport() as (endpoint, transport, device):
        device.step(unchanged)
        (hello,) = device.step(twice)
        device.step(unchanged)
        assert endpoint.counts.handshakes == 1
        transport.received(Peer("127.0.1.1:5684"), hello)  # after the session was established
        assert (endpoint.counts.sessions, transport._opening) == (1, {})


PROTECTED = b"\x17\xfe\xfd\x00\x01\x00\x00\x00\x00\x00\x63\x00\x20" + bytes(32)


async def test_record_of_unknown_session_gets_a_shorter_rate_limited_alert():
    limits = CoapLimits(messages_per_second_of_peer=1, burst_of_peer=10)
    async with manual_transport(limits) as (endpoint, transport, _):
        unknown_peer = Peer("127.0.1.9:5684")
        transport.received(unknown_peer, PROTECTED)
        (alert,) = transport.socket.sent
        assert (alert[:5], alert[11:]) == (b"\x15\xfe\xfd\x00\x00", b"\x00\x02\x02\x14")
        assert len(alert) < len(PROTECTED)
        for unanswered in (alert, b"\x15" + PROTECTED[1:], PROTECTED[:20], PROTECTED[:3] + b"\0\0" + PROTECTED[5:]):
            transport.received(unknown_peer, unanswered)
        assert len(transport.socket.sent) == 1
        assert endpoint.counts.dropped == 5
        for number in range(1_000):
            transport.received(Peer(f"127.1.{number % 250}.{number // 250}:5684"), PROTECTED)
        assert 10 <= len(transport.socket.sent) < 20


async def test_records_above_rate_limit_are_not_decrypted(monkeypatch):
    read: list[bytes] = []
    feed = dtls_transport._Session.feed
    monkeypatch.setattr(dtls_transport._Session, "feed", lambda self, data: read.append(data) or feed(self, data))
    handler = RecordingHandler()
    handler.known_tokens = {b"flood"}
    limits = CoapLimits(messages_per_second_of_peer=1, burst_of_peer=10)
    async with dtls_endpoint(handler, limits=limits) as (endpoint, new_device):
        device, other = await connected(new_device()), await connected(new_device("pump", OTHER_KEY))
        read.clear()
        for number in range(200):
            device.send(notification(number, b"flood", number, b"21.5"))
        await until(lambda: len(handler.notifications) + endpoint.counts.dropped == 200)
        assert len(handler.notifications) < 30
        assert len(read) < 60
        assert (await device.receive()).type == Type.RESET
        assert [each.peer.identity for each in handler.over_limit][:1] == ["boiler"]
        await register(other)


async def test_invalid_records_do_not_end_session():
    handler = RecordingHandler()
    async with dtls_endpoint(handler) as (endpoint, new_device):
        device = await connected(new_device())
        for junk in (
            b"",
            b"\x16",
            bytes(50),
            registration().encode(),
            b"\x15\xfe\xfd\x00\x00\x00\x00\x00\x00\x00\x09\x00\x02\x02\x28",  # a fatal alert, in plain
            b"\x16\xfe\xfd\x00\x00\x00\x00\x00\x00\x00\x09\x00\x0c\x10" + bytes(11),  # a handshake message, in plain
            PROTECTED,  # data with a wrong MAC
            b"\x14\xfe\xfd\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x01\x01",
        ):
            device.send_raw(junk)
        await register(device)
        assert (handler.ended_sessions, endpoint.counts.sessions, len(handler.requests)) == ([], 1, 1)


async def test_abandoned_handshakes_are_limited():
    async with dtls_endpoint(limits=CoapLimits(handshakes=5)) as (endpoint, new_device):
        unknown_devices = [new_device("stranger") for _ in range(20)]
        for unknown_device in unknown_devices:
            unknown_device._connection = unknown_device._context.connect("::1", 1)
            await unknown_device._read()  # returns the cookie, and sends nothing more
        await until(lambda: endpoint.counts.handshake_failures == 15)
        assert await new_device().connect()


def of_version_0xfe00(_direction: str, _number: int, datagram: bytes) -> list[bytes]:
    """mbedTLS 2.28 was seen to send this if all versions from SSL 3 are enabled. No version is negotiated yet."""
    is_client_hello = datagram[0] == 22 and datagram[13] == 1
    return [datagram[:1] + b"\xfe\x00" + datagram[3:] if is_client_hello else datagram]


@pytest.mark.parametrize("fate", [drop("down", 2), drop("down", 4), drop("down", 5), of_version_0xfe00])
async def test_handshake_survives_losses_and_old_record_version(fate):
    async with dtls_endpoint() as (endpoint, new_device), UdpRelay(endpoint.coaps_address, fate) as relay:
        device = new_device()
        device.server = relay.address
        assert await device.connect()
        assert endpoint.counts.sessions == 1


async def test_missing_dtlssocket_fails_with_cure(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "DTLSSocket", None)
    with pytest.raises(CannotListen, match="lwm2m-dtls"):
        await listen(RecordingHandler(), coap=("127.0.0.1", 0), coaps=("127.0.0.1", 0))


async def test_openssl_connects_only_with_the_key():
    handler = RecordingHandler()
    async with dtls_endpoint(handler, "0.0.0.0") as (endpoint, _):
        assert endpoint.coaps_address is not None
        port = endpoint.coaps_address[1]
        response = await openssl(port, "boiler", KEY, registration(message_id=0x1234).encode())
        assert response.startswith(b"\x61\x41\x12\x34\x01")
        assert await openssl(port, "stranger", KEY, registration().encode()) == b""
        assert [(sender.identity, request.path) for sender, request in handler.requests] == [("boiler", "/rd")]


async def openssl(port: int, identity: str, key: bytes, message: bytes) -> bytes:
    """Send a message with OpenSSL's client, and return the response."""
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
