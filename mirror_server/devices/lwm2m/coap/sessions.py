"""DTLS with pre-shared keys, between the socket and the messages. Source: RFC 6347, RFC 4279.

One context of DTLSSocket for all devices: it answers the first word of a stranger without keeping anything, so that
memory is taken only for an address that proved to be one. aiocoap's own server holds an object for each address that
ever sent a datagram, and cannot listen at all addresses.

What is known of DTLSSocket beyond its signatures is held by tests: a key longer than 16 bytes would be written over its
stack, an exception may not leave a callback, and a session may not be ended within one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mirror_server.devices.lwm2m.coap.settings import Counts, Limits
from mirror_server.devices.lwm2m.coap.sockets import Receiver, Transport, sockaddr_of
from mirror_server.devices.lwm2m.exchange import CannotListen, Peer, Unreachable

_log = logging.getLogger(__name__)

Keys = Callable[[str], bytes | None]
"""The pre-shared key of an identity; ``None`` for one that may not come in."""

_LONGEST_KEY = 16
"""DTLSSocket copies a key to 16 bytes of its stack, however long it is."""
_SWEEP_SECONDS = 1.0
_CONNECTED = 0x01DE
_CLOSE_NOTIFY = 0
_FATAL = 2
_ALERT = 21
_HANDSHAKE = 22
_CLIENT_HELLO = 1
_SERVER_HELLO = 2
_CLIENT_KEY_EXCHANGE = 16
_RECORD_HEAD = 13
_VERSION_1_2 = b"\xfe\xfd"
_OWN_IDENTITY = b"server"
"""DTLSSocket keeps a bare pointer to it, so it lives as long as the module; a server says no identity."""


@dataclass(slots=True, eq=False)
class _Session:
    """One device's. ``identity`` is as whom it proves itself, and ``peer`` has it as soon as the handshake is done."""

    peer: Peer
    dtls: Any
    began_at: float
    identity: str = ""
    last_words: list[bytes] = field(default_factory=list)
    """How the server ended the handshake, until the device says something: the library does not say it again."""


@dataclass(slots=True)
class _Heard:
    """What came of a datagram: a handshake that begins or is done, an identity with a key, data, an end, an answer."""

    greeted: bool = False
    connected: bool = False
    broken: bool = False
    identity: str = ""
    plaintexts: list[bytes] = field(default_factory=list)
    written: list[bytes] = field(default_factory=list)


class DtlsTransport:
    """Carries datagrams encrypted; ``socket`` carries what it made of them.

    Args:
        receiver: Who takes what devices say.
        session_ended: Called with the peer of a session that is gone.
        keys: The pre-shared keys.
        limits: How many sessions there may be.
        counts: Where handshakes are counted.

    Raises:
        CannotListen: DTLSSocket is not installed.
    """

    def __init__(
        self, receiver: Receiver, session_ended: Callable[[Peer], None], keys: Keys, limits: Limits, counts: Counts
    ) -> None:
        dtls = _library()
        self._receiver = receiver
        self._session_ended = session_ended
        self._keys = keys
        self._limits = limits
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self._new_session = dtls.Session
        self._context = dtls.DTLS(
            read=self._plain, write=self._encrypted, event=self._event, pskId=_OWN_IDENTITY, pskStore=self
        )
        self._opening: OrderedDict[str, _Session] = OrderedDict()
        self._open: OrderedDict[str, _Session] = OrderedDict()
        self._of_identity: dict[str, deque[_Session]] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._speaking: Peer | None = None
        self._key = b""
        self._heard = _Heard()
        self.socket: Transport

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens: host and port."""
        return self.socket.address

    def send(self, peer: Peer, datagram: bytes) -> None:
        """Send a datagram within the session of a peer.

        Raises:
            Unreachable: It has none, or one with another identity.
        """
        session = self._open.get(peer.address)
        if session is None or session.identity != peer.identity:
            raise Unreachable(f"{peer.address}: its DTLS session is gone")
        self._speaking = session.peer
        try:
            self._context.write(session.dtls, datagram)
        finally:
            self._speaking = None

    async def close(self) -> None:
        """End all sessions, and close the socket."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for session in [*self._opening.values(), *self._open.values()]:
            self._reset(session)
        self._opening.clear()
        self._open.clear()
        self._of_identity.clear()
        await self.socket.close()

    def end_sessions(self, identity: str) -> None:
        """End the sessions of an identity, whose key is no longer good."""
        for session in list(self._of_identity.get(identity, ())):
            self._end(session)

    def received(self, peer: Peer, datagram: bytes) -> None:
        """Take what the socket received."""
        address = peer.address
        session = self._opening.get(address) or self._open.get(address)
        spoken = self._new_dtls_session(address) if session is None else session.dtls
        heard = self._hear(peer, spoken, _of_known_version(datagram))
        if heard.greeted:
            self._begin(peer, spoken)
        opening = self._opening.get(address)
        if opening is not None:
            opening.identity = heard.identity or opening.identity
            if heard.connected:
                opening.last_words = heard.written
                self._open_session(opening)
        session = self._open.get(address)
        if session is not None:
            self._open.move_to_end(address)
            self._repeat_last_words(session, datagram, heard)
            for plaintext in heard.plaintexts:
                self._receiver.received(session.peer, plaintext)
        if heard.broken:
            self._fail(address)

    def _repeat_last_words(self, session: _Session, datagram: bytes, heard: _Heard) -> None:
        """Say the end of a handshake again to a device that did not hear it, which says its part again."""
        if heard.plaintexts:
            session.last_words = []
        elif not heard.connected and _handshake_message(datagram) == _CLIENT_KEY_EXCHANGE:
            for words in session.last_words:
                self._send_raw(session.peer, words)

    def failed(self, peer: Peer, reason: str) -> None:
        """Hear of the socket that nothing reaches a peer; its session stays, for it may come back."""
        session = self._open.get(peer.address)
        if session is not None:
            self._receiver.failed(session.peer, reason)

    def keys(self) -> DtlsTransport:
        """What DTLSSocket looks for an identity in."""
        return self

    def __contains__(self, identity: bytes) -> bool:
        """Whether an identity may come in; its key is held for the call that follows."""
        self._heard.identity, self._key = "", b""
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
        self._heard.identity, self._key = name, key
        return True

    def __getitem__(self, _identity: bytes) -> bytes:
        """The key of the identity that was just looked for."""
        return self._key

    def _new_dtls_session(self, address: str) -> Any:
        host, port, *_ = sockaddr_of(address)
        return self._new_session(host, port)

    def _hear(self, peer: Peer, spoken: Any, datagram: bytes) -> _Heard:
        """Let the library read a datagram; nothing else is done before it is out of its callbacks."""
        heard = self._heard = _Heard()
        self._speaking = peer
        try:
            self._context.handleMessage(spoken, datagram)
        finally:
            self._speaking = None
            self._heard = _Heard()
            self._key = b""
        return heard

    def _plain(self, _sender: object, data: bytes) -> int:
        self._heard.plaintexts.append(data)
        return len(data)

    def _encrypted(self, recipient: tuple[str, int], data: bytes) -> int:
        """Send what the library wrote; nothing may be raised here, through C."""
        self._heard.written.append(data)
        if _handshake_message(data) == _SERVER_HELLO:
            self._heard.greeted = True
        elif data[0] == _ALERT:
            self._heard.broken = True
        peer = self._speaking or self._opening_peer(recipient)
        if peer is not None:
            self._send_raw(peer, data)
        return len(data)

    def _send_raw(self, peer: Peer, data: bytes) -> None:
        try:
            self.socket.send(peer, data)
        except Unreachable:
            self._counts.unreachable += 1

    def _event(self, level: int, code: int) -> None:
        if code == _CONNECTED:
            self._heard.connected = True
        elif level == _FATAL or code == _CLOSE_NOTIFY:
            self._heard.broken = True

    def _opening_peer(self, recipient: tuple[str, int]) -> Peer | None:
        """Of whom the library sends something again."""
        sessions = self._opening.values()
        return next((each.peer for each in sessions if (each.dtls.addr, each.dtls.port) == recipient), None)

    def _begin(self, peer: Peer, spoken: Any) -> None:
        """A peer proved its address: what it had is over, and its handshake goes on."""
        old = self._open.get(peer.address)
        if old is not None:
            self._forget(old)
        self._opening.pop(peer.address, None)
        self._opening[peer.address] = _Session(peer, spoken, self._loop.time())
        if len(self._opening) > self._limits.handshakes:
            self._fail(next(iter(self._opening)))
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._sweep)

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

    def _fail(self, address: str) -> None:
        opening = self._opening.pop(address, None)
        if opening is not None:
            self._refuse(opening)
        elif address in self._open:
            self._end(self._open[address])

    def _refuse(self, session: _Session) -> None:
        """Let a handshake end that came to nothing."""
        self._counts.handshake_failures += 1
        self._reset(session)

    def _end(self, session: _Session) -> None:
        self._reset(session)
        self._forget(session)

    def _reset(self, session: _Session) -> None:
        self._speaking = session.peer
        try:
            self._context.resetPeer(session.dtls)
        finally:
            self._speaking = None

    def _forget(self, session: _Session) -> None:
        """Tell that a session is gone, which the library has no longer."""
        del self._open[session.peer.address]
        others = self._of_identity[session.identity]
        others.remove(session)
        if not others:
            del self._of_identity[session.identity]
        self._counts.sessions -= 1
        self._receiver.failed(session.peer, "its DTLS session ended")
        self._session_ended(session.peer)

    def _sweep(self) -> None:
        """Send again what got lost in handshakes, and let those end that take too long."""
        self._sweeper = None
        self._context.checkRetransmit()
        before = self._loop.time() - self._limits.handshake_seconds
        while self._opening:
            address, oldest = next(iter(self._opening.items()))
            if oldest.began_at > before:
                self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._sweep)
                return
            self._fail(address)


def _of_known_version(datagram: bytes) -> bytes:
    """The first words of a handshake in a record of version 1.2, whatever version they came in.

    A client was seen to write 0xFE00 there, which the library passes over; it means nothing before a version is agreed
    on, and no hash covers it. Source: RFC 8446, D.
    """
    if _handshake_message(datagram) != _CLIENT_HELLO:
        return datagram
    return datagram[:1] + _VERSION_1_2 + datagram[3:]


def _handshake_message(datagram: bytes) -> int | None:
    """Which message of a handshake stands first in a datagram, as long as that can be read."""
    if len(datagram) <= _RECORD_HEAD or datagram[0] != _HANDSHAKE or any(datagram[3:5]):
        return None
    return datagram[_RECORD_HEAD]


def _library() -> Any:
    try:
        from DTLSSocket import dtls  # noqa: PLC0415 - needs an extra that is built from source
    except ImportError:
        raise CannotListen(
            "DTLS needs the extra lwm2m-dtls (pip install 'device-state-mirror[lwm2m-dtls]'), which is built with a "
            "C compiler, autoconf and automake"
        ) from None
    dtls.setLogLevel(dtls.DTLS_LOG_EMERG)
    return dtls
