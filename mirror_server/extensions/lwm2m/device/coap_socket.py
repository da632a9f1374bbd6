"""The socket of a device: requests to one server, and responses to its requests, with or without DTLS.

Messages, retransmissions and blocks are those of the server (:mod:`mirror_server.extensions.lwm2m.coap`). A device has
a single peer, and besides notifications, pings, and a switch to cut it off.

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
from mirror_server.extensions.lwm2m.coap.transmission import CoapExchange, MessageLayer
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
"""The only peer of a socket, whatever its address."""
_CONTINUE = code_number("2.31")
_TOKEN_BYTES = 4
_PINGS = 3
_REMEMBERED = 32
"""How many requests are known again when they come twice, and how many transfers in blocks."""
_REMEMBERED_NOTIFICATIONS = 256
_LIMITS = CoapLimits(
    payload_bytes=1 << 20,
    messages_per_second_of_peer=1_000_000,
    burst_of_peer=1_000_000,
    remembered_messages=_REMEMBERED,
    uploads=_REMEMBERED,
)
"""A device chose its server, and so has no limits for it."""
_PORTS = {"coap": COAP_PORT, "coaps": COAPS_PORT}
DEVICE_TUNING = Tuning(retransmissions=4, separate_response_seconds=93.0)
"""The values of RFC 7252, section 4.8: a device waits longer than the server, which has many of them."""
_HANDSHAKE_LOOKS_SECONDS = 0.5
_LONGEST_IDENTITY, _LONGEST_SECRET = 32, 16
_DTLS_CONNECTED = (0, 0x01DE)
_DTLS_CLOSE_NOTIFY = (1, 0)
_DTLS_FATAL = 2
_UNPROTECTED_ALERT = b"\x15\xfe\xfd\x00\x00"
"""How an alert of epoch 0 begins, as from a server that does not know the session."""
# The DTLS library keeps an address with each session, which means nothing where a socket has one peer.
_DTLS_PEER = ("::1", 1234)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a LwM2M server."""

    host: str
    port: int
    is_secure: bool = False

    @classmethod
    def parse(cls, url: str) -> ServerAddress:
        """Read ``coap://HOST[:PORT]`` or ``coaps://HOST[:PORT]``.

        Raises:
            ValueError: It is no such address.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        if parts.scheme not in _PORTS or not parts.hostname or parts.path not in {"", "/"} or parts.query:
            raise ValueError(f"{url!r} is not an address of a LwM2M server; write it like coap://127.0.0.1:5683")
        return cls(parts.hostname, _PORTS[parts.scheme] if port is None else port, parts.scheme == "coaps")

    def __str__(self) -> str:
        """The address as it is written."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'coaps' if self.is_secure else 'coap'}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PreSharedKey:
    """The pre-shared key of a device.

    Raises:
        ValueError: The identity is longer than 32 bytes, or the secret than 16; or one of them is empty.
    """

    identity: bytes
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        # DTLSSocket copies both into arrays of these sizes, however long they are.
        if not 1 <= len(self.identity) <= _LONGEST_IDENTITY:
            raise ValueError(f"an identity has 1 to {_LONGEST_IDENTITY} bytes, this one {len(self.identity)}")
        if not 1 <= len(self.secret) <= _LONGEST_SECRET:
            raise ValueError(f"a pre-shared key has 1 to {_LONGEST_SECRET} bytes, this one {len(self.secret)}")


class Incoming(NamedTuple):
    """A request of the server; ``observe`` is 0 to begin an observation, 1 to end the one of this token."""

    request: Request
    token: bytes
    observe: int | None


class DeviceHandler(Protocol):
    """Handles requests of the server; called on the event loop."""

    async def handle(self, incoming: Incoming) -> Observed | None:
        """Return the response to a whole request; ``None`` to send none."""
        ...

    def stopped(self, token: bytes) -> None:
        """The server answered a notification with a reset: it wants none with this token."""
        ...

    def undelivered(self, token: bytes) -> None:
        """A confirmable notification was not acknowledged, in spite of its retransmissions."""
        ...

    def session_ended(self) -> None:
        """The DTLS session is gone."""
        ...


class _DtlsSession:
    """DTLS with a pre-shared key over the datagrams of one socket."""

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
        """Wait for the handshake, whose messages may be lost.

        Raises:
            NoResponse: The server did not finish it in this time.
            Unreachable: The server refused it.
        """
        end_at = asyncio.get_running_loop().time() + seconds
        while not self._connected.done() and asyncio.get_running_loop().time() < end_at:
            await asyncio.wait([self._connected], timeout=min(seconds, _HANDSHAKE_LOOKS_SECONDS))
            self._dtls.checkRetransmit()
        if not self._connected.done():
            raise NoResponse(
                f"the DTLS handshake was not finished in {seconds:g} s: the server does not know this identity or key, "
                "or does not listen there"
            )
        self._connected.result()

    def handle(self, data: bytes) -> None:
        """Take a datagram.

        An alert without protection ends the session too, which the library would pass over: the server was restarted.
        Others can send one, and bring about a handshake and no more.
        """
        if self._session is None:
            return
        if self._connected.done() and data.startswith(_UNPROTECTED_ALERT):
            asyncio.get_running_loop().call_soon(self._ended)
        else:
            self._dtls.handleMessage(self._session, data)

    def failed(self, error: Exception) -> None:
        """The socket cannot send."""
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
                Unreachable(f"the server refused the DTLS handshake (alert {code}): check identity and key")
            )
        elif self._session is not None:
            asyncio.get_running_loop().call_soon(self._ended)


class _Reset(Unreachable):
    """The server answered with a reset."""


class CoapSocket(MessageLayer, asyncio.DatagramProtocol):
    """A device's socket to its server.

    Attributes:
        is_muted: While true nothing goes out and nothing comes in, as for a device without a network.
        lost: How many datagrams came meanwhile.
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
        """Open a socket of its own, on a free port.

        Raises:
            NoResponse: The DTLS handshake was not finished.
            Unreachable: The name of the server cannot be resolved, its address does not take datagrams, or it refused
                the handshake.
            ImportError: What DTLS needs is not installed.
        """
        self = cls(server, handler, tuning)
        try:
            family = await _family_of(server)
            await self._loop.create_datagram_endpoint(
                lambda: self, remote_addr=(server.host, server.port), family=family
            )
        except OSError as error:
            raise Unreachable(f"{server} cannot be reached: {error.strerror or error}") from error
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
        """The local port."""
        return int(self._datagrams.get_extra_info("sockname")[1])

    def close(self) -> None:
        """Close it; requests that wait for an answer end with :class:`Unreachable`."""
        super().close()
        for task in self._tasks:
            task.cancel()
        if self._session is not None:
            self._session.close()
        self._datagrams.close()

    async def request(self, request: Request) -> Response:
        """Send a request to the server; a large payload is sent in blocks.

        Raises:
            NoResponse: It did not answer in time.
            Unreachable: It cannot be asked.
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
        """Ping the server; return false if it did not respond three times, or the socket was closed.

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
        """Send a notification; of a large one the first block."""
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
        """Store the socket."""
        self._datagrams = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, _addr: Any) -> None:
        """Handle a datagram."""
        if self._session is None:
            self._message_received(data)
        else:
            self._session.handle(data)

    def error_received(self, exc: Exception) -> None:
        """End requests; notifications go on: the server may listen again before the last retransmission."""
        error = Unreachable(f"{self._server} cannot be reached: {exc}")
        if self._session is not None:
            self._session.failed(error)
        for exchange in list(self._exchanges.get(_SERVER.address, ())):
            if exchange.response is not None and exchange.message.code != EMPTY:
                self._end(exchange, error)

    def request_arrived(self, peer: Peer, request: Message) -> None:
        """Answer a request of the server in a task of its own."""
        task = self._loop.create_task(self._respond(peer, request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def notification_arrived(self, peer: Peer, message: Message) -> bool:  # noqa: ARG002 - as of a server
        """Reject responses without a request."""
        return False

    def notification_rejected(self, peer: Peer, message: Message) -> None:
        """Nothing is beyond the share of the server."""

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
            return f"the server did not answer in {self._tuning.separate_response_seconds:g} s"
        asked = f"the server did not answer, asked {exchange.attempts} times"
        return f"{asked}; see that it listens there, and not with coaps:// for coap://"

    def _end(self, exchange: CoapExchange, error: NoResponse | Unreachable) -> None:
        super()._end(exchange, error)
        if exchange.response is None and isinstance(error, NoResponse):
            self._handler.undelivered(exchange.message.token)

    def _exchange_acknowledged(self, exchange: CoapExchange, is_reset: bool) -> None:
        if not is_reset:
            super()._exchange_acknowledged(exchange, is_reset)
            return
        self._end(exchange, _Reset("the server answered with a reset"))
        if exchange.response is None:
            self._handler.stopped(exchange.message.token)

    def _empty_received(self, peer: Peer, message: Message) -> None:
        super()._empty_received(peer, message)
        if message.type == Type.RESET and message.message_id in self._notified:
            self._handler.stopped(self._notified[message.message_id])

    async def _respond(self, peer: Peer, message: Message) -> None:
        try:
            response = await self._respond_to(peer, message)
        except Exception:
            _log.exception("a request of the server could not be answered")
            response = error_response("5.00", "")
        if response is None:
            self._drop_acknowledgement(peer, message)
        else:
            self.respond(peer, message, response)

    async def _respond_to(self, peer: Peer, message: Message) -> Message | None:
        request = self._uploads.request(peer, message)
        if isinstance(request, Message):
            return request
        wanted = message.block(Option.BLOCK2)
        key = (request.method, request.path, request.query, request.accept)
        # A value that is read in blocks stays the same until the last block.
        observed = self._downloads.pop(key, None) if wanted is not None and wanted.number else None
        if observed is None:
            observed = await self._handler.handle(Incoming(request, message.token, message.number(Option.OBSERVE)))
        if observed is None:
            return None
        response = block_of(response_message(*observed), wanted)
        block = response.block(Option.BLOCK2)
        if block is not None and block.more:
            self._downloads[key] = Observed(observed.response, None)
            if len(self._downloads) > _REMEMBERED:
                self._downloads.popitem(last=False)
        response.options += [option for option in message.options if option[0] == Option.BLOCK1]
        return response


async def _family_of(server: ServerAddress) -> int:
    """IPv4 where the server has both kinds of address: one for this machine alone listens at 127.0.0.1.

    Nothing tells which of them is heard before something is asked there.
    """
    found = await asyncio.get_running_loop().getaddrinfo(server.host, server.port, type=socket.SOCK_DGRAM)
    return socket.AF_INET if any(each[0] == socket.AF_INET for each in found) else socket.AF_INET6
