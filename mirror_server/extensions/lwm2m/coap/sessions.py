"""DTLS with pre-shared keys, between the socket and the messages. Source: RFC 6347, RFC 4279.

Each session has a context of DTLSSocket of its own, of 0.5 KB: where one context holds several peers, the library
deletes one that says good-bye twice from its table, and the next may crash the process. aiocoap's own server holds a
context for each address that ever sent a datagram, and cannot listen at all addresses.

A ClientHello is answered without any state of its address. A greeter does that: a context without a peer, which many
addresses share. Its cookie is an HMAC of the address and of what the hello says (RFC 6347, 4.2.1), with a secret of the
context. The address that sends the cookie back gets the greeter as the context of its session, since no other context
would take this cookie, and the next greeter has another secret. A device with a cookie of the former one gets another,
and is a round trip later: this is rare with many greeters, and only addresses that answer can bring it about. With a
context for each address, 1,200 hellos a second from forged addresses kept a device with a round trip of 1 s out for
good; now it gets in after three round trips beside 5,000 a second.

Sessions are not stored, since the library gives no access to their keys. A server that stops says good-bye, and one
that was killed answers records of sessions that it does not know with an alert.

What is known of DTLSSocket beyond its signatures is held by tests: a key longer than 16 bytes would be written over its
stack, an exception may not leave a callback, and a context that still has a peer may not be freed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mirror_server.extensions.lwm2m.coap.limits import AddressShares, CoapLimits
from mirror_server.extensions.lwm2m.coap.sockets import Receiver, Transport, sockaddr_of
from mirror_server.extensions.lwm2m.transport_api import INSTALL_DTLS, CannotListen, Counts, Peer, Unreachable

_log = logging.getLogger(__name__)

Keys = Callable[[str], bytes | None]
"""The pre-shared key of an identity; ``None`` for one that may not come in."""

_LONGEST_KEY = 16
"""DTLSSocket copies a key to 16 bytes of its stack, however long it is."""
_GREETERS = 1024
_ALERTS = "alerts"
"""The key of the share of all alerts, in place of an address."""
_SWEEP_SECONDS = 1.0
_SAMPLE_SECONDS = 0.1
"""The interval at which a message is read of a device whose share is used up."""
_LINE_SECONDS = 1.0
"""The least time between two warnings of failed handshakes: unauthenticated clients may not fill the disk."""
_CONNECTED = 0x01DE
_CLOSE_NOTIFY = 0
_FATAL = 2
_ALERT = 21
_HANDSHAKE = 22
_DATA = 23
_CLIENT_HELLO = 1
_SERVER_HELLO = 2
_CLIENT_KEY_EXCHANGE = 16
_RECORD_HEAD = 13
_LEAST_PROTECTED = _RECORD_HEAD + 16
"""The shortest record of AES-CCM-8: explicit nonce, no data, tag."""
_VERSION_1_2 = b"\xfe\xfd"
_BAD_RECORD_MAC = bytes([_ALERT]) + _VERSION_1_2 + bytes.fromhex("0000 010000000000 0002 02 14")
"""A fatal alert without protection; its sequence number is one that no handshake has come to."""
_OWN_IDENTITY = b"server"
"""DTLSSocket keeps a bare pointer to it, so it lives as long as the module; a server says no identity."""


@dataclass(slots=True)
class _SessionEvents:
    """The events while the library read a datagram: a handshake began or is done, the end, data, and what it wrote."""

    greeted: bool = False
    connected: bool = False
    broken: bool = False
    plaintexts: list[bytes] = field(default_factory=list)
    written: list[bytes] = field(default_factory=list)


class _Session:
    """One address and its context of the library, whose callbacks are here: none of them may raise anything.

    Attributes:
        peer: The receiver of datagrams; with the identity as soon as the handshake is done.
        claimed: The identity that it claims.
        identity: The same, if there is a key for it.
        began_at: The start of the handshake, on the loop's clock.
        hello: The hash of the ClientHello that began it.
        flight: The messages of the handshake that were sent last, until the device sends data: the library does not
            send them again when the device repeats what they answer.
    """

    def __init__(self, dtls: Any, keys: Keys, send: Callable[[Peer, bytes], None]) -> None:
        self.peer: Peer
        self.claimed = b""
        self.identity = ""
        self.began_at = 0.0
        self.hello = 0
        self.flight: list[bytes] = []
        self._dtls = dtls
        self._keys = keys
        self._key = b""
        self._send = send
        self._session_events = _SessionEvents()
        self._other_side: Any
        self._context: Any = dtls.DTLS(
            read=self._plain, write=self._encrypted, event=self._event, pskId=_OWN_IDENTITY, pskStore=self
        )

    def turn_to(self, peer: Peer) -> None:
        """Set the peer of the next datagrams; only while there is no other."""
        self.peer = peer
        self._other_side = self._dtls.Session(*sockaddr_of(peer.address))

    def hear(self, datagram: bytes) -> _SessionEvents:
        """Let the library read a datagram; nothing else is done before it is out of its callbacks."""
        session_events = self._session_events = _SessionEvents()
        self._context.handleMessage(self._other_side, datagram)
        self._key = b""
        return session_events

    def say(self, data: bytes) -> bool:
        """Send data, encrypted; return whether it fits into a record."""
        return bool(self._context.write(self._other_side, data) >= 0)

    def repeat_flight(self) -> None:
        """Send the last messages of the handshake again."""
        for datagram in self.flight:
            self._send(self.peer, datagram)

    def retransmit(self) -> None:
        """Retransmit messages of the handshake, if it is time for it."""
        self._context.checkRetransmit()

    def end(self) -> None:
        """Say good-bye, and let go of the library's memory; the context may not be freed before."""
        self._context.resetPeer(self._other_side)
        self._context = None

    def restart_handshake(self, peer: Peer, hello: int, now: float) -> None:
        """Clear the identity: the other side makes a new handshake."""
        self.peer, self.hello, self.began_at, self.flight = peer, hello, now, self._session_events.written
        self.identity, self.claimed = "", b""

    def keys(self) -> _Session:
        """Return the container in which the library looks up an identity."""
        return self

    def __contains__(self, identity: bytes) -> bool:
        """Whether an identity may come in; its key is held for the call that follows."""
        self.claimed = identity
        self.identity, self._key = "", b""
        try:
            name = identity.decode()
            key = self._keys(name)
        except UnicodeDecodeError:
            return False
        except Exception:
            _log.exception("The key of a device was not found out")
            return False
        if key is not None and len(key) > _LONGEST_KEY:
            _log.warning("A device stays out: its key is longer than the %d bytes that can be used", _LONGEST_KEY)
            return False
        if not key or not name:
            return False
        self.identity, self._key = name, key
        return True

    def __getitem__(self, _identity: bytes) -> bytes:
        """The key of the identity that was just looked for."""
        return self._key

    def _plain(self, _sender: object, data: bytes) -> int:
        self._session_events.plaintexts.append(data)
        return len(data)

    def _encrypted(self, _recipient: object, data: bytes) -> int:
        self._session_events.written.append(data)
        if _handshake_message(data) == _SERVER_HELLO:
            self._session_events.greeted = True
        elif data[0] == _ALERT:
            self._session_events.broken = True
        self._send(self.peer, data)
        return len(data)

    def _event(self, level: int, code: int) -> None:
        if code == _CONNECTED:
            self._session_events.connected = True
        elif level == _FATAL or code == _CLOSE_NOTIFY:
            self._session_events.broken = True


class DtlsTransport:
    """Carries datagrams encrypted; ``socket`` carries what it made of them.

    An address that sent its cookie back opens a session, then it has one.

    Args:
        receiver: Who takes what devices say.
        session_ended: Called with the peer of a session that is gone.
        keys: The pre-shared keys.
        limits: How many sessions there may be.
        counts: Where handshakes are counted.
        shares: What each address may send; the receiver counts what came within a session.

    Raises:
        CannotListen: DTLSSocket is not installed.
    """

    def __init__(
        self,
        receiver: Receiver,
        session_ended: Callable[[Peer], None],
        keys: Keys,
        limits: CoapLimits,
        counts: Counts,
        shares: AddressShares,
    ) -> None:
        self._dtls = _library()
        self._receiver = receiver
        self._session_ended = session_ended
        self._keys = keys
        self._limits = limits
        self._counts = counts
        self._shares = shares
        self._loop = asyncio.get_running_loop()
        self._greeters: dict[int, _Session] = {}
        self._read_at = -_SAMPLE_SECONDS
        self._opening: OrderedDict[str, _Session] = OrderedDict()
        self._open: OrderedDict[str, _Session] = OrderedDict()
        self._of_identity: dict[str, deque[_Session]] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._told_at = -_LINE_SECONDS
        self.socket: Transport

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.socket.address

    def send(self, peer: Peer, datagram: bytes) -> None:
        """Send a datagram within the session of a peer.

        Raises:
            Unreachable: It has none, or one with another identity; or the datagram is too long.
        """
        session = self._open.get(peer.address)
        if session is None or session.peer.identity != peer.identity:
            raise Unreachable(f"{peer.address}: its DTLS session is gone")
        if not session.say(datagram):
            raise Unreachable(f"{peer.address}: {len(datagram)} bytes do not go into a record of its DTLS session")

    async def close(self) -> None:
        """End all sessions, and close the socket."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for sessions in (self._opening, self._open):
            for session in sessions.values():
                session.end()
            sessions.clear()
        self._greeters.clear()
        self._of_identity.clear()
        await self.socket.close()

    def end_sessions(self, identity: str) -> None:
        """End the sessions of an identity, whose key is no longer good."""
        for session in list(self._of_identity.get(identity, ())):
            self._end(session)

    def received(self, peer: Peer, datagram: bytes) -> None:
        """Handle a datagram of the socket."""
        address = peer.address
        session = self._open.get(address) or self._opening.get(address)
        is_hello = _handshake_message(datagram) == _CLIENT_HELLO
        if self._is_beyond_share(address, has_session=session is not None):
            self._counts.dropped += 1
        elif session is None and not is_hello:
            self._counts.dropped += 1
            self._request_handshake(peer, datagram)
        elif session is not None and is_hello and _hello_hash(datagram) == session.hello:
            # The library would begin another handshake, and the device goes on with this one.
            if address in self._opening:
                session.repeat_flight()
        else:
            self._hear(session or self._greeter(peer), peer, datagram)

    def _hear(self, session: _Session, peer: Peer, datagram: bytes) -> None:
        address = peer.address
        session_events = session.hear(_of_known_version(datagram))
        if session_events.greeted:
            self._begin(session, peer, _hello_hash(datagram))
        if session_events.connected and address in self._opening:
            session.flight = session_events.written
            self._open_session(session)
        if address in self._open:
            self._deliver(session, datagram, session_events)
        if session_events.broken:
            self._break_off(session)

    def _is_beyond_share(self, address: str, *, has_session: bool) -> bool:
        """Whether a datagram is too many to be read.

        Within a session the receiver counts messages, since others can send in the name of an address. Where the share
        is used up, one message in a while is read all the same, so that the receiver sees that there are too many.
        """
        if not has_session:
            return not self._shares.take(address)
        if not self._shares.is_used_up(address):
            return False
        now = self._loop.time()
        if now - self._read_at < _SAMPLE_SECONDS:
            return True
        self._read_at = now
        return False

    def _request_handshake(self, peer: Peer, datagram: bytes) -> None:
        """Have a device make a new handshake whose session is not known, after a restart or from another port.

        The alert is shorter than what it answers, and is never answered by another one. Source: RFC 6347, 4.1.2.7.
        """
        if _is_protected(datagram) and self._shares.take(_ALERTS):
            self._send_raw(peer, _BAD_RECORD_MAC)

    def failed(self, peer: Peer, reason: str) -> None:
        """Pass on the error that nothing reaches a peer; its session stays, for it may come back."""
        session = self._open.get(peer.address)
        if session is not None:
            self._receiver.failed(session.peer, reason)

    def _greeter(self, peer: Peer) -> _Session:
        """The context that answers the hello of an address."""
        number = hash(peer.address) % _GREETERS
        greeter = self._greeters.get(number)
        if greeter is None:
            greeter = self._greeters[number] = _Session(self._dtls, self._keys, self._send_raw)
        greeter.turn_to(peer)
        return greeter

    def _send_raw(self, peer: Peer, data: bytes) -> None:
        try:
            self.socket.send(peer, data)
        except Unreachable:
            self._counts.unreachable += 1

    def _deliver(self, session: _Session, datagram: bytes, session_events: _SessionEvents) -> None:
        self._open.move_to_end(session.peer.address)
        if session_events.plaintexts:
            session.flight = []
        elif not session_events.connected and _handshake_message(datagram) == _CLIENT_KEY_EXCHANGE:
            session.repeat_flight()
        for plaintext in session_events.plaintexts:
            self._receiver.received(session.peer, plaintext)

    def _begin(self, session: _Session, peer: Peer, hello: int) -> None:
        """Begin the handshake of an address that returned its cookie; its former session is over."""
        address = peer.address
        if address in self._open:
            self._forget(session)
        number = hash(address) % _GREETERS
        if self._greeters.get(number) is session:
            del self._greeters[number]
        self._opening.pop(address, None)
        session.restart_handshake(peer, hello, self._loop.time())
        self._opening[address] = session
        if len(self._opening) > self._limits.handshakes:
            self._reject(next(iter(self._opening.values())))
        self._sweep_later()

    def _open_session(self, session: _Session) -> None:
        address = session.peer.address
        del self._opening[address]
        session.peer = Peer(address, is_secure=True, identity=session.identity)
        self._open[address] = session
        self._counts.handshakes += 1
        self._counts.sessions += 1
        others = self._of_identity.setdefault(session.identity, deque())
        others.append(session)
        if len(others) > self._limits.sessions_of_identity:
            self._end(others[0])
        elif len(self._open) > self._limits.sessions:
            self._end(next(iter(self._open.values())))

    def _break_off(self, session: _Session) -> None:
        """End a session that either side closed."""
        address = session.peer.address
        if self._open.get(address) is session:
            self._end(session)
        elif self._opening.get(address) is session:
            self._reject(session)

    def _reject(self, session: _Session) -> None:
        """End a failed handshake."""
        self._counts.handshake_failures += 1
        del self._opening[session.peer.address]
        session.end()
        now = self._loop.time()
        if now - self._told_at >= _LINE_SECONDS:
            self._told_at = now
            cause = "its key is wrong" if session.identity else "there is no key for it"
            _log.warning(
                "A device at %s does not come in: it says to be %r, and %s, or it fell silent (%d failed handshakes)",
                session.peer.address,
                session.claimed.decode(errors="backslashreplace"),
                cause,
                self._counts.handshake_failures,
            )

    def _end(self, session: _Session) -> None:
        session.end()
        self._forget(session)

    def _forget(self, session: _Session) -> None:
        """Remove a session that the library has deleted, and report its end."""
        del self._open[session.peer.address]
        others = self._of_identity[session.peer.identity or ""]
        others.remove(session)
        if not others:
            del self._of_identity[session.peer.identity or ""]
        self._counts.sessions -= 1
        self._receiver.failed(session.peer, "its DTLS session ended")
        self._session_ended(session.peer)

    def _sweep_later(self) -> None:
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Retransmit messages of handshakes, and end those that take too long."""
        self._sweeper = None
        before = self._loop.time() - self._limits.handshake_seconds
        for session in list(self._opening.values()):
            if session.began_at < before:
                self._break_off(session)
            else:
                session.retransmit()
        if self._opening:
            self._sweep_later()


def _of_known_version(datagram: bytes) -> bytes:
    """The first words of a handshake in a record of version 1.2, whatever version they came in.

    A client was seen to write 0xFE00 there, which the library ignores; it has no meaning before a version is agreed on,
    and no hash covers it. Source: RFC 8446, D.
    """
    if _handshake_message(datagram) != _CLIENT_HELLO:
        return datagram
    return datagram[:1] + _VERSION_1_2 + datagram[3:]


def _handshake_message(datagram: bytes) -> int | None:
    """Return the type of the first handshake message in a datagram, if it is not encrypted."""
    if len(datagram) <= _RECORD_HEAD or datagram[0] != _HANDSHAKE or any(datagram[3:5]):
        return None
    return datagram[_RECORD_HEAD]


def _hello_hash(datagram: bytes) -> int:
    """Return the hash of a ClientHello, to recognize a duplicate in a record with another number."""
    return hash(datagram[_RECORD_HEAD:])


def _is_protected(datagram: bytes) -> bool:
    """Whether a datagram looks like a record within a session, and is no alert."""
    return len(datagram) >= _LEAST_PROTECTED and datagram[0] in (_HANDSHAKE, _DATA) and any(datagram[3:5])


def _library() -> Any:
    try:
        from DTLSSocket import dtls  # noqa: PLC0415 - needs an extra that is built from source
    except ImportError:
        raise CannotListen(f"DTLS needs DTLSSocket, which is not installed: {INSTALL_DTLS}") from None
    dtls.setLogLevel(dtls.DTLS_LOG_EMERG)
    return dtls
