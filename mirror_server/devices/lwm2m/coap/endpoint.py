"""Requests to devices and from them, whole: with their blocks, and in the words of :mod:`..exchange`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import Counter
from dataclasses import replace

from mirror_server.devices.lwm2m.coap.blocks import UploadRefused, Uploads
from mirror_server.devices.lwm2m.coap.messages import (
    Block,
    Message,
    Option,
    Type,
    code_number,
    code_text,
    uint_option,
)
from mirror_server.devices.lwm2m.coap.sessions import DtlsTransport, Keys
from mirror_server.devices.lwm2m.coap.settings import Limits, Tuning
from mirror_server.devices.lwm2m.coap.shares import Shares
from mirror_server.devices.lwm2m.coap.sockets import open_socket
from mirror_server.devices.lwm2m.coap.transmission import Transmission
from mirror_server.devices.lwm2m.exchange import (
    Counts,
    Handler,
    Method,
    NoAnswer,
    Notification,
    Observed,
    Peer,
    Request,
    Response,
    Unreachable,
)

_log = logging.getLogger(__name__)
_METHODS: dict[int, Method] = {1: "GET", 2: "POST", 3: "PUT", 4: "DELETE"}
_METHOD_CODES = {method: code for code, method in _METHODS.items()}
_CONTENT_FORMAT, _MAX_AGE, _LOCATION_PATH = map(int, (Option.CONTENT_FORMAT, Option.MAX_AGE, Option.LOCATION_PATH))
"""As numbers, for what comes by the thousand: to look up a member of an enumeration takes longer than to compare it."""
_BLOCK_BYTES = 1024
_OWN_TOKEN_BYTES = 8
_READINGS = 2
"""How often what changes while it is read is read."""
_TOO_LARGE = code_number("4.13")


class _Changed(Exception):
    """What is read changed between two of its blocks."""


class CoapEndpoint:
    """Speaks with devices on the sockets that it was given; all on one event loop."""

    def __init__(self, handler: Handler, tuning: Tuning, limits: Limits) -> None:
        self._handler = handler
        self._tuning = tuning
        self._limits = limits
        self.counts = Counts()
        self._ways: dict[bool, Transmission] = {}
        self._sessions: DtlsTransport | None = None
        self._uploads = Uploads(limits, asyncio.get_running_loop().time)
        self._answering: set[asyncio.Task[None]] = set()
        self._in_hand: Counter[Peer] = Counter()
        self._beginnings: dict[tuple[Peer, bytes], Message] = {}

    async def listen(self, address: tuple[str, int]) -> None:
        """Listen at host and port, without DTLS.

        Raises:
            CannotListen: The address is taken, or not of this machine.
        """
        way = Transmission(self, self._tuning, self._limits, self.counts, self._new_shares())
        way.transport = await open_socket(address, way, self._limits, self.counts)
        self._ways[False] = way

    async def listen_securely(self, address: tuple[str, int], keys: Keys) -> None:
        """Listen at host and port, with DTLS.

        Raises:
            CannotListen: The address is taken, or not of this machine, or what DTLS needs is not installed.
        """
        shares = self._new_shares()
        way = Transmission(self, self._tuning, self._limits, self.counts, shares)
        sessions = DtlsTransport(way, self._handler.session_ended, keys, self._limits, self.counts, shares)
        sessions.socket = await open_socket(address, sessions, self._limits, self.counts)
        way.transport = self._sessions = sessions
        self._ways[True] = way

    def _new_shares(self) -> Shares:
        return Shares(self._limits, asyncio.get_running_loop().time)

    def end_sessions(self, identity: str) -> None:
        """End the DTLS sessions of an identity, whose key is no longer good."""
        if self._sessions is not None:
            self._sessions.end_sessions(identity)

    @property
    def coap_address(self) -> tuple[str, int] | None:
        """Where it listens without DTLS: host and port."""
        return self._address(is_secure=False)

    @property
    def coaps_address(self) -> tuple[str, int] | None:
        """Where it listens with DTLS: host and port."""
        return self._address(is_secure=True)

    def _address(self, *, is_secure: bool) -> tuple[str, int] | None:
        way = self._ways.get(is_secure)
        return None if way is None else way.transport.address

    async def request(self, peer: Peer, request: Request) -> Response:
        """Ask a device; request and answer may take several blocks.

        Raises:
            NoAnswer: It did not answer in time.
            Unreachable: It cannot be asked.
        """
        async with _Patience(peer, self._tuning.answer_seconds):
            return _response(await self._whole(peer, request))

    async def observe(self, peer: Peer, request: Request, token: bytes) -> Observed:
        """Begin to observe; what comes later with this token goes to the handler.

        Raises:
            NoAnswer: It did not answer in time.
            Unreachable: It cannot be asked.
        """
        async with _Patience(peer, self._tuning.answer_seconds):
            first = await self._way(peer).ask(peer, _message(request, token, observe=0))
            sequence = first.number(Option.OBSERVE)
            try:
                whole = await self._rest(peer, request, first, token)
            except _Changed:
                whole = await self._whole(peer, request)
            return Observed(_response(whole), sequence)

    async def rest(self, peer: Peer, request: Request, token: bytes) -> Response:
        """Read the value of which the last notification with this token told the beginning.

        A client was seen to notify no more before the blocks that follow were asked for. Source: RFC 7959, 2.6.

        Raises:
            NoAnswer: It did not answer in time.
            Unreachable: It cannot be asked.
        """
        async with _Patience(peer, self._tuning.answer_seconds):
            first = self._beginnings.pop((peer, token), None)
            if first is not None:
                with contextlib.suppress(_Changed):
                    return _response(await self._rest(peer, request, first, token))
            return _response(await self._whole(peer, request))

    async def cancel(self, peer: Peer, request: Request, token: bytes) -> Response:
        """End the observation that has this token.

        Raises:
            NoAnswer: It did not answer in time.
            Unreachable: It cannot be asked.
        """
        async with _Patience(peer, self._tuning.answer_seconds):
            return _response(await self._way(peer).ask(peer, _message(request, token, observe=1)))

    def retransmit(self, peer: Peer) -> None:
        """Send again what a peer has not acknowledged, now that it is known to listen."""
        way = self._ways.get(peer.is_secure)
        if way is not None:
            way.retransmit(peer)

    async def close(self) -> None:
        """Close the sockets; what waits for an answer ends with :class:`Unreachable`."""
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)
        while self._ways:
            _, way = self._ways.popitem()
            await way.close()

    def request_arrived(self, peer: Peer, request: Message) -> None:
        """Answer a request of a device, at once or in a task of its own."""
        refusal = self._refusal(peer, request)
        if refusal is not None:
            self.counts.refused += 1
            self._way(peer).respond(peer, request, refusal)
            return
        task = asyncio.get_running_loop().create_task(self._answer(peer, request))
        self._in_hand[peer] += 1
        self._answering.add(task)
        task.add_done_callback(lambda done: self._answered(peer, done))

    def notification_arrived(self, peer: Peer, message: Message) -> bool:
        """Hand on a response that no request waits for."""
        notification = _notification(peer, message)
        try:
            is_known = self._handler.notified(notification)
        except Exception:
            _log.exception("A notification of %s was not taken", peer.address)
            return True
        if is_known and not notification.is_whole and len(message.payload) <= _BLOCK_BYTES:
            self._remember_beginning(peer, message)
        return is_known

    def notification_refused(self, peer: Peer, message: Message) -> None:
        """End the observation of a notification that is beyond the share of its peer."""
        self._handler.flooded(_notification(peer, message))

    def _remember_beginning(self, peer: Peer, message: Message) -> None:
        self._beginnings[peer, message.token] = message
        if len(self._beginnings) > self._limits.uploads:
            del self._beginnings[next(iter(self._beginnings))]

    def _way(self, peer: Peer) -> Transmission:
        try:
            return self._ways[peer.is_secure]
        except KeyError:
            kind = "coaps" if peer.is_secure else "coap"
            raise Unreachable(f"{peer.address}: this server does not listen for {kind}") from None

    async def _whole(self, peer: Peer, request: Request) -> Message:
        """Ask, and read all blocks of the answer; from the start once more if it changes meanwhile."""
        if request.method == "POST":
            # Its code says how it ended. A device that is asked for further blocks may execute it again.
            return await self._upload(peer, request, _own_token())
        for _ in range(_READINGS):
            # All of one transfer has one token: a client was seen to put blocks together by it, and to go on notifying
            # with that of the last block it gave, where the first was the answer to Observe.
            token = _own_token()
            with contextlib.suppress(_Changed):
                return await self._rest(peer, request, await self._upload(peer, request, token), token)
        raise NoAnswer(f"{peer.address}: {request.path} changes faster than it can be read")

    async def _upload(self, peer: Peer, request: Request, token: bytes) -> Message:
        """Send a request, in blocks where it is long or the device says so; gives the first message of the answer."""
        way = self._way(peer)
        size = _BLOCK_BYTES
        if len(request.payload) <= size:
            answer = await way.ask(peer, _message(request, token))
            size = _smaller_size(answer, size)
            if answer.code != _TOO_LARGE or size >= min(_BLOCK_BYTES, len(request.payload)):
                return answer
        return await self._upload_blocks(peer, request, token, size)

    async def _upload_blocks(self, peer: Peer, request: Request, token: bytes, size: int) -> Message:
        way = self._way(peer)
        offset = 0
        while True:
            end = offset + size
            block = Block(offset // size, end < len(request.payload), size)
            answer = await way.ask(peer, _message(request, token, upload=block))
            asked_size = _smaller_size(answer, size)
            if answer.code == _TOO_LARGE and asked_size < size and offset == 0:
                size = asked_size
            elif answer.code >> 5 != 2 or not block.more:
                return answer
            else:
                offset, size = end, asked_size

    async def _rest(self, peer: Peer, request: Request, first: Message, token: bytes) -> Message:
        """Read the blocks that follow the first, and put them to it."""
        block = first.block(Option.BLOCK2)
        if block is None or not block.more:
            return first
        if block.number:
            raise NoAnswer(f"{peer.address}: an answer that begins with block {block.number}")
        body = bytearray(first.payload)
        while True:
            if not first.payload or len(body) % block.size:
                raise NoAnswer(f"{peer.address}: a block of another length than it says")
            wanted = Block(len(body) // block.size, False, block.size)
            part = await self._way(peer).ask(peer, _message(request, token, download=wanted))
            block = _following(first, part, len(body), block.size)
            body += part.payload
            if len(body) > self._limits.payload_bytes:
                raise NoAnswer(f"{peer.address}: an answer of more than {self._limits.payload_bytes} bytes")
            if not block.more:
                first.payload = bytes(body)
                return first

    def _refusal(self, peer: Peer, request: Message) -> Message | None:
        if request.unknown_critical is not None:
            return _plain("4.02", f"option {request.unknown_critical} is not understood")
        if request.code not in _METHODS:
            return _plain("4.05", "GET, POST, PUT and DELETE are understood")
        if len(request.payload) > self._limits.payload_bytes:
            return _plain("4.13", f"more than {self._limits.payload_bytes} bytes")
        too_many = self._in_hand[peer] >= self._limits.requests_in_hand_of_peer
        if too_many or len(self._answering) >= self._limits.requests_in_hand:
            busy = _plain("5.03", "too many requests are being answered")
            busy.options.append(uint_option(Option.MAX_AGE, 5))
            return busy
        return None

    async def _answer(self, peer: Peer, message: Message) -> None:
        response = await self._answer_to(peer, message)
        self._way(peer).respond(peer, message, response)

    async def _answer_to(self, peer: Peer, message: Message) -> Message:
        block = message.block(Option.BLOCK1)
        try:
            request = self._request(peer, message, block)
        except UploadRefused as refused:
            self.counts.refused += 1
            response = _plain(refused.code, str(refused))
        except UnicodeDecodeError:
            self.counts.refused += 1
            response = _plain("4.00", "path or query is no UTF-8")
        except ValueError as error:
            self.counts.refused += 1
            response = _plain("4.00", str(error))
        else:
            response = _plain("2.31", "") if request is None else await self._handled(peer, request)
        cut = _cut(response, message.block(Option.BLOCK2))
        return cut if block is None else _with_block(cut, block)

    def _request(self, peer: Peer, message: Message, block: Block | None) -> Request | None:
        """What a device asks; ``None`` where more blocks of it are to come.

        Raises:
            UploadRefused: The block is not taken.
            ValueError: The path or the query is not to be understood.
        """
        if block is None:
            return _request(message, message.payload)
        request = _request(message, b"")
        whole = self._uploads.add(peer, message, block)
        return None if whole is None else replace(request, payload=whole)

    async def _handled(self, peer: Peer, request: Request) -> Message:
        try:
            async with asyncio.timeout(self._tuning.answer_seconds):
                return _answer_message(await self._handler.answer(peer, request))
        except TimeoutError:
            _log.warning("The request %s %r of %s took too long", request.method, request.path, peer.address)
            return _plain("5.03", "the answer took too long")
        except Exception:
            _log.exception("The request %s %r of %s failed", request.method, request.path, peer.address)
            return _plain("5.00", "the server failed")

    def _answered(self, peer: Peer, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        self._in_hand[peer] -= 1
        if not self._in_hand[peer]:
            del self._in_hand[peer]
        if not task.cancelled() and task.exception() is not None:
            _log.error("The answer to %s was not sent: %s", peer.address, task.exception())


class _Patience:
    """Lets what takes too long end with :class:`NoAnswer`."""

    def __init__(self, peer: Peer, seconds: float) -> None:
        self._peer = peer
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            await self._timeout.__aexit__(kind, error, None)
        except TimeoutError:
            raise NoAnswer(f"{self._peer.address}: no whole answer within {self._seconds:g} s") from None


def _own_token() -> bytes:
    """As long as can be, so that it is never one of two bytes that a device chose."""
    return secrets.token_bytes(_OWN_TOKEN_BYTES)


def _message(
    request: Request,
    token: bytes,
    *,
    observe: int | None = None,
    upload: Block | None = None,
    download: Block | None = None,
) -> Message:
    """A request as its message: whole, with the block of it that is told, or for a further block of the answer."""
    message = Message(Type.CONFIRMABLE, _METHOD_CODES[request.method], 0, token)
    if observe is not None:
        message.options.append(uint_option(Option.OBSERVE, observe))
    if request.path != "/":
        message.options += [(Option.URI_PATH, part.encode()) for part in request.path[1:].split("/")]
    message.options += [(Option.URI_QUERY, part.encode()) for part in request.query]
    if request.content_format is not None:
        message.options.append(uint_option(Option.CONTENT_FORMAT, request.content_format))
    if request.accept is not None:
        message.options.append(uint_option(Option.ACCEPT, request.accept))
    if download is not None:
        message.options.append((Option.BLOCK2, download.encode()))
        return message
    message.payload = request.payload
    if upload is not None:
        message.payload = request.payload[upload.offset : upload.offset + upload.size]
        _with_block(message, upload)
        if upload.number == 0:
            message.options.append(uint_option(Option.SIZE1, len(request.payload)))
    return message


def _request(message: Message, payload: bytes) -> Request:
    """A message as the request that it is, with the payload that is told.

    Raises:
        ValueError: Its path or its query is not to be understood.
    """
    parts = message.texts(Option.URI_PATH)
    if any("/" in part for part in parts):
        raise ValueError("a part of the path holds a slash")
    return Request(
        _METHODS[message.code],
        "/" + "/".join(parts),
        message.texts(Option.URI_QUERY),
        payload,
        message.number(Option.CONTENT_FORMAT),
        message.number(Option.ACCEPT),
    )


def _notification(peer: Peer, message: Message) -> Notification:
    block = message.block(Option.BLOCK2)
    is_whole = block is None or not (block.more or block.number)
    sequence = message.number(Option.OBSERVE)
    is_confirmable = message.type == Type.CONFIRMABLE
    return Notification(peer, message.token, sequence, _response(message), is_confirmable, is_whole)


def _response(message: Message) -> Response:
    content_format = max_age = None
    location: tuple[str, ...] = ()
    for number, value in message.options:
        if number == _CONTENT_FORMAT:
            content_format = int.from_bytes(value, "big")
        elif number == _MAX_AGE:
            max_age = int.from_bytes(value, "big")
        elif number == _LOCATION_PATH:
            location = (*location, value.decode(errors="replace"))
    return Response(code_text(message.code), message.payload, content_format, max_age, location)


def _answer_message(response: Response) -> Message:
    message = Message(Type.ACKNOWLEDGEMENT, code_number(response.code), 0, payload=response.payload)
    message.options += [(Option.LOCATION_PATH, part.encode()) for part in response.location]
    if response.content_format is not None:
        message.options.append(uint_option(Option.CONTENT_FORMAT, response.content_format))
    if response.max_age_seconds is not None:
        message.options.append(uint_option(Option.MAX_AGE, response.max_age_seconds))
    return message


def _cut(response: Message, wanted: Block | None) -> Message:
    """The block of an answer that was asked for, where it does not fit into one."""
    size = _BLOCK_BYTES if wanted is None else wanted.size
    number = 0 if wanted is None else wanted.number
    offset = number * size
    if len(response.payload) <= size and not offset:
        return response
    if offset >= len(response.payload):
        return _plain("4.02", "there is no such block")
    more = offset + size < len(response.payload)
    response.payload = response.payload[offset : offset + size]
    response.options.append((Option.BLOCK2, Block(number, more, size).encode()))
    return response


def _with_block(message: Message, block: Block) -> Message:
    message.options.append((Option.BLOCK1, block.encode()))
    return message


def _plain(code: str, text: str) -> Message:
    """A refusal, with a diagnostic payload. Source: RFC 7252, section 5.5.2."""
    return Message(Type.ACKNOWLEDGEMENT, code_number(code), 0, payload=text.encode())


def _smaller_size(answer: Message, size: int) -> int:
    """The size of blocks that a device wishes for, where it is a smaller one."""
    block = answer.block(Option.BLOCK1)
    return size if block is None else min(size, block.size)


def _following(first: Message, part: Message, offset: int, size: int) -> Block:
    """The block option of a further block.

    Raises:
        _Changed: It is of something else than the first.
    """
    block = part.block(Option.BLOCK2)
    same = all(first.first(kind) == part.first(kind) for kind in (Option.ETAG, Option.CONTENT_FORMAT))
    if block is None or part.code != first.code or not same or block.offset != offset or block.size > size:
        raise _Changed
    if block.more and len(part.payload) != block.size:
        raise _Changed
    return block
