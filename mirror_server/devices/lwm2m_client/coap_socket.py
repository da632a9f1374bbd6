"""One socket of a device: it asks one server, and answers what that server asks, with or without DTLS.

Of aiocoap only the messages are used, not its contexts: a device chooses tokens and message ids itself, answers from
the very port it registered from, and there are thousands of them in a process.

Source: RFC 7252 section 4 (message layer), RFC 7959 (block-wise transfer), RFC 7641 (Observe).
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import socket
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import urlsplit

from aiocoap import Message
from aiocoap.error import Error as MessageError
from aiocoap.numbers.codes import Code

from mirror_server.devices.lwm2m.exchange import INSTALL_DTLS, NoAnswer, Observed, Request, Response, Unreachable

_log = logging.getLogger(__name__)

_CON, _NON, _ACK, _RST = range(4)
_CHANCE = random.SystemRandom()
"""Not the generator that all of a program share, which it may have seeded."""
_EMPTY = 0
_CONTINUE = 0x5F
_BLOCK_BYTES = 1024
_BLOCK_SIZE_EXPONENT = 6
_MOST_PAYLOAD_BYTES = 1 << 20
_PINGS = 3
_REMEMBERED = 32
"""How many requests are known again when they come twice."""
_REMEMBERED_NOTIFICATIONS = 256
_PORTS = {"coap": 5683, "coaps": 5684}
_METHODS = {1: "GET", 2: "POST", 3: "PUT", 4: "DELETE"}
_METHOD_CODES = {name: number for number, name in _METHODS.items()}
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
    """Where a LwM2M server listens."""

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
            raise ValueError(f"{url!r} is no address of a LwM2M server; write it like coap://127.0.0.1:5683")
        return cls(parts.hostname, _PORTS[parts.scheme] if port is None else port, parts.scheme == "coaps")

    def __str__(self) -> str:
        """The address as it is written."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'coaps' if self.is_secure else 'coap'}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PreSharedKey:
    """What a device proves itself with.

    Raises:
        ValueError: The identity is longer than 32 bytes, or the secret than 16; or one of them is empty.
    """

    identity: bytes
    secret: bytes

    def __post_init__(self) -> None:
        # DTLSSocket copies both into arrays of these sizes, however long they are.
        if not 1 <= len(self.identity) <= _LONGEST_IDENTITY:
            raise ValueError(f"an identity has 1 to {_LONGEST_IDENTITY} bytes, this one {len(self.identity)}")
        if not 1 <= len(self.secret) <= _LONGEST_SECRET:
            raise ValueError(f"a pre-shared key has 1 to {_LONGEST_SECRET} bytes, this one {len(self.secret)}")

    def __repr__(self) -> str:
        """Without the secret."""
        return f"PreSharedKey(identity={self.identity!r})"


@dataclass(frozen=True, slots=True)
class Transmission:
    """How messages are repeated. Source: RFC 7252 section 4.8.

    Attributes:
        ack_timeout_seconds: How long the first wait for an acknowledgement is; each further one is twice as long.
        max_retransmit: How often a message is sent again.
        separate_after_seconds: After how long a request that is not answered yet is acknowledged.
        handshake_seconds: How long a DTLS handshake may take.
    """

    ack_timeout_seconds: float = 2.0
    max_retransmit: int = 4
    separate_after_seconds: float = 1.0
    handshake_seconds: float = 15.0

    @property
    def longest_wait_seconds(self) -> float:
        """The time after which nothing is waited for any more (MAX_TRANSMIT_WAIT)."""
        return self.ack_timeout_seconds * 1.5 * ((2 << self.max_retransmit) - 1)


class Incoming(NamedTuple):
    """A request of the server; ``observe`` is 0 to begin an observation, 1 to end the one of this token."""

    request: Request
    token: bytes
    observe: int | None


class Handler(Protocol):
    """Who answers the server; called on the event loop."""

    async def answer(self, incoming: Incoming) -> Observed | None:
        """Answer a request, which came whole; ``None`` to let the server wait in vain."""
        ...

    def stopped(self, token: bytes) -> None:
        """The server took a notification with a reset: it does not want what has this token."""
        ...

    def undelivered(self, token: bytes) -> None:
        """A confirmable notification was not acknowledged, however often it was sent."""
        ...

    def session_ended(self) -> None:
        """The DTLS session is gone."""
        ...


class _Channel(Protocol):
    """Datagrams to one peer."""

    port: int

    def send(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class _Datagrams(asyncio.DatagramProtocol):
    """A UDP socket that is connected to the server."""

    def __init__(self, received: Callable[[bytes], None], failed: Callable[[Exception], None]) -> None:
        self._received = received
        self._failed = failed
        self._transport: asyncio.DatagramTransport
        self.port = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, _addr: Any) -> None:
        self._received(data)

    def error_received(self, exc: Exception) -> None:
        self._failed(exc)

    def send(self, data: bytes) -> None:
        self._transport.sendto(data)

    def close(self) -> None:
        self._transport.close()


class _DtlsSession:
    """DTLS with a pre-shared key over the datagrams of one socket."""

    def __init__(
        self, datagrams: _Datagrams, key: PreSharedKey, received: Callable[[bytes], None], ended: Callable[[], None]
    ) -> None:
        try:
            from DTLSSocket import dtls  # noqa: PLC0415 - an extra
        except ImportError:
            raise ImportError(f"coaps:// needs DTLSSocket, which is not installed: {INSTALL_DTLS}") from None
        self._datagrams = datagrams
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
        self.port = datagrams.port

    async def connect(self, seconds: float) -> None:
        """Wait for the handshake, whose messages may be lost.

        Raises:
            NoAnswer: The server did not finish it in this time.
            Unreachable: The server refused it.
        """
        end_at = asyncio.get_running_loop().time() + seconds
        while not self._connected.done() and asyncio.get_running_loop().time() < end_at:
            await asyncio.wait([self._connected], timeout=min(seconds, _HANDSHAKE_LOOKS_SECONDS))
            self._dtls.checkRetransmit()
        if not self._connected.done():
            raise NoAnswer(
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
        self._datagrams.close()

    def _read(self, _peer: Any, data: bytes) -> int:
        self._received(data)
        return len(data)

    def _write(self, _peer: Any, data: bytes) -> int:
        self._datagrams.send(data)
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


class _Exchange:
    """A confirmable message that is not acknowledged yet."""

    __slots__ = ("data", "refused", "sent", "timer", "token", "wait_seconds")

    def __init__(self, data: bytes, token: bytes, wait_seconds: float) -> None:
        self.data = data
        self.token = token
        self.wait_seconds = wait_seconds
        self.sent = 1
        self.timer: asyncio.TimerHandle | None = None


class CoapSocket:
    """A device's socket to its server.

    Attributes:
        is_muted: While true nothing goes out and nothing comes in, as for a device without a network.
        lost: How many datagrams came meanwhile.
        retransmissions: How often a message was sent again.
    """

    def __init__(self, handler: Handler, transmission: Transmission) -> None:
        self._handler = handler
        self._transmission = transmission
        self._loop = asyncio.get_running_loop()
        self._channel: _Channel
        self._message_id = _CHANCE.randrange(1 << 16)
        self._exchanges: dict[int, _Exchange] = {}
        self._waiting: dict[bytes, asyncio.Future[Message]] = {}
        self._pings: dict[int, asyncio.Future[bool]] = {}
        self._notified: OrderedDict[int, bytes] = OrderedDict()
        self._answers: OrderedDict[bytes, bytes] = OrderedDict()
        self._uploads: dict[tuple[object, ...], bytearray] = {}
        self._downloads: OrderedDict[tuple[object, ...], Observed] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_muted = False
        self.lost = 0
        self.retransmissions = 0

    @classmethod
    async def open(
        cls,
        server: ServerAddress,
        handler: Handler,
        *,
        key: PreSharedKey | None = None,
        transmission: Transmission | None = None,
    ) -> CoapSocket:
        """Open a socket of its own, on a free port.

        Raises:
            NoAnswer: The DTLS handshake was not finished.
            Unreachable: The name of the server cannot be resolved, its address does not take datagrams, or it refused
                the handshake.
            ImportError: What DTLS needs is not installed.
        """
        self = cls(handler, transmission or Transmission())
        session: list[_DtlsSession] = []

        def received(data: bytes) -> None:
            session[0].handle(data) if session else self._received(data)

        def failed(error: Exception) -> None:
            unreachable = Unreachable(f"{server} cannot be reached: {error}")
            for each in session:
                each.failed(unreachable)
            self._fail_requests(unreachable)

        try:
            family = await _family_of(server)
            _, datagrams = await self._loop.create_datagram_endpoint(
                lambda: _Datagrams(received, failed), remote_addr=(server.host, server.port), family=family
            )
        except OSError as error:
            raise Unreachable(f"{server} cannot be reached: {error.strerror or error}") from error
        self._channel = datagrams
        if key is not None:
            await self._begin_dtls(datagrams, key, session)
        return self

    async def _begin_dtls(self, datagrams: _Datagrams, key: PreSharedKey, session: list[_DtlsSession]) -> None:
        try:
            dtls = _DtlsSession(datagrams, key, self._received, self._handler.session_ended)
        except ImportError:
            datagrams.close()
            raise
        session.append(dtls)
        self._channel = dtls
        try:
            await dtls.connect(self._transmission.handshake_seconds)
        except BaseException:
            dtls.close()
            raise

    @property
    def port(self) -> int:
        """The local port."""
        return self._channel.port

    def close(self) -> None:
        """Close it; requests that wait for an answer end with :class:`Unreachable`."""
        self._fail_requests(Unreachable("the device closed its socket"))
        for message_id in list(self._exchanges):
            self._end_exchange(message_id)
        for ping in self._pings.values():
            if not ping.done():
                ping.set_result(False)
        for task in self._tasks:
            task.cancel()
        self._channel.close()

    async def request(self, request: Request) -> Response:
        """Ask the server; a large payload goes block by block.

        Raises:
            NoAnswer: It did not answer in time.
            Unreachable: It cannot be asked.
        """
        blocks = range(0, max(len(request.payload), 1), _BLOCK_BYTES)
        for number, begin in enumerate(blocks):
            message = _request_message(request)
            message.payload = request.payload[begin : begin + _BLOCK_BYTES]
            if len(blocks) > 1:
                message.opt.block1 = (number, number + 1 < len(blocks), _BLOCK_SIZE_EXPONENT)
            answer = await self._exchange(message)
            if answer.code != _CONTINUE:
                break
        return _response_of(answer)

    async def _exchange(self, message: Message) -> Message:
        message.token = secrets.token_bytes(4)
        answered: asyncio.Future[Message] = self._loop.create_future()
        self._waiting[message.token] = answered
        self._send_confirmable(message)
        seconds = self._transmission.longest_wait_seconds
        try:
            async with asyncio.timeout(seconds):
                return await answered
        except TimeoutError:
            raise NoAnswer(f"the server did not answer in {seconds:g} s") from None
        finally:
            del self._waiting[message.token]
            self._end_exchange_of(message.token)

    async def ping(self) -> bool:
        """Ask whether the server is there; false where it did not answer three times, or the socket was closed.

        Source: RFC 7252 section 4.3.
        """
        answered: asyncio.Future[bool] = self._loop.create_future()
        data = self._send(Message(code=_EMPTY), _CON)
        message_id = self._message_id
        self._pings[message_id] = answered
        try:
            for number in range(_PINGS):
                if number:
                    self._put(data)
                await asyncio.wait([answered], timeout=self._transmission.ack_timeout_seconds * 2**number)
                if answered.done():
                    return answered.result()
        finally:
            del self._pings[message_id]
        return False

    def notify(self, token: bytes, response: Response, sequence: int | None, *, is_confirmable: bool) -> None:
        """Send a message that the server did not ask for just now; of a large one the first block."""
        message = _response_message(Observed(response, sequence))
        message.token = token
        if len(message.payload) > _BLOCK_BYTES:
            message.payload = response.payload[:_BLOCK_BYTES]
            message.opt.block2 = (0, True, _BLOCK_SIZE_EXPONENT)
        if is_confirmable:
            self._send_confirmable(message)
            return
        self._send(message, _NON)
        self._notified[message.mid] = token
        if len(self._notified) > _REMEMBERED_NOTIFICATIONS:
            self._notified.popitem(last=False)

    def _send_confirmable(self, message: Message) -> None:
        first_wait = self._transmission.ack_timeout_seconds * _CHANCE.uniform(1, 1.5)
        data = self._send(message, _CON)
        exchange = self._exchanges[message.mid] = _Exchange(data, message.token, first_wait)
        exchange.timer = self._loop.call_later(first_wait, self._repeat, message.mid)

    def _repeat(self, message_id: int) -> None:
        exchange = self._exchanges[message_id]
        if exchange.sent > self._transmission.max_retransmit:
            self._give_up(message_id, exchange)
            return
        self._put(exchange.data)
        self.retransmissions += 1
        exchange.sent += 1
        exchange.wait_seconds *= 2
        exchange.timer = self._loop.call_later(exchange.wait_seconds, self._repeat, message_id)

    def _give_up(self, message_id: int, exchange: _Exchange) -> None:
        del self._exchanges[message_id]
        if exchange.token in self._waiting:
            asked = f"the server did not answer, asked {exchange.sent} times"
            self._fail(
                exchange.token, NoAnswer(f"{asked}; see that it listens there, and not with coaps:// for coap://")
            )
        else:
            self._handler.undelivered(exchange.token)

    def _end_exchange(self, message_id: int) -> _Exchange | None:
        exchange = self._exchanges.pop(message_id, None)
        if exchange is not None and exchange.timer is not None:
            exchange.timer.cancel()
        return exchange

    def _end_exchange_of(self, token: bytes) -> None:
        for message_id in [each for each, exchange in self._exchanges.items() if exchange.token == token]:
            self._end_exchange(message_id)

    def _fail(self, token: bytes, error: Exception) -> None:
        answered = self._waiting.get(token)
        if answered is not None and not answered.done():
            answered.set_exception(error)

    def _fail_requests(self, error: Exception) -> None:
        # Notifications go on: where nobody listens now, somebody may before they were sent for the last time.
        for token in list(self._waiting):
            self._end_exchange_of(token)
            self._fail(token, error)

    def _send(self, message: Message, kind: int, message_id: int | None = None) -> bytes:
        if message_id is None:
            message_id = self._message_id = (self._message_id + 1) & 0xFFFF
        message.mid, message.mtype = message_id, kind
        data: bytes = message.encode()
        self._put(data)
        return data

    def _put(self, data: bytes) -> None:
        if not self.is_muted:
            self._channel.send(data)

    def _received(self, data: bytes) -> None:
        if self.is_muted:
            self.lost += 1
            return
        try:
            message = Message.decode(data)
        except (MessageError, ValueError, IndexError):
            _log.debug("what came from the server is no message of CoAP: %d bytes", len(data))
            return
        if message.code == _EMPTY:
            self._take_empty(message)
        elif message.code.is_request():
            self._take_request(message, data)
        else:
            self._take_response(message)

    def _take_empty(self, message: Message) -> None:
        if message.mtype == _CON:
            self._send(Message(code=_EMPTY), _RST, message.mid)
            return
        exchange = self._end_exchange(message.mid)
        if message.mtype != _RST:
            return
        ping = self._pings.get(message.mid)
        if ping is not None:
            if not ping.done():
                ping.set_result(True)
            return
        token = exchange.token if exchange else self._notified.get(message.mid)
        if token in self._waiting:
            self._fail(token, Unreachable("the server answered with a reset"))
        elif token is not None:
            self._handler.stopped(token)

    def _take_response(self, message: Message) -> None:
        answered = self._waiting.get(message.token)
        if message.mtype == _ACK:
            self._end_exchange(message.mid)
        elif message.mtype == _CON:
            self._send(Message(code=_EMPTY), _RST if answered is None else _ACK, message.mid)
        if answered is not None and not answered.done():
            answered.set_result(message)

    def _take_request(self, message: Message, data: bytes) -> None:
        # A repeated message is the same to the byte; a message id alone may be that of a server that started anew.
        if data in self._answers:
            if self._answers[data]:
                self._put(self._answers[data])
            return
        self._answers[data] = b""
        if len(self._answers) > _REMEMBERED:
            self._answers.popitem(last=False)
        task = self._loop.create_task(self._answer(message, data))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, message: Message, data: bytes) -> None:
        acknowledged = False

        def acknowledge() -> None:
            nonlocal acknowledged
            acknowledged = True
            self._answers[data] = self._send(Message(code=_EMPTY), _ACK, message.mid)

        wait_seconds = self._transmission.separate_after_seconds
        timer = self._loop.call_later(wait_seconds, acknowledge) if message.mtype == _CON else None
        try:
            answer = await self._answer_blocks(message)
        finally:
            if timer is not None:
                timer.cancel()
        if answer is None:
            return
        answer.token = message.token
        if message.mtype == _NON:
            self._send(answer, _NON)
        elif acknowledged:
            self._send_confirmable(answer)
        else:
            self._answers[data] = self._send(answer, _ACK, message.mid)

    async def _answer_blocks(self, message: Message) -> Message | None:
        try:
            return await self._answer_block(message)
        except UnicodeDecodeError:
            return Message(code=Code.BAD_OPTION)
        except Exception:
            _log.exception("a request of the server could not be answered")
            return Message(code=Code.INTERNAL_SERVER_ERROR)

    async def _answer_block(self, message: Message) -> Message | None:
        option = message.opt
        key = (message.code, option.uri_path, option.uri_query, option.accept)
        if option.block1 is not None:
            refusal = self._collect(message, key)
            if refusal is not None:
                return refusal
        if option.block2 is not None and option.block2.block_number and key in self._downloads:
            return self._block(message, key, self._downloads[key])
        observed = await self._handler.answer(_incoming(message))
        if observed is None:
            return None
        answer = self._block(message, key, observed)
        answer.opt.block1 = option.block1
        return answer

    def _collect(self, message: Message, key: tuple[object, ...]) -> Message | None:
        """Put the block of a request to the others; gives what to answer unless the payload is whole."""
        block = message.opt.block1
        upload = self._uploads.setdefault(key, bytearray()) if block.block_number else bytearray()
        begin = block.block_number << (block.size_exponent + 4)
        if begin != len(upload) or begin + len(message.payload) > _MOST_PAYLOAD_BYTES:
            self._uploads.pop(key, None)
            return Message(
                code=Code.REQUEST_ENTITY_INCOMPLETE if begin != len(upload) else Code.REQUEST_ENTITY_TOO_LARGE
            )
        upload += message.payload
        self._uploads[key] = upload
        if len(self._uploads) > _REMEMBERED:
            del self._uploads[next(iter(self._uploads))]
        if block.more:
            answer = Message(code=_CONTINUE)
            answer.opt.block1 = block
            return answer
        message.payload = bytes(self._uploads.pop(key))
        return None

    def _block(self, message: Message, key: tuple[object, ...], observed: Observed) -> Message:
        """The answer, or the block of it that was asked for."""
        payload = observed.response.payload
        asked = message.opt.block2
        exponent = min(asked.size_exponent, _BLOCK_SIZE_EXPONENT) if asked is not None else _BLOCK_SIZE_EXPONENT
        number, size = asked.block_number if asked is not None else 0, 16 << exponent
        answer = _response_message(observed)
        if len(payload) <= size and not number:
            return answer
        answer.payload = payload[number * size : (number + 1) * size]
        if not answer.payload:
            return Message(code=Code.BAD_OPTION)
        more = (number + 1) * size < len(payload)
        answer.opt.block2 = (number, more, exponent)
        self._downloads[key] = Observed(observed.response, None)
        if not more:
            del self._downloads[key]
        elif len(self._downloads) > _REMEMBERED:
            self._downloads.popitem(last=False)
        return answer


async def _family_of(server: ServerAddress) -> int:
    """IPv4 where the server has both kinds of address: one for this machine alone listens at 127.0.0.1.

    Nothing tells which of them is heard before something is asked there.
    """
    found = await asyncio.get_running_loop().getaddrinfo(server.host, server.port, type=socket.SOCK_DGRAM)
    return socket.AF_INET if any(each[0] == socket.AF_INET for each in found) else socket.AF_INET6


def _incoming(message: Message) -> Incoming:
    option = message.opt
    request = Request(
        _METHODS.get(int(message.code), "GET"),  # type: ignore[arg-type]
        "/" + "/".join(option.uri_path),
        tuple(option.uri_query),
        message.payload,
        None if option.content_format is None else int(option.content_format),
        None if option.accept is None else int(option.accept),
    )
    return Incoming(request, message.token, option.observe)


def _request_message(request: Request) -> Message:
    message = Message(code=_METHOD_CODES[request.method])
    message.opt.uri_path = tuple(segment for segment in request.path.split("/") if segment)
    message.opt.uri_query = request.query
    message.opt.content_format = request.content_format
    message.opt.accept = request.accept
    return message


def _response_of(message: Message) -> Response:
    content_format = message.opt.content_format
    return Response(
        message.code.dotted,
        message.payload,
        None if content_format is None else int(content_format),
        message.opt.max_age,
        tuple(message.opt.location_path),
    )


def _response_message(observed: Observed) -> Message:
    response = observed.response
    code_class, _, detail = response.code.partition(".")
    message = Message(code=int(code_class) << 5 | int(detail), payload=response.payload)
    message.opt.content_format = response.content_format
    message.opt.max_age = response.max_age_seconds
    message.opt.observe = observed.sequence
    return message
