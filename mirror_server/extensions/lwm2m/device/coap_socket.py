"""The socket of a device. It sends requests to one server and responds to its requests, with or without DTLS.

Messages, retransmissions and blocks are implemented by the same classes as in the server
(:mod:`mirror_server.extensions.lwm2m.coap`). A device has only one peer. In addition, it sends notifications and pings,
and it can be disconnected from its network.

Source: RFC 7252 section 4 (message layer), RFC 7959 (block-wise transfer), RFC 7641 (Observe).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import urlsplit

from mirror_server.extensions.lwm2m.coap.blocks import Uploads
from mirror_server.extensions.lwm2m.coap.limits import CoapLimits, Tuning
from mirror_server.extensions.lwm2m.coap.message_layer import CoapExchange, MessageLayer
from mirror_server.extensions.lwm2m.coap.messages import (
    BLOCK_BYTES,
    EMPTY,
    BlockOption,
    Message,
    Option,
    Type,
    block_of,
    code_number,
    error_response,
    request_message,
    response_message,
    response_of,
)
from mirror_server.extensions.lwm2m.settings import COAP_PORT, COAPS_PORT
from mirror_server.extensions.lwm2m.transport_api import (
    INSTALL_DTLS,
    Counts,
    NoResponse,
    Observed,
    Peer,
    Request,
    Response,
    Unreachable,
)

_log = logging.getLogger(__name__)

_SERVER = Peer("the server")
"""The only peer of a socket. Its address has no meaning."""
_CONTINUE = code_number("2.31")
_TOKEN_BYTES = 4
_PINGS = 3
_REMEMBERED = 32
"""The maximum number of block-wise transfers, and of requests that are remembered to recognize duplicates."""
_REMEMBERED_NOTIFICATIONS = 256
_LIMITS = CoapLimits(
    payload_bytes=1 << 20,
    messages_per_second_of_peer=1_000_000,
    burst_of_peer=1_000_000,
    remembered_messages=_REMEMBERED,
    uploads=_REMEMBERED,
)
"""The limits of a device. It has no rate limit, because it trusts its server."""
_PORTS = {"coap": COAP_PORT, "coaps": COAPS_PORT}
DEVICE_TUNING = Tuning(retransmissions=4, separate_response_seconds=93.0)
"""The retransmission parameters of RFC 7252, section 4.8.

A device waits longer than the server, because the server must serve many devices.
"""
_HANDSHAKE_POLL_SECONDS = 0.5
_LONGEST_IDENTITY, _LONGEST_SECRET = 32, 16
_DTLS_CONNECTED = (0, 0x01DE)
_DTLS_CLOSE_NOTIFY = (1, 0)
_DTLS_FATAL = 2
_UNPROTECTED_ALERT = b"\x15\xfe\xfd\x00\x00"
"""The first bytes of an alert of epoch 0, which a server sends if it does not know the session."""
# The DTLS library needs an address for each session. The address has no meaning, because a socket has only one peer.
_DTLS_PEER = ("::1", 1234)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a LwM2M server."""

    host: str
    port: int
    is_secure: bool = False

    @classmethod
    def parse(cls, url: str) -> ServerAddress:
        """Parse a URL of the form ``coap://HOST[:PORT]`` or ``coaps://HOST[:PORT]``.

        Raises:
            ValueError: The URL is not valid.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in _PORTS or not parts.hostname or parts.path not in {"", "/"} or parts.query:
            raise ValueError(f"{url!r} is not the address of a LwM2M server; write it like coap://127.0.0.1:5683")
        return cls(parts.hostname, _PORTS[parts.scheme] if port is None else port, parts.scheme == "coaps")

    def __str__(self) -> str:
        """Return the address as a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'coaps' if self.is_secure else 'coap'}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PreSharedKey:
    """The pre-shared key of a device.

    Raises:
        ValueError: The identity is empty or longer than 32 bytes, or the secret is empty or longer than 16 bytes.
    """

    identity: bytes
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        # DTLSSocket copies both values into arrays of these sizes without checking their lengths.
        if not 1 <= len(self.identity) <= _LONGEST_IDENTITY:
            raise ValueError(f"an identity must have 1 to {_LONGEST_IDENTITY} bytes, got {len(self.identity)}")
        if not 1 <= len(self.secret) <= _LONGEST_SECRET:
            raise ValueError(f"a pre-shared key must have 1 to {_LONGEST_SECRET} bytes, got {len(self.secret)}")


class Incoming(NamedTuple):
    """A request from the server.

    ``observe`` is 0 to start an observation and 1 to cancel the observation with this token. It is ``None`` otherwise.
    """

    request: Request
    token: bytes
    observe: int | None


class DeviceHandler(Protocol):
    """The interface of an object that handles the requests of the server. All methods are called on the event loop."""

    async def handle(self, incoming: Incoming) -> Observed | None:
        """Return the response to a complete request, or ``None`` to send no response."""
        ...

    def observation_cancelled(self, token: bytes) -> None:
        """End the observation with this token, because the server responded to a notification with a reset."""
        ...

    def notification_undelivered(self, token: bytes) -> None:
        """Handle a confirmable notification that was not acknowledged after all retransmissions."""
        ...

    def session_ended(self) -> None:
        """Handle the end of the DTLS session."""
        ...


class _DtlsSession:
    """A DTLS session with a pre-shared key, over the datagrams of one socket."""

    def __init__(
        self,
        key: PreSharedKey,
        send: Callable[[bytes], None],
        received: Callable[[bytes], None],
        ended: Callable[[], None],
    ) -> None:
        try:
            from DTLSSocket import dtls  # noqa: PLC0415 - an extra
        except ImportError:
            raise ImportError(f"coaps:// needs DTLSSocket, which is not installed: {INSTALL_DTLS}") from None
        self._send = send
        self._received = received
        self._ended = ended
        self._connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._dtls: Any = dtls.DTLS(
            read=self._read,
            write=self._write,
            event=self._event,
            pskId=key.identity,
            pskStore={key.identity: key.secret},
        )
        self._session: Any = self._dtls.connect(*_DTLS_PEER)

    async def connect(self, seconds: float) -> None:
        """Wait until the handshake is complete, and retransmit lost messages.

        Raises:
            NoResponse: The handshake was not completed within this number of seconds.
            Unreachable: The server rejected the handshake.
        """
        end_at = asyncio.get_running_loop().time() + seconds
        while not self._connected.done() and asyncio.get_running_loop().time() < end_at:
            await asyncio.wait([self._connected], timeout=min(seconds, _HANDSHAKE_POLL_SECONDS))
            self._dtls.checkRetransmit()
        if not self._connected.done():
            raise NoResponse(
                f"the DTLS handshake did not complete within {seconds:g} s: the server does not know this identity or "
                "key, or does not listen there; check the key, the identity and the address"
            )
        self._connected.result()

    def handle(self, data: bytes) -> None:
        """Handle a datagram.

        An unprotected alert also ends the session, although the library ignores it, because a restarted server sends
        one. Anyone can forge such an alert, but it only causes another handshake.
        """
        if self._session is None:
            return
        if self._connected.done() and data.startswith(_UNPROTECTED_ALERT):
            asyncio.get_running_loop().call_soon(self._ended)
        else:
            self._dtls.handleMessage(self._session, data)

    def failed(self, error: Exception) -> None:
        """Fail the handshake that is in progress, because the socket cannot send."""
        if not self._connected.done():
            self._connected.set_exception(error)

    def send(self, data: bytes) -> None:
        if self._session is not None:
            self._dtls.write(self._session, data)

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._dtls.resetPeer(session)
        self._connected.cancel()

    def _read(self, _peer: Any, data: bytes) -> int:
        self._received(data)
        return len(data)

    def _write(self, _peer: Any, data: bytes) -> int:
        self._send(data)
        return len(data)

    def _event(self, level: int, code: int) -> None:
        if (level, code) == _DTLS_CONNECTED:
            if not self._connected.done():
                self._connected.set_result(None)
        elif level == _DTLS_FATAL or (level, code) == _DTLS_CLOSE_NOTIFY:
            self._end(code)

    def _end(self, code: int) -> None:
        if not self._connected.done():
            self._connected.set_exception(
                Unreachable(f"the server rejected the DTLS handshake (alert {code}): check identity and key")
            )
        elif self._session is not None:
            # This is called later, because the session must not be removed from the library during a callback of the
            # library.
            asyncio.get_running_loop().call_soon(self._ended)


class _Reset(Unreachable):
    """The server responded to a message with a reset."""


class CoapSocket(MessageLayer, asyncio.DatagramProtocol):
    """The socket of a device, which communicates with one server.

    Attributes:
        is_muted: Whether all datagrams in both directions are dropped, as if there were no network.
        lost: The number of received datagrams that were dropped.
    """

    def __init__(self, server: ServerAddress, handler: DeviceHandler, tuning: Tuning) -> None:
        super().__init__(self, tuning, _LIMITS, Counts())
        self._server = server
        self._handler = handler
        self._datagrams: asyncio.DatagramTransport
        self._session: _DtlsSession | None = None
        self._notified: OrderedDict[int, bytes] = OrderedDict()
        self._uploads = Uploads(_LIMITS, self._loop.time)
        self._downloads: OrderedDict[tuple[object, ...], Observed] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_muted = False
        self.lost = 0

    @classmethod
    async def open(
        cls, server: ServerAddress, handler: DeviceHandler, *, key: PreSharedKey | None, tuning: Tuning
    ) -> CoapSocket:
        """Open a socket on a free port.

        Raises:
            NoResponse: The DTLS handshake was not completed in time.
            Unreachable: The name of the server cannot be resolved, its address rejects datagrams, or the server
                rejected the handshake.
            ImportError: DTLSSocket is not installed.
        """
        self = cls(server, handler, tuning)
        try:
            family = await _family_of(server)
            await self._loop.create_datagram_endpoint(
                lambda: self, remote_addr=(server.host, server.port), family=family
            )
        except OSError as error:
            raise Unreachable(
                f"{server} cannot be reached: {error.strerror or error}; check the address and the network"
            ) from error
        if key is not None:
            try:
                self._session = _DtlsSession(key, self._datagrams.sendto, self._message_received, handler.session_ended)
                await self._session.connect(tuning.handshake_seconds)
            except BaseException:
                self.close()
                raise
        return self

    @property
    def port(self) -> int:
        """The local port of the socket."""
        return int(self._datagrams.get_extra_info("sockname")[1])

    def close(self) -> None:
        """Close the socket. Requests in flight fail with :class:`Unreachable`."""
        super().close()
        for task in self._tasks:
            task.cancel()
        if self._session is not None:
            self._session.close()
        self._datagrams.close()

    async def request(self, request: Request) -> Response:
        """Send a request to the server. A large payload is sent in blocks.

        Raises:
            NoResponse: The server did not respond in time.
            Unreachable: Nothing can be sent to the server.
        """
        blocks = range(0, max(len(request.payload), 1), BLOCK_BYTES)
        for number in range(len(blocks)):
            block = BlockOption(number, number + 1 < len(blocks), BLOCK_BYTES) if len(blocks) > 1 else None
            message = request_message(request, secrets.token_bytes(_TOKEN_BYTES), upload=block)
            response = await self.request_response(_SERVER, message)
            if response.code != _CONTINUE:
                break
        return response_of(response)

    async def ping(self) -> bool:
        """Ping the server. Return ``False`` if it did not respond to three pings or the socket was closed.

        Source: RFC 7252 section 4.3.
        """
        try:
            await self.request_response(_SERVER, Message(Type.CONFIRMABLE, EMPTY, 0), retransmissions=_PINGS - 1)
        except _Reset:
            return True
        except (NoResponse, Unreachable):
            return False
        return True

    def notify(self, token: bytes, response: Response, sequence: int | None, *, is_confirmable: bool) -> None:
        """Send a notification. If the value is large, only its first block is sent."""
        message = block_of(response_message(response, sequence), None)
        message.token = token
        if is_confirmable:
            self._start(_SERVER, message)
            return
        message.type, message.message_id = Type.NON_CONFIRMABLE, self._new_message_id()
        self._send(_SERVER, message.encode())
        self._notified[message.message_id] = token
        if len(self._notified) > _REMEMBERED_NOTIFICATIONS:
            self._notified.popitem(last=False)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the socket."""
        self._datagrams = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, _addr: Any) -> None:
        """Handle a datagram."""
        if self._session is None:
            self._message_received(data)
        else:
            self._session.handle(data)

    def error_received(self, exc: Exception) -> None:
        """End all requests, because the socket reported an error.

        Notifications are still retransmitted, because the server may listen again before the last retransmission.
        """
        error = Unreachable(f"{self._server} cannot be reached: {exc}")
        if self._session is not None:
            self._session.failed(error)
        for exchange in list(self._exchanges.get(_SERVER.address, ())):
            if exchange.response is not None and exchange.message.code != EMPTY:
                self._end(exchange, error)

    def request_arrived(self, peer: Peer, request: Message) -> None:
        """Respond to a request of the server in a new task."""
        task = self._loop.create_task(self._respond(peer, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def notification_arrived(self, peer: Peer, message: Message) -> bool:  # noqa: ARG002 - signature of the base class
        """Reject a response that no request waits for."""
        return False

    def notification_rejected(self, peer: Peer, message: Message) -> None:
        """Do nothing, because the server has no rate limit."""

    def _put(self, _peer: Peer, datagram: bytes) -> None:
        if not self.is_muted:
            (self._datagrams.sendto if self._session is None else self._session.send)(datagram)

    def _message_received(self, data: bytes) -> None:
        if self.is_muted:
            self.lost += 1
        else:
            self.received(_SERVER, data)

    def _timeout_reason(self, exchange: CoapExchange) -> str:
        if exchange.acknowledged:
            return f"the server did not respond within {self._tuning.separate_response_seconds:g} s"
        reason = f"the server did not respond to {exchange.attempts} transmissions"
        return f"{reason}; check that it listens there, and whether it uses coap:// or coaps://"

    def _end(self, exchange: CoapExchange, error: NoResponse | Unreachable) -> None:
        super()._end(exchange, error)
        if exchange.response is None and isinstance(error, NoResponse):
            self._handler.notification_undelivered(exchange.message.token)

    def _exchange_acknowledged(self, exchange: CoapExchange, is_reset: bool) -> None:
        if not is_reset:
            super()._exchange_acknowledged(exchange, is_reset)
            return
        self._end(exchange, _Reset("the server responded with a reset"))
        if exchange.response is None:
            self._handler.observation_cancelled(exchange.message.token)

    def _empty_received(self, peer: Peer, message: Message) -> None:
        super()._empty_received(peer, message)
        if message.type == Type.RESET and message.message_id in self._notified:
            self._handler.observation_cancelled(self._notified[message.message_id])

    async def _respond(self, peer: Peer, message: Message) -> None:
        try:
            response = await self._respond_to(peer, message)
        except Exception:
            _log.exception("responding to a request of the server failed")
            response = error_response("5.00", "")
        if response is None:
            # A device that does not respond must not acknowledge requests either.
            self._drop_acknowledgement(peer, message)
        else:
            self.respond(peer, message, response)

    async def _respond_to(self, peer: Peer, message: Message) -> Message | None:
        request = self._uploads.request(peer, message)
        if isinstance(request, Message):
            return request
        requested = message.block(Option.BLOCK2)
        key = (request.method, request.path, request.query, request.accept)
        # All blocks of a response belong to the same value, even if the value changes in the meantime.
        observed = self._downloads.pop(key, None) if requested is not None and requested.number else None
        if observed is None:
            observed = await self._handler.handle(Incoming(request, message.token, message.number(Option.OBSERVE)))
        if observed is None:
            return None
        response = block_of(response_message(*observed), requested)
        block = response.block(Option.BLOCK2)
        if block is not None and block.more:
            self._downloads[key] = Observed(observed.response, None)
            if len(self._downloads) > _REMEMBERED:
                self._downloads.popitem(last=False)
        response.options += [option for option in message.options if option[0] == Option.BLOCK1]
        return response


async def _family_of(server: ServerAddress) -> int:
    """Return the address family to use, which is IPv4 if the server has addresses of both families.

    A server for this machine listens on 127.0.0.1 only. UDP has no connection that would show on which address a server
    listens.
    """
    addresses = await asyncio.get_running_loop().getaddrinfo(server.host, server.port, type=socket.SOCK_DGRAM)
    return socket.AF_INET if any(each[0] == socket.AF_INET for each in addresses) else socket.AF_INET6
