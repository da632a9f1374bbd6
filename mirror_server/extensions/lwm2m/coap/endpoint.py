"""Requests to devices and from them, whole: with their blocks, and in the words of :mod:`..exchange`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator

from mirror_server.extensions.lwm2m.coap.blocks import Uploads
from mirror_server.extensions.lwm2m.coap.limits import Limits, Tuning
from mirror_server.extensions.lwm2m.coap.messages import (
    BLOCK_BYTES,
    Block,
    Message,
    Option,
    Type,
    block_of,
    code_number,
    refusal,
    request_message,
    response_message,
    response_of,
)
from mirror_server.extensions.lwm2m.coap.sessions import DtlsTransport, Keys
from mirror_server.extensions.lwm2m.coap.sockets import open_socket
from mirror_server.extensions.lwm2m.coap.transmission import MessageLayer
from mirror_server.extensions.lwm2m.exchange import (
    Counts,
    Handler,
    NoAnswer,
    Notification,
    Observed,
    Peer,
    Request,
    Response,
    Unreachable,
)

_log = logging.getLogger(__name__)
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
        self._ways: dict[bool, MessageLayer] = {}
        self._sessions: DtlsTransport | None = None
        self._uploads = Uploads(limits, asyncio.get_running_loop().time)
        self._answering: set[asyncio.Task[None]] = set()
        self._in_hand: Counter[Peer] = Counter()
        self._beginnings: dict[tuple[Peer, bytes], Message] = {}

    async def listen(self, address: tuple[str, int], keys: Keys | None = None) -> None:
        """Listen at host and port, with these keys by DTLS, otherwise without it.

        Raises:
            CannotListen: The address is taken, or not of this machine, or what DTLS needs is not installed.
        """
        way = MessageLayer(self, self._tuning, self._limits, self.counts)
        if keys is None:
            way.transport = await open_socket(address, way, self._limits, self.counts)
        else:
            sessions = DtlsTransport(way, self._handler.session_ended, keys, self._limits, self.counts, way.shares)
            sessions.socket = await open_socket(address, sessions, self._limits, self.counts)
            way.transport = self._sessions = sessions
        self._ways[keys is not None] = way

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
        async with _patience(peer, self._tuning.answer_seconds):
            return response_of(await self._whole(peer, request))

    async def observe(self, peer: Peer, request: Request, token: bytes) -> Observed:
        """Begin to observe; what comes later with this token goes to the handler.

        The token is chosen by the caller, who knows it before anything can come with it.

        Raises:
            NoAnswer: It did not answer in time.
            Unreachable: It cannot be asked.
        """
        async with _patience(peer, self._tuning.answer_seconds):
            first = await self._way(peer).ask(peer, request_message(request, token, observe=0))
            sequence = first.number(Option.OBSERVE)
            try:
                whole = await self._rest(peer, request, first, token)
            except _Changed:
                whole = await self._whole(peer, request)
            return Observed(response_of(whole), sequence)

    async def rest(self, peer: Peer, request: Request, token: bytes) -> Response:
        """Read the value of which the last notification with this token told the beginning.

        A client was seen to notify no more before the blocks that follow were asked for. Source: RFC 7959, 2.6.

        Raises:
            NoAnswer: It did not answer in time.
            Unreachable: It cannot be asked.
        """
        async with _patience(peer, self._tuning.answer_seconds):
            first = self._beginnings.pop((peer, token), None)
            if first is not None:
                with contextlib.suppress(_Changed):
                    return response_of(await self._rest(peer, request, first, token))
            return response_of(await self._whole(peer, request))

    async def cancel(self, peer: Peer, request: Request, token: bytes) -> Response:
        """End the observation that has this token.

        Raises:
            NoAnswer: It did not answer in time.
            Unreachable: It cannot be asked.
        """
        async with _patience(peer, self._tuning.answer_seconds):
            return response_of(await self._way(peer).ask(peer, request_message(request, token, observe=1)))

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
            way.close()
            await way.transport.close()

    def request_arrived(self, peer: Peer, request: Message) -> None:
        """Answer a request of a device, at once or in a task of its own."""
        too_many = self._in_hand[peer] >= self._limits.requests_in_hand_of_peer
        if too_many or len(self._answering) >= self._limits.requests_in_hand:
            self.counts.refused += 1
            busy = refusal("5.03", "too many requests are being answered")
            busy.add_number(Option.MAX_AGE, 5)
            self._way(peer).respond(peer, request, busy)
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
        if is_known and not notification.is_whole and len(message.payload) <= BLOCK_BYTES:
            self._beginnings[peer, message.token] = message
            if len(self._beginnings) > self._limits.uploads:
                del self._beginnings[next(iter(self._beginnings))]
        return is_known

    def notification_refused(self, peer: Peer, message: Message) -> None:
        """End the observation of a notification that is beyond the share of its peer."""
        self._handler.flooded(_notification(peer, message))

    def _way(self, peer: Peer) -> MessageLayer:
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
        size = BLOCK_BYTES
        if len(request.payload) <= size:
            answer = await way.ask(peer, request_message(request, token))
            size = _smaller_size(answer, size)
            if answer.code != _TOO_LARGE or size >= min(BLOCK_BYTES, len(request.payload)):
                return answer
        return await self._upload_blocks(peer, request, token, size)

    async def _upload_blocks(self, peer: Peer, request: Request, token: bytes, size: int) -> Message:
        way = self._way(peer)
        offset = 0
        while True:
            end = offset + size
            block = Block(offset // size, end < len(request.payload), size)
            answer = await way.ask(peer, request_message(request, token, upload=block))
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
            part = await self._way(peer).ask(peer, request_message(request, token, download=wanted))
            block = _following(first, part, len(body), block.size)
            body += part.payload
            if len(body) > self._limits.payload_bytes:
                raise NoAnswer(f"{peer.address}: an answer of more than {self._limits.payload_bytes} bytes")
            if not block.more:
                first.payload = bytes(body)
                return first

    async def _answer(self, peer: Peer, message: Message) -> None:
        request = self._uploads.request(peer, message)
        if isinstance(request, Message):
            response = request
            self.counts.refused += response.code >> 5 > 2
        else:
            response = block_of(await self._handled(peer, request), message.block(Option.BLOCK2))
            response.options += [option for option in message.options if option[0] == Option.BLOCK1]
        self._way(peer).respond(peer, message, response)

    async def _handled(self, peer: Peer, request: Request) -> Message:
        try:
            async with asyncio.timeout(self._tuning.answer_seconds):
                return response_message(await self._handler.answer(peer, request))
        except TimeoutError:
            _log.warning("The request %s %r of %s took too long", request.method, request.path, peer.address)
            return refusal("5.03", "the answer took too long")
        except Exception:
            _log.exception("The request %s %r of %s failed", request.method, request.path, peer.address)
            return refusal("5.00", "the server failed")

    def _answered(self, peer: Peer, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        self._in_hand[peer] -= 1
        if not self._in_hand[peer]:
            del self._in_hand[peer]
        if not task.cancelled() and task.exception() is not None:
            _log.error("The answer to %s was not sent: %s", peer.address, task.exception())


@contextlib.asynccontextmanager
async def _patience(peer: Peer, seconds: float) -> AsyncIterator[None]:
    """Let what takes too long end with :class:`NoAnswer`."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise NoAnswer(f"{peer.address}: no whole answer within {seconds:g} s") from None


def _own_token() -> bytes:
    """As long as can be, so that it is never one of two bytes that a device chose."""
    return secrets.token_bytes(_OWN_TOKEN_BYTES)


def _notification(peer: Peer, message: Message) -> Notification:
    block = message.block(Option.BLOCK2)
    is_whole = block is None or not (block.more or block.number)
    sequence = message.number(Option.OBSERVE)
    is_confirmable = message.type == Type.CONFIRMABLE
    return Notification(peer, message.token, sequence, response_of(message), is_confirmable, is_whole)


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
