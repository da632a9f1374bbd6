"""Whole requests to devices and from them, put together from blocks, as the types of :mod:`..exchange`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator

from mirror_server.extensions.lwm2m.coap.blocks import Uploads
from mirror_server.extensions.lwm2m.coap.limits import CoapLimits, Tuning
from mirror_server.extensions.lwm2m.coap.messages import (
    BLOCK_BYTES,
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
from mirror_server.extensions.lwm2m.coap.sessions import DtlsTransport, Keys
from mirror_server.extensions.lwm2m.coap.sockets import open_socket
from mirror_server.extensions.lwm2m.coap.transmission import MessageLayer
from mirror_server.extensions.lwm2m.transport_api import (
    Counts,
    Handler,
    NoResponse,
    Observed,
    ObserveNotification,
    Peer,
    Request,
    Response,
    Unreachable,
)

_log = logging.getLogger(__name__)
_OWN_TOKEN_BYTES = 8
_READINGS = 2
"""How often a value is read that changes meanwhile."""
_TOO_LARGE = code_number("4.13")


class _ValueChanged(Exception):
    """The value changed between two of its blocks."""


class CoapEndpoint:
    """The CoAP endpoint of the server: one socket without DTLS, one with it, or both; on one event loop."""

    def __init__(self, handler: Handler, tuning: Tuning, limits: CoapLimits) -> None:
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
        """Host and port without DTLS."""
        return self._address(is_secure=False)

    @property
    def coaps_address(self) -> tuple[str, int] | None:
        """Host and port with DTLS."""
        return self._address(is_secure=True)

    def _address(self, *, is_secure: bool) -> tuple[str, int] | None:
        way = self._ways.get(is_secure)
        return None if way is None else way.transport.address

    async def request(self, peer: Peer, request: Request) -> Response:
        """Send a request to a device; request and response may take several blocks.

        Raises:
            NoResponse: It did not respond in time.
            Unreachable: Nothing can be sent to it.
        """
        async with _patience(peer, self._tuning.response_seconds):
            return response_of(await self._whole(peer, request))

    async def observe(self, peer: Peer, request: Request, token: bytes) -> Observed:
        """Begin to observe; notifications with this token go to the handler.

        The caller chooses the token, to know it before the first notification.

        Raises:
            NoResponse: It did not respond in time.
            Unreachable: Nothing can be sent to it.
        """
        async with _patience(peer, self._tuning.response_seconds):
            first = await self._way(peer).ask(peer, request_message(request, token, observe=0))
            sequence = first.number(Option.OBSERVE)
            try:
                whole = await self._rest(peer, request, first, token)
            except _ValueChanged:
                whole = await self._whole(peer, request)
            return Observed(response_of(whole), sequence)

    async def rest(self, peer: Peer, request: Request, token: bytes) -> Response:
        """Read the value of which the last notification with this token had the first block.

        A client was seen to send no more notifications before the other blocks were requested. Source: RFC 7959, 2.6.

        Raises:
            NoResponse: It did not respond in time.
            Unreachable: Nothing can be sent to it.
        """
        async with _patience(peer, self._tuning.response_seconds):
            first = self._beginnings.pop((peer, token), None)
            if first is not None:
                with contextlib.suppress(_ValueChanged):
                    return response_of(await self._rest(peer, request, first, token))
            return response_of(await self._whole(peer, request))

    async def cancel(self, peer: Peer, request: Request, token: bytes) -> Response:
        """End the observation that has this token.

        Raises:
            NoResponse: It did not respond in time.
            Unreachable: Nothing can be sent to it.
        """
        async with _patience(peer, self._tuning.response_seconds):
            return response_of(await self._way(peer).ask(peer, request_message(request, token, observe=1)))

    def retransmit(self, peer: Peer) -> None:
        """Retransmit the requests that a peer has not acknowledged, now that it is known to listen."""
        way = self._ways.get(peer.is_secure)
        if way is not None:
            way.retransmit(peer)

    async def close(self) -> None:
        """Close the sockets; requests in flight end with :class:`Unreachable`."""
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)
        while self._ways:
            _, way = self._ways.popitem()
            way.close()
            await way.transport.close()

    def request_arrived(self, peer: Peer, request: Message) -> None:
        """Handle a request of a device in a task; reject it if there are too many."""
        too_many = self._in_hand[peer] >= self._limits.requests_in_hand_of_peer
        if too_many or len(self._answering) >= self._limits.requests_in_hand:
            self.counts.refused += 1
            busy = error_response("5.03", "too many requests are being answered")
            busy.add_number(Option.MAX_AGE, 5)
            self._way(peer).respond(peer, request, busy)
            return
        task = asyncio.get_running_loop().create_task(self._respond(peer, request))
        self._in_hand[peer] += 1
        self._answering.add(task)
        task.add_done_callback(lambda done: self._responding(peer, done))

    def notification_arrived(self, peer: Peer, message: Message) -> bool:
        """Pass a response that no request waits for to the handler."""
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

    def notification_rejected(self, peer: Peer, message: Message) -> None:
        """End the observation of a notification that is beyond the share of its peer."""
        self._handler.flooded(_notification(peer, message))

    def _way(self, peer: Peer) -> MessageLayer:
        try:
            return self._ways[peer.is_secure]
        except KeyError:
            kind = "coaps" if peer.is_secure else "coap"
            raise Unreachable(f"{peer.address}: this server does not listen for {kind}") from None

    async def _whole(self, peer: Peer, request: Request) -> Message:
        """Send a request, and read all blocks of the response; once more if the value changes meanwhile."""
        if request.method == "POST":
            # The first block has the code. A device that is asked for further blocks may execute it again.
            return await self._upload(peer, request, _own_token())
        for _ in range(_READINGS):
            # All of one transfer has one token: a client was seen to put blocks together by it, and to go on notifying
            # with that of the last block it gave, where the first was the answer to Observe.
            token = _own_token()
            with contextlib.suppress(_ValueChanged):
                return await self._rest(peer, request, await self._upload(peer, request, token), token)
        raise NoResponse(f"{peer.address}: {request.path} changes faster than it can be read")

    async def _upload(self, peer: Peer, request: Request, token: bytes) -> Message:
        """Send a request, in blocks if it is long or the device says so; return the first message of the response."""
        way = self._way(peer)
        size = BLOCK_BYTES
        if len(request.payload) <= size:
            response = await way.ask(peer, request_message(request, token))
            size = _smaller_size(response, size)
            if response.code != _TOO_LARGE or size >= min(BLOCK_BYTES, len(request.payload)):
                return response
        return await self._upload_blocks(peer, request, token, size)

    async def _upload_blocks(self, peer: Peer, request: Request, token: bytes, size: int) -> Message:
        way = self._way(peer)
        offset = 0
        while True:
            end = offset + size
            block = BlockOption(offset // size, end < len(request.payload), size)
            response = await way.ask(peer, request_message(request, token, upload=block))
            asked_size = _smaller_size(response, size)
            if response.code == _TOO_LARGE and asked_size < size and offset == 0:
                size = asked_size
            elif response.code >> 5 != 2 or not block.more:
                return response
            else:
                offset, size = end, asked_size

    async def _rest(self, peer: Peer, request: Request, first: Message, token: bytes) -> Message:
        """Read the blocks after the first, and return all as one message."""
        block = first.block(Option.BLOCK2)
        if block is None or not block.more:
            return first
        if block.number:
            raise NoResponse(f"{peer.address}: an answer that begins with block {block.number}")
        body = bytearray(first.payload)
        while True:
            if not first.payload or len(body) % block.size:
                raise NoResponse(f"{peer.address}: a block of another length than it says")
            wanted = BlockOption(len(body) // block.size, False, block.size)
            part = await self._way(peer).ask(peer, request_message(request, token, download=wanted))
            block = _following(first, part, len(body), block.size)
            body += part.payload
            if len(body) > self._limits.payload_bytes:
                raise NoResponse(f"{peer.address}: an answer of more than {self._limits.payload_bytes} bytes")
            if not block.more:
                first.payload = bytes(body)
                return first

    async def _respond(self, peer: Peer, message: Message) -> None:
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
            async with asyncio.timeout(self._tuning.response_seconds):
                return response_message(await self._handler.handle(peer, request))
        except TimeoutError:
            _log.warning("The request %s %r of %s took too long", request.method, request.path, peer.address)
            return error_response("5.03", "the answer took too long")
        except Exception:
            _log.exception("The request %s %r of %s failed", request.method, request.path, peer.address)
            return error_response("5.00", "the server failed")

    def _responding(self, peer: Peer, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        self._in_hand[peer] -= 1
        if not self._in_hand[peer]:
            del self._in_hand[peer]
        if not task.cancelled() and task.exception() is not None:
            _log.error("The answer to %s was not sent: %s", peer.address, task.exception())


@contextlib.asynccontextmanager
async def _patience(peer: Peer, seconds: float) -> AsyncIterator[None]:
    """Limit the time of a whole exchange; raises :class:`NoResponse`."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise NoResponse(f"{peer.address}: no whole answer within {seconds:g} s") from None


def _own_token() -> bytes:
    """Return a token as long as possible, so that it is never one of two bytes that a device chose."""
    return secrets.token_bytes(_OWN_TOKEN_BYTES)


def _notification(peer: Peer, message: Message) -> ObserveNotification:
    block = message.block(Option.BLOCK2)
    is_whole = block is None or not (block.more or block.number)
    sequence = message.number(Option.OBSERVE)
    is_confirmable = message.type == Type.CONFIRMABLE
    return ObserveNotification(peer, message.token, sequence, response_of(message), is_confirmable, is_whole)


def _smaller_size(response: Message, size: int) -> int:
    """Return the block size that a device asks for, if it is smaller."""
    block = response.block(Option.BLOCK1)
    return size if block is None else min(size, block.size)


def _following(first: Message, part: Message, offset: int, size: int) -> BlockOption:
    """Return the block option of a further block.

    Raises:
        _ValueChanged: It is not of the same value as the first.
    """
    block = part.block(Option.BLOCK2)
    same = all(first.first(kind) == part.first(kind) for kind in (Option.ETAG, Option.CONTENT_FORMAT))
    if block is None or part.code != first.code or not same or block.offset != offset or block.size > size:
        raise _ValueChanged
    if block.more and len(part.payload) != block.size:
        raise _ValueChanged
    return block
