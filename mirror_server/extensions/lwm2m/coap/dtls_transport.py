"""DTLS with pre-shared keys, between the socket and the messages. Source: RFC 6347, RFC 4279.

Each session has its own DTLSSocket context, of 0.5 KB. With several peers in one context, a peer that sends two
close_notify alerts is deleted from the table of the library twice, which may crash the process. aiocoap's own server
keeps a context for each address that ever sent a datagram, and cannot listen at all addresses.

The response to a ClientHello needs no state per address. A cookie context sends it: a context without a peer, shared by
many addresses. Its cookie is an HMAC of the address and the contents of the hello (RFC 6347, 4.2.1), with a secret of
the context. The address that returns the cookie gets this context for its session, because no other context accepts the
cookie. The next cookie context has another secret. A device with a cookie of the previous context gets a new cookie,
and needs one more round trip. This is rare with many cookie contexts, and only reachable addresses can cause it. With a
context per address, 1,200 hellos per second from forged addresses permanently kept a device with a round trip of 1 s
from connecting. Now it connects after three round trips next to 5,000 hellos per second.

Sessions are not stored, because the library gives no access to their keys. A server that stops sends close_notify.
After a crash, the server responds to records of unknown sessions with an alert.

Tests check the undocumented behavior of DTLSSocket. It would copy a key longer than 16 bytes beyond its stack buffer.
Callbacks must not raise exceptions. A context that still has a peer must not be freed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mirror_server.extensions.lwm2m.coap.limits import AddressRateLimiter, CoapLimits
from mirror_server.extensions.lwm2m.coap.sockets import Receiver, Transport, sockaddr_of
from mirror_server.extensions.lwm2m.transport_api import INSTALL_DTLS, CannotListen, Counts, Peer, Unreachable

_log = logging.getLogger(__name__)

Keys = Callable[[str], bytes | None]
"""Returns the pre-shared key of an identity, or ``None`` if it may not connect."""

_LONGEST_KEY = 16
"""DTLSSocket copies a key of any length to a stack buffer of 16 bytes."""
_COOKIE_CONTEXTS = 1024
_ALERTS = "alerts"
"""The rate limit key of all alerts together, instead of an address."""
_SWEEP_SECONDS = 1.0
_SAMPLE_SECONDS = 0.1
"""The interval at which one message of a device above its rate limit is still decrypted."""
_LINE_SECONDS = 1.0
"""The minimum time between two warnings of failed handshakes: unauthenticated clients must not fill the disk."""
# DTLS_EVENT_CONNECTED of tinydtls. The types of alerts, records and handshake messages below are those of TLS
# (RFC 5246, 6.2.1, 7.2 and 7.4).
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
"""An unprotected fatal alert. No handshake reaches its sequence number."""
_OWN_IDENTITY = b"server"
"""Required by DTLSSocket, though a server sends no identity. Global, because the library keeps a bare pointer to it."""


@dataclass(slots=True)
class _SessionEvents:
    """The events of one datagram: a handshake started, completed or failed, received data, and written records."""

    server_hello_sent: bool = False
    connected: bool = False
    broken: bool = False
    plaintexts: list[bytes] = field(default_factory=list)
    written: list[bytes] = field(default_factory=list)


class _Session:
    """An address and its library context. The library calls some of the methods, which must not raise exceptions.

    Attributes:
        peer: The receiver of datagrams. It has an identity once the handshake is done.
        claimed: The identity that the peer claims.
        identity: The same, if there is a key for it.
        started_at: The start of the handshake, on the loop's clock.
        hello: The hash of the ClientHello that started it.
        flight: The last flight of the handshake, until the device sends data. The library does not retransmit it when
            the device repeats its own flight.
    """

    def __init__(self, dtls: Any, keys: Keys, send: Callable[[Peer, bytes], None]) -> None:
        self.peer: Peer
        self.claimed = b""
        self.identity = ""
        self.started_at = 0.0
        self.hello = 0
        self.flight: list[bytes] = []
        self._dtls = dtls
        self._keys = keys
        self._key = b""
        self._send = send
        self._session_events = _SessionEvents()
        self._remote: Any
        self._context: Any = dtls.DTLS(
            read=self._plain, write=self._encrypted, event=self._event, pskId=_OWN_IDENTITY, pskStore=self
        )

    def set_peer(self, peer: Peer) -> None:
        """Set the peer of the next datagrams. Only allowed while the context has no peer."""
        self.peer = peer
        self._remote = self._dtls.Session(*sockaddr_of(peer.address))

    def feed(self, datagram: bytes) -> _SessionEvents:
        """Let the library read a datagram. Return the events, for the caller to act on after the library has finished.

        The callbacks only record them, because the library must not be re-entered and its context must not be freed
        while it reads.
        """
        session_events = self._session_events = _SessionEvents()
        self._context.handleMessage(self._remote, datagram)
        self._key = b""
        return session_events

    def encrypt(self, data: bytes) -> bool:
        """Encrypt and send data. Return whether it fits into a record."""
        return bool(self._context.write(self._remote, data) >= 0)

    def repeat_flight(self) -> None:
        """Retransmit the last flight of the handshake."""
        for datagram in self.flight:
            self._send(self.peer, datagram)

    def retransmit(self) -> None:
        """Let the library retransmit messages of the handshake whose timeout has passed."""
        self._context.checkRetransmit()

    def end(self) -> None:
        """Send close_notify, and free the library's context, which must not be freed before."""
        self._context.resetPeer(self._remote)
        self._context = None

    def restart_handshake(self, peer: Peer, hello: int, now: float) -> None:
        """Start a new handshake: clear the identity and set the peer."""
        self.peer, self.hello, self.started_at, self.flight = peer, hello, now, self._session_events.written
        self.identity, self.claimed = "", b""

    def keys(self) -> _Session:
        """Return the mapping in which the library finds the key of an identity."""
        return self

    def __contains__(self, identity: bytes) -> bool:
        """Whether an identity has a key. Stores the key for the ``__getitem__`` call that follows."""
        self.claimed = identity
        self.identity, self._key = "", b""
        try:
            name = identity.decode()
            key = self._keys(name)
        except UnicodeDecodeError:
            return False
        except Exception:
            _log.exception("Reading the key of a device failed")
            return False
        if key is not None and len(key) > _LONGEST_KEY:
            _log.warning("A device cannot connect: its key is longer than the maximum of %d bytes", _LONGEST_KEY)
            return False
        if not key or not name:
            return False
        self.identity, self._key = name, key
        return True

    def __getitem__(self, _identity: bytes) -> bytes:
        """Return the key of the identity of the last ``__contains__`` call."""
        return self._key

    def _plain(self, _sender: object, data: bytes) -> int:
        self._session_events.plaintexts.append(data)
        return len(data)

    def _encrypted(self, _recipient: object, data: bytes) -> int:
        self._session_events.written.append(data)
        if _handshake_message(data) == _SERVER_HELLO:
            self._session_events.server_hello_sent = True
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
    """Encrypts and decrypts datagrams. ``socket`` sends and receives the encrypted datagrams.

    An address that returned its cookie has a session in ``_opening`` until the handshake is done, then in ``_open``.

    Args:
        receiver: Receives the decrypted datagrams.
        session_ended: Called with the peer of an ended session.
        keys: The pre-shared keys.
        limits: The limits of sessions and handshakes.
        counts: The counters to update.
        limiter: The rate limits per address. Datagrams within a session are counted by the receiver.

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
        limiter: AddressRateLimiter,
    ) -> None:
        self._dtls = _library()
        self._receiver = receiver
        self._session_ended = session_ended
        self._keys = keys
        self._limits = limits
        self._counts = counts
        self._limiter = limiter
        self._loop = asyncio.get_running_loop()
        self._cookie_contexts: dict[int, _Session] = {}
        self._read_at = -_SAMPLE_SECONDS
        self._opening: OrderedDict[str, _Session] = OrderedDict()
        self._open: OrderedDict[str, _Session] = OrderedDict()
        self._of_identity: dict[str, deque[_Session]] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._logged_at = -_LINE_SECONDS
        self.socket: Transport

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.socket.address

    def send(self, peer: Peer, datagram: bytes) -> None:
        """Send a datagram within the session of a peer.

        Raises:
            Unreachable: The peer has no session or a session with another identity, or the datagram is too long.
        """
        session = self._open.get(peer.address)
        # Another device may have this address by now. It must not get data for the previous device.
        if session is None or session.peer.identity != peer.identity:
            raise Unreachable(f"{peer.address}: its DTLS session has ended")
        if not session.encrypt(datagram):
            raise Unreachable(f"{peer.address}: {len(datagram)} bytes do not fit into a DTLS record")

    async def close(self) -> None:
        """End all sessions, and close the socket."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for sessions in (self._opening, self._open):
            for session in sessions.values():
                session.end()
            sessions.clear()
        self._cookie_contexts.clear()
        self._of_identity.clear()
        await self.socket.close()

    def end_sessions(self, identity: str) -> None:
        """End the sessions of an identity whose key is no longer valid."""
        for session in list(self._of_identity.get(identity, ())):
            self._end(session)

    def received(self, peer: Peer, datagram: bytes) -> None:
        """Handle a datagram of the socket."""
        address = peer.address
        session = self._open.get(address) or self._opening.get(address)
        is_hello = _handshake_message(datagram) == _CLIENT_HELLO
        if self._exceeds_rate_limit(address, has_session=session is not None):
            self._counts.dropped += 1
        elif session is None and not is_hello:
            self._counts.dropped += 1
            self._request_handshake(peer, datagram)
        elif session is not None and is_hello and _hello_hash(datagram) == session.hello:
            # A duplicate hello. The library would start another handshake, but the device continues with this one.
            if address in self._opening:
                session.repeat_flight()
        else:
            # If a device with a session sends another hello, the session ends only when the cookie is returned. Source:
            # RFC 6347, 4.2.8.
            self._feed(session or self._cookie_context(peer), peer, datagram)

    def _feed(self, session: _Session, peer: Peer, datagram: bytes) -> None:
        address = peer.address
        session_events = session.feed(_with_version_1_2(datagram))
        if session_events.server_hello_sent:
            self._start_handshake(session, peer, _hello_hash(datagram))
        if session_events.connected and address in self._opening:
            session.flight = session_events.written
            self._open_session(session)
        if address in self._open:
            self._deliver(session, datagram, session_events)
        # End the session after the delivery, because data that came before a close_notify alert is valid.
        if session_events.broken:
            self._end_broken(session)

    def _exceeds_rate_limit(self, address: str, *, has_session: bool) -> bool:
        """Whether a datagram is above the rate limit of its address, and must not be decrypted.

        Within a session the receiver counts messages, because anyone can forge an address. Above the limit, a sample of
        the messages is still decrypted, so that the receiver notices the flood.
        """
        if not has_session:
            return not self._limiter.consume(address)
        if not self._limiter.is_exhausted(address):
            return False
        now = self._loop.time()
        if now - self._read_at < _SAMPLE_SECONDS:
            return True
        self._read_at = now
        return False

    def _request_handshake(self, peer: Peer, datagram: bytes) -> None:
        """Send an alert that makes a device with an unknown session start a new handshake.

        The session is unknown after a restart of the server, or if the device has another port. The alert is shorter
        than the datagram, so that it cannot be used for amplification, and is never sent in response to another alert.
        Source: RFC 6347, 4.1.2.7.
        """
        if _is_protected(datagram) and self._limiter.consume(_ALERTS):
            self._send_raw(peer, _BAD_RECORD_MAC)

    def failed(self, peer: Peer, reason: str) -> None:
        """Pass on that a peer is unreachable. Its session stays, because the peer may become reachable again."""
        session = self._open.get(peer.address)
        if session is not None:
            self._receiver.failed(session.peer, reason)

    def _cookie_context(self, peer: Peer) -> _Session:
        """Return the context that responds to the ClientHello of an address."""
        number = hash(peer.address) % _COOKIE_CONTEXTS
        context = self._cookie_contexts.get(number)
        if context is None:
            context = self._cookie_contexts[number] = _Session(self._dtls, self._keys, self._send_raw)
        # Allowed: a cookie context has no peer until an address returns its cookie.
        context.set_peer(peer)
        return context

    def _send_raw(self, peer: Peer, data: bytes) -> None:
        try:
            self.socket.send(peer, data)
        except Unreachable:
            self._counts.unreachable += 1

    def _deliver(self, session: _Session, datagram: bytes, session_events: _SessionEvents) -> None:
        self._open.move_to_end(session.peer.address)
        if session_events.plaintexts:
            # The device sends data only after it has received the last flight.
            session.flight = []
        elif not session_events.connected and _handshake_message(datagram) == _CLIENT_KEY_EXCHANGE:
            # The device repeats its last flight, so the response to it was lost.
            session.repeat_flight()
        for plaintext in session_events.plaintexts:
            self._receiver.received(session.peer, plaintext)

    def _start_handshake(self, session: _Session, peer: Peer, hello: int) -> None:
        """Start the handshake of an address that returned its cookie. Its previous session ends."""
        address = peer.address
        if address in self._open:
            # The library has already replaced the peer in this context, so there is nothing to end there.
            self._forget(session)
        number = hash(address) % _COOKIE_CONTEXTS
        if self._cookie_contexts.get(number) is session:
            del self._cookie_contexts[number]
        # Removed first, so that the new entry is at the end. The first entry is always the oldest.
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
            # One session was added, so it is enough to end one.
            self._end(next(iter(self._open.values())))

    def _end_broken(self, session: _Session) -> None:
        """End a session that either side closed, or that failed."""
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
        if now - self._logged_at >= _LINE_SECONDS:
            self._logged_at = now
            cause = "its key is wrong" if session.identity else "this identity has no key"
            _log.warning(
                "A device at %s with identity %r cannot connect: %s, or it stopped responding (%d failed handshakes)",
                session.peer.address,
                session.claimed.decode(errors="backslashreplace"),
                cause,
                self._counts.handshake_failures,
            )

    def _end(self, session: _Session) -> None:
        session.end()
        self._forget(session)

    def _forget(self, session: _Session) -> None:
        """Remove a session whose library context is deleted, and report its end."""
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
        """Retransmit messages of handshakes, and end handshakes that take too long."""
        self._sweeper = None
        before = self._loop.time() - self._limits.handshake_seconds
        for session in list(self._opening.values()):
            if session.started_at < before:
                self._end_broken(session)
            else:
                session.retransmit()
        if self._opening:
            self._sweep_later()


def _with_version_1_2(datagram: bytes) -> bytes:
    """Return a datagram with the record version of a ClientHello set to DTLS 1.2.

    A client was seen to send 0xFE00, which the library ignores. The record version has no meaning before the version
    negotiation, and no hash covers it. Source: RFC 8446, D.
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
    """Whether a datagram looks like an encrypted record other than an alert."""
    return len(datagram) >= _LEAST_PROTECTED and datagram[0] in (_HANDSHAKE, _DATA) and any(datagram[3:5])


def _library() -> Any:
    try:
        from DTLSSocket import dtls  # noqa: PLC0415 - needs an extra that is built from source
    except ImportError:
        raise CannotListen(f"DTLS needs DTLSSocket, which is not installed: {INSTALL_DTLS}") from None
    dtls.setLogLevel(dtls.DTLS_LOG_EMERG)
    return dtls
