"""Complete requests and responses with block-wise transfer, in the types of :mod:`..transport_api`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator

from mirror_server.extensions.lwm2m.coap.blocks import Uploads
from mirror_server.extensions.lwm2m.coap.dtls_transport import DtlsTransport, Keys
from mirror_server.extensions.lwm2m.coap.limits import CoapLimits, Tuning
from mirror_server.extensions.lwm2m.coap.message_layer import MessageLayer
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
from mirror_server.extensions.lwm2m.coap.sockets import open_socket
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
_READ_ATTEMPTS = 2
"""The maximum number of attempts to read a value that changes during the transfer."""
_TOO_LARGE = code_number("4.13")


class _ValueChanged(Exception):
    """A value changed while its blocks were being read."""


class CoapEndpoint:
    """The CoAP endpoint of the server, with a plain socket, a DTLS socket or both. It belongs to one event loop."""

    def __init__(self, handler: Handler, tuning: Tuning, limits: CoapLimits) -> None:
        self._handler = handler
        self._tuning = tuning
        self._limits = limits
        self.counts = Counts()
        self._layers: dict[bool, MessageLayer] = {}
        self._sessions: DtlsTransport | None = None
        self._uploads = Uploads(limits, asyncio.get_running_loop().time)
        self._request_tasks: set[asyncio.Task[None]] = set()
        self._in_progress: Counter[Peer] = Counter()
        self._first_blocks: dict[tuple[Peer, bytes], Message] = {}

    async def listen(self, address: tuple[str, int], keys: Keys | None = None) -> None:
        """Listen on a host and port. If there are ``keys``, the socket uses DTLS, otherwise plain CoAP.

        Raises:
            CannotListen: The address is in use or does not belong to this machine, or DTLS is not installed.
        """
        layer = MessageLayer(self, self._tuning, self._limits, self.counts)
        if keys is None:
            layer.transport = await open_socket(address, layer, self._limits, self.counts)
        else:
            sessions = DtlsTransport(layer, self._handler.session_ended, keys, self._limits, self.counts, layer.limiter)
            sessions.socket = await open_socket(address, sessions, self._limits, self.counts)
            layer.transport = self._sessions = sessions
        self._layers[keys is not None] = layer

    def end_sessions(self, identity: str) -> None:
        """End the DTLS sessions of an identity whose key is no longer valid."""
        if self._sessions is not None:
            self._sessions.end_sessions(identity)

    @property
    def coap_address(self) -> tuple[str, int] | None:
        """The host and port for CoAP without DTLS, or ``None`` without such a socket."""
        return self._address(is_secure=False)

    @property
    def coaps_address(self) -> tuple[str, int] | None:
        """The host and port for CoAP over DTLS, or ``None`` without such a socket."""
        return self._address(is_secure=True)

    def _address(self, *, is_secure: bool) -> tuple[str, int] | None:
        layer = self._layers.get(is_secure)
        return None if layer is None else layer.transport.address

    async def request(self, peer: Peer, request: Request) -> Response:
        """Send a request to a device. Both the request and the response may consist of several blocks.

        Raises:
            NoResponse: The device did not respond in time.
            Unreachable: Nothing can be sent to the device.
        """
        async with _response_timeout(peer, self._tuning.response_seconds):
            return response_of(await self._request_all_blocks(peer, request))

    async def observe(self, peer: Peer, request: Request, token: bytes) -> Observed:
        """Start an observation. The notifications with this token are passed to the handler.

        The caller chooses the token, so that it knows the token before the first notification arrives.

        Raises:
            NoResponse: The device did not respond in time.
            Unreachable: Nothing can be sent to the device.
        """
        async with _response_timeout(peer, self._tuning.response_seconds):
            first = await self._layer(peer).request_response(peer, request_message(request, token, observe=0))
            sequence = first.number(Option.OBSERVE)
            try:
                complete = await self._read_remaining_blocks(peer, request, first, token)
            except _ValueChanged:
                complete = await self._request_all_blocks(peer, request)
            return Observed(response_of(complete), sequence)

    async def read_remaining(self, peer: Peer, request: Request, token: bytes) -> Response:
        """Read the remaining blocks of a value. Its first block was in the last notification with this token.

        Call this method after each incomplete notification. At least one LwM2M client sends no further notifications
        until the remaining blocks have been requested. Source: RFC 7959, 2.6.

        Raises:
            NoResponse: The device did not respond in time.
            Unreachable: Nothing can be sent to the device.
        """
        async with _response_timeout(peer, self._tuning.response_seconds):
            first = self._first_blocks.pop((peer, token), None)
            if first is not None:
                with contextlib.suppress(_ValueChanged):
                    return response_of(await self._read_remaining_blocks(peer, request, first, token))
            return response_of(await self._request_all_blocks(peer, request))

    async def cancel(self, peer: Peer, request: Request, token: bytes) -> Response:
        """End the observation with this token.

        Raises:
            NoResponse: The device did not respond in time.
            Unreachable: Nothing can be sent to the device.
        """
        async with _response_timeout(peer, self._tuning.response_seconds):
            return response_of(
                await self._layer(peer).request_response(peer, request_message(request, token, observe=1))
            )

    def retransmit(self, peer: Peer) -> None:
        """Retransmit the unacknowledged requests to a peer that is known to listen now."""
        layer = self._layers.get(peer.is_secure)
        if layer is not None:
            layer.retransmit(peer)

    async def close(self) -> None:
        """Close the sockets. Requests in flight fail with :class:`Unreachable`."""
        for task in self._request_tasks:
            task.cancel()
        await asyncio.gather(*self._request_tasks, return_exceptions=True)
        while self._layers:
            _, layer = self._layers.popitem()
            layer.close()
            await layer.transport.close()

    def request_arrived(self, peer: Peer, request: Message) -> None:
        """Handle a request of a device in a task. Reject it if too many requests are in progress."""
        is_over_limit = self._in_progress[peer] >= self._limits.requests_in_progress_of_peer
        if is_over_limit or len(self._request_tasks) >= self._limits.requests_in_progress:
            self.counts.rejected += 1
            busy = error_response("5.03", "too many requests are in progress")
            # The number of seconds after which the device may retry. Source: RFC 7252, 5.9.3.4.
            busy.add_number(Option.MAX_AGE, 5)
            self._layer(peer).respond(peer, request, busy)
            return
        task = asyncio.get_running_loop().create_task(self._respond(peer, request))
        self._in_progress[peer] += 1
        self._request_tasks.add(task)
        task.add_done_callback(lambda done: self._request_done(peer, done))

    def notification_arrived(self, peer: Peer, message: Message) -> bool:
        """Pass a response that no request waits for to the handler, as a notification."""
        notification = _notification(peer, message)
        try:
            is_accepted = self._handler.notified(notification)
        except Exception:
            _log.exception("Processing a notification of %s failed", peer.address)
            # The server has failed, not the device. A reset would end the observation.
            return True
        if is_accepted and not notification.is_complete and len(message.payload) <= BLOCK_BYTES:
            self._first_blocks[peer, message.token] = message
            if len(self._first_blocks) > self._limits.uploads:
                del self._first_blocks[next(iter(self._first_blocks))]
        return is_accepted

    def notification_rejected(self, peer: Peer, message: Message) -> None:
        """End the observation of a notification, because its peer is above the rate limit."""
        self._handler.rate_exceeded(_notification(peer, message))

    def _layer(self, peer: Peer) -> MessageLayer:
        try:
            return self._layers[peer.is_secure]
        except KeyError:
            kind = "coaps" if peer.is_secure else "coap"
            raise Unreachable(f"{peer.address}: this server does not listen for {kind}") from None

    async def _request_all_blocks(self, peer: Peer, request: Request) -> Message:
        """Send a request and read all blocks of the response. Start again if the value changes in the meantime."""
        if request.method == "POST":
            # The first block has the response code. Requesting further blocks may make a device execute the request
            # again.
            return await self._upload(peer, request, _new_token())
        for _ in range(_READ_ATTEMPTS):
            # A complete transfer has one token, because one client was observed to reassemble blocks by token. After
            # the response to Observe, that client also sent its notifications with the token of the last block.
            token = _new_token()
            with contextlib.suppress(_ValueChanged):
                return await self._read_remaining_blocks(peer, request, await self._upload(peer, request, token), token)
        raise NoResponse(f"{peer.address}: {request.path} changes faster than it can be read")

    async def _upload(self, peer: Peer, request: Request, token: bytes) -> Message:
        """Send a request, in blocks if it is long or the device requires it. Return the first block of the response."""
        layer = self._layer(peer)
        size = BLOCK_BYTES
        if len(request.payload) <= size:
            response = await layer.request_response(peer, request_message(request, token))
            size = _smaller_size(response, size)
            # A 4.13 response with a smaller block size requests the payload in blocks of that size. Source: RFC 7959,
            # 2.9.3.
            if response.code != _TOO_LARGE or size >= min(BLOCK_BYTES, len(request.payload)):
                return response
        return await self._upload_blocks(peer, request, token, size)

    async def _upload_blocks(self, peer: Peer, request: Request, token: bytes, size: int) -> Message:
        layer = self._layer(peer)
        offset = 0
        while True:
            end = offset + size
            block = BlockOption(offset // size, end < len(request.payload), size)
            response = await layer.request_response(peer, request_message(request, token, upload=block))
            requested_size = _smaller_size(response, size)
            if response.code == _TOO_LARGE and requested_size < size and offset == 0:
                size = requested_size
            elif response.code >> 5 != 2 or not block.more:
                return response
            else:
                # Block sizes are powers of two, so a block of the smaller size can also start at ``end``.
                offset, size = end, requested_size

    async def _read_remaining_blocks(self, peer: Peer, request: Request, first: Message, token: bytes) -> Message:
        """Read all blocks after the first one. Return one message that contains all blocks."""
        block = first.block(Option.BLOCK2)
        if block is None or not block.more:
            return first
        if block.number:
            raise NoResponse(f"{peer.address}: the response starts with block {block.number}")
        body = bytearray(first.payload)
        while True:
            if not first.payload or len(body) % block.size:
                raise NoResponse(f"{peer.address}: a block does not have the length that it declares")
            requested = BlockOption(len(body) // block.size, False, block.size)
            message = await self._layer(peer).request_response(
                peer, request_message(request, token, download=requested)
            )
            block = _next_block(first, message, len(body), block.size)
            body += message.payload
            if len(body) > self._limits.payload_bytes:
                raise NoResponse(f"{peer.address}: the response has more than {self._limits.payload_bytes} bytes")
            if not block.more:
                first.payload = bytes(body)
                return first

    async def _respond(self, peer: Peer, message: Message) -> None:
        request = self._uploads.request(peer, message)
        if isinstance(request, Message):
            response = request
            self.counts.rejected += response.code >> 5 > 2
        else:
            response = block_of(await self._handled(peer, request), message.block(Option.BLOCK2))
            # The response to the last block repeats its Block1 option. Source: RFC 7959, 2.3.
            response.options += [option for option in message.options if option[0] == Option.BLOCK1]
        self._layer(peer).respond(peer, message, response)

    async def _handled(self, peer: Peer, request: Request) -> Message:
        try:
            async with asyncio.timeout(self._tuning.response_seconds):
                return response_message(await self._handler.handle(peer, request))
        except TimeoutError:
            _log.warning("The request %s %r of %s took too long", request.method, request.path, peer.address)
            return error_response("5.03", "the response took too long")
        except Exception:
            _log.exception("The request %s %r of %s failed", request.method, request.path, peer.address)
            return error_response("5.00", "the server failed")

    def _request_done(self, peer: Peer, task: asyncio.Task[None]) -> None:
        self._request_tasks.discard(task)
        self._in_progress[peer] -= 1
        if not self._in_progress[peer]:
            del self._in_progress[peer]
        if not task.cancelled() and task.exception() is not None:
            _log.error("The response to %s was not sent: %s", peer.address, task.exception())


@contextlib.asynccontextmanager
async def _response_timeout(peer: Peer, seconds: float) -> AsyncIterator[None]:
    """Limit the time of a complete exchange. If it takes longer, :class:`NoResponse` is raised."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise NoResponse(f"{peer.address}: no complete response within {seconds:g} s") from None


def _new_token() -> bytes:
    """Return a random token of the maximum length. It cannot be the same as a two-byte token of a device."""
    return secrets.token_bytes(_OWN_TOKEN_BYTES)


def _notification(peer: Peer, message: Message) -> ObserveNotification:
    block = message.block(Option.BLOCK2)
    is_complete = block is None or not (block.more or block.number)
    sequence = message.number(Option.OBSERVE)
    is_confirmable = message.type == Type.CONFIRMABLE
    return ObserveNotification(peer, message.token, sequence, response_of(message), is_confirmable, is_complete)


def _smaller_size(response: Message, size: int) -> int:
    """Return the block size that a device requests, or the current size if that is not larger."""
    block = response.block(Option.BLOCK1)
    return size if block is None else min(size, block.size)


def _next_block(first: Message, message: Message, offset: int, size: int) -> BlockOption:
    """Return the block option of the next block.

    Raises:
        _ValueChanged: The block does not belong to the same value as the first block.
    """
    block = message.block(Option.BLOCK2)
    is_same_value = all(first.first(kind) == message.first(kind) for kind in (Option.ETAG, Option.CONTENT_FORMAT))
    if block is None or message.code != first.code or not is_same_value or block.offset != offset or block.size > size:
        raise _ValueChanged
    if block.more and len(message.payload) != block.size:
        raise _ValueChanged
    return block
