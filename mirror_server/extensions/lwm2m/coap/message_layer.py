"""The message layer of CoAP: acknowledgements, retransmissions, resets, and detection of duplicates.

The server has one message layer for each socket. Each device of :mod:`mirror_server.extensions.lwm2m.device` has one,
too.

Source: RFC 7252, section 4; RFC 7641.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Protocol

from mirror_server.extensions.lwm2m.coap.limits import AddressRateLimiter, CoapLimits, Tuning
from mirror_server.extensions.lwm2m.coap.messages import (
    EMPTY,
    Message,
    NotCoap,
    Option,
    Type,
    decode,
    is_request,
    is_response,
)
from mirror_server.extensions.lwm2m.coap.sockets import Transport
from mirror_server.extensions.lwm2m.transport_api import Counts, NoResponse, Peer, Unreachable

_log = logging.getLogger(__name__)
_RNG = random.SystemRandom()
"""A separate generator, because the program may have seeded the generator of the module ``random``."""
_RESETS_SECONDS = 0.1
"""The interval at which one message above a rate limit is parsed and reset.

Resetting every message would cost more than handling it.
"""
_LEAST_ACKNOWLEDGEMENT = bytes([1 << 6 | Type.ACKNOWLEDGEMENT << 4])
"""The first byte of an acknowledgement without a token. The first byte of a reset is larger."""
_LINE_SECONDS = 10.0
"""The minimum time between two warnings about devices above their rate limit."""


class MessageHandler(Protocol):
    """The interface of the layer for requests and responses, which is above the message layer."""

    def request_arrived(self, peer: Peer, request: Message) -> None:
        """Handle a new request."""
        ...

    def notification_arrived(self, peer: Peer, message: Message) -> bool:
        """Handle a response that no request waits for. Return ``False`` to send a reset, which stops the sender."""
        ...

    def notification_rejected(self, peer: Peer, message: Message) -> None:
        """End the observation of a notification, because its peer is above the rate limit."""
        ...


@dataclass(slots=True, eq=False)
class CoapExchange:
    """A confirmable message in flight. If the message is a request, the exchange has a ``response`` future.

    Attributes:
        attempts: The number of transmissions so far.
        retransmissions_left: The remaining number of retransmissions by the timer.
        contacts_left: The remaining number of retransmissions because the peer has made contact.
        sent_at: The time of the last transmission, by the clock of the event loop.
        is_sole: Whether the message was sent only once, and nothing else has been sent to the peer since then.
    """

    peer: Peer
    message: Message
    datagram: bytes
    response: asyncio.Future[Message] | None
    wait_seconds: float
    retransmissions_left: int
    contacts_left: int
    attempts: int = 0
    sent_at: float = 0.0
    is_sole: bool = False
    acknowledged: bool = False
    timer: asyncio.TimerHandle = field(init=False)


@dataclass(slots=True)
class _ReceivedMessage:
    """A received message that is remembered to recognize duplicates.

    A duplicate consists of the same bytes from the same peer. The bytes are compared because a restarted device may
    reuse message ids. The peer is compared because a device with a new DTLS session is a different peer.

    Attributes:
        peer: The sender. Each session has its own peer object.
        datagram: The hash of the datagram.
        until: The time at which the message is forgotten, by the clock of the event loop.
        response: The response, or ``None`` until it has been sent.
    """

    peer: Peer
    datagram: int
    until: float
    response: bytes | None = None


_Key = tuple[str, int, bytes]


def _key(peer: Peer, message: Message) -> _Key:
    """Return the key under which a message is remembered to find duplicates.

    The key includes the token, because a restarted device may reuse message ids for new messages.
    """
    return peer.address, message.message_id, message.token


class MessageLayer:
    """The messages of one socket.

    Attributes:
        limiter: The rate limits per address. Messages above the limits are dropped.
    """

    def __init__(self, upper: MessageHandler, tuning: Tuning, limits: CoapLimits, counts: Counts) -> None:
        self._upper = upper
        self._reset_at = self._logged_at = -math.inf
        self._tuning = tuning
        self._limits = limits
        self._counts = counts
        self._loop = asyncio.get_running_loop()
        self.limiter = AddressRateLimiter(limits, self._loop.time)
        # The first id is random. Otherwise, peers could mistake messages after a restart for duplicates. Random ids are
        # also hard to guess. Source: RFC 7252, 4.4.
        self._next_message_id = secrets.randbelow(0x10000)
        self._exchanges: dict[str, list[CoapExchange]] = {}
        self._received: OrderedDict[_Key, _ReceivedMessage] = OrderedDict()
        self._unacknowledged: dict[_Key, asyncio.TimerHandle] = {}
        self.transport: Transport

    def received(self, peer: Peer, datagram: bytes) -> None:
        """Handle a datagram."""
        # Above the rate limit, a message is parsed only if it may be an acknowledgement or reset for a request of this
        # server.
        if not self.limiter.consume(peer.address) and (
            # This is a slice, because a datagram may be empty.
            peer.address not in self._exchanges or datagram[0:1] < _LEAST_ACKNOWLEDGEMENT
        ):
            self._drop_excess(peer, datagram)
            return
        try:
            message = decode(datagram)
        except NotCoap as error:
            self._reject(peer, error.message_id)
            return
        if is_response(message.code):
            self._response_received(peer, message, datagram)
        elif is_request(message.code) and message.type in (Type.CONFIRMABLE, Type.NON_CONFIRMABLE):
            self._request_received(peer, message, datagram)
        elif message.code == EMPTY and message.type in (Type.ACKNOWLEDGEMENT, Type.RESET):
            self._empty_received(peer, message)
        else:  # a ping, or an undefined code
            self._reject(peer, message.message_id if message.type == Type.CONFIRMABLE else None)

    def _drop_excess(self, peer: Peer, datagram: bytes) -> None:
        """Drop a message above the rate limit of its peer. Only some of these messages are reset and logged."""
        self._counts.dropped += 1
        now = self._loop.time()
        if now - self._logged_at >= _LINE_SECONDS:
            self._logged_at = now
            _log.warning(
                "%s sends more than %d messages per second; the excess is dropped (%d datagrams dropped so far)",
                peer.address,
                self._limits.messages_per_second_of_peer,
                self._counts.dropped,
            )
        if now - self._reset_at >= _RESETS_SECONDS:
            self._reset_at = now
            self._reset_notification(peer, datagram)

    def _reset_notification(self, peer: Peer, datagram: bytes) -> None:
        """Respond to a notification with a reset, which ends the observation. Source: RFC 7641, section 3.6."""
        try:
            message = decode(datagram)
        except NotCoap:
            return
        if is_response(message.code) and message.type in (Type.CONFIRMABLE, Type.NON_CONFIRMABLE):
            self._upper.notification_rejected(peer, message)
            self._reject(peer, message.message_id)

    def failed(self, peer: Peer, reason: str) -> None:
        """End the exchanges with a peer that cannot be reached."""
        for exchange in list(self._exchanges.get(peer.address, ())):
            # The error of a closed port does not identify the datagram. It belongs to this request for certain only if
            # nothing else was sent to the peer. A DTLS session may end at any time, so its end proves nothing.
            may_have_arrived = peer.is_secure or exchange.acknowledged or not exchange.is_sole
            self._end(exchange, Unreachable(f"{peer.address}: {reason}", may_have_arrived=may_have_arrived))

    def retransmit(self, peer: Peer) -> None:
        """Retransmit the unacknowledged requests to a peer that has just made contact, so that it listens now.

        A device in queue mode may fall asleep again before the timer retransmits. If a request was sent recently, it is
        retransmitted after a short delay, so that a burst of messages does not cause a burst of retransmissions.
        """
        moment = self._tuning.ack_timeout_seconds / 2
        for exchange in self._exchanges.get(peer.address, ()):
            due_at = exchange.sent_at + moment
            is_waiting = exchange.response is not None and not exchange.acknowledged and due_at < exchange.timer.when()
            if is_waiting and exchange.contacts_left:
                exchange.contacts_left -= 1
                # The peer listens now, so the attempts start again. The first one is at ``due_at``, and the others
                # follow as usual.
                exchange.retransmissions_left, exchange.wait_seconds = self._tuning.retransmissions + 1, moment
                exchange.timer.cancel()
                exchange.timer = self._loop.call_at(due_at, self._retransmit_or_fail, exchange)

    async def request_response(self, peer: Peer, request: Message, *, retransmissions: int | None = None) -> Message:
        """Send a request or a ping, and wait for its response. ``retransmissions`` overrides the tuning.

        Raises:
            NoResponse: No response arrived in time.
            Unreachable: The request cannot be sent, or the peer sent a reset.
        """
        response: asyncio.Future[Message] = self._loop.create_future()
        self._counts.requests_sent += 1
        exchange = self._start(peer, request, response, retransmissions)
        try:
            return await response
        finally:
            self._forget(exchange)

    def respond(self, peer: Peer, request: Message, response: Message) -> None:
        """Send the response to a request, in the acknowledgement or separately if that was already sent."""
        self._counts.responses_sent += 1
        response.token = request.token
        if self._drop_acknowledgement(peer, request):
            response.type, response.message_id = Type.ACKNOWLEDGEMENT, request.message_id
        elif request.type == Type.NON_CONFIRMABLE:
            response.type, response.message_id = Type.NON_CONFIRMABLE, self._new_message_id()
        else:
            self._start(peer, response)
            return
        self._send_and_remember(peer, request, response)

    def close(self) -> None:
        """End all exchanges. The caller must close the socket."""
        for exchanges in list(self._exchanges.values()):
            for exchange in list(exchanges):
                self._end(exchange, Unreachable("the socket is closed", may_have_arrived=True))
        for timer in self._unacknowledged.values():
            timer.cancel()
        self._unacknowledged.clear()

    def _start(
        self,
        peer: Peer,
        message: Message,
        response: asyncio.Future[Message] | None = None,
        retransmissions: int | None = None,
    ) -> CoapExchange:
        message.type, message.message_id = Type.CONFIRMABLE, self._new_message_id()
        random_factor = _RNG.uniform(1, self._tuning.ack_random_factor)  # so that not all retransmit at the same time
        wait = self._tuning.ack_timeout_seconds * random_factor
        retransmissions = self._tuning.retransmissions if retransmissions is None else retransmissions
        exchange = CoapExchange(peer, message, message.encode(), response, wait, retransmissions, retransmissions)
        self._exchanges.setdefault(peer.address, []).append(exchange)
        # The timer is set before the transmission, because a transmission that fails cancels the timer.
        exchange.timer = self._loop.call_later(wait, self._retransmit_or_fail, exchange)
        self._transmit(exchange)
        return exchange

    def _transmit(self, exchange: CoapExchange) -> None:
        self._clear_sole(exchange.peer)
        exchange.attempts += 1
        exchange.sent_at, exchange.is_sole = self._loop.time(), exchange.attempts == 1
        try:
            self._put(exchange.peer, exchange.datagram)
        except Unreachable as error:
            # Nothing was sent this time, but an earlier transmission may have arrived.
            error.may_have_arrived = exchange.attempts > 1
            self._end(exchange, error)

    def _retransmit_or_fail(self, exchange: CoapExchange) -> None:
        # After an acknowledgement, the timer limits the time for the separate response.
        if exchange.acknowledged or not exchange.retransmissions_left:
            self._end(exchange, NoResponse(self._timeout_reason(exchange)))
            return
        exchange.retransmissions_left -= 1
        exchange.wait_seconds *= 2
        exchange.timer = self._loop.call_later(exchange.wait_seconds, self._retransmit_or_fail, exchange)
        self._counts.retransmissions += 1
        self._transmit(exchange)

    def _timeout_reason(self, exchange: CoapExchange) -> str:
        if exchange.acknowledged:
            return f"{exchange.peer.address}: the request was acknowledged, but got no response"
        return f"{exchange.peer.address}: no response to {exchange.attempts} transmissions"

    def _end(self, exchange: CoapExchange, error: NoResponse | Unreachable) -> None:
        """End one exchange without a response. Other exchanges with the peer continue."""
        self._forget(exchange)
        if isinstance(error, NoResponse):
            self._counts.unanswered += 1
        else:
            self._counts.unreachable += 1
        if exchange.response is not None and not exchange.response.done():
            exchange.response.set_exception(error)

    def _forget(self, exchange: CoapExchange) -> None:
        exchange.timer.cancel()
        exchanges = self._exchanges.get(exchange.peer.address)
        if exchanges is not None and exchange in exchanges:
            exchanges.remove(exchange)
            if not exchanges:
                del self._exchanges[exchange.peer.address]

    def _response_received(self, peer: Peer, message: Message, datagram: bytes) -> None:
        if message.type == Type.CONFIRMABLE and self._is_duplicate(peer, message, datagram):
            return
        exchange = self._waiting_for(peer, message)
        if exchange is not None and message.unknown_critical is not None:
            reason = f"{peer.address}: its response has the unsupported option {message.unknown_critical}"
            self._end(exchange, NoResponse(reason))
            # This is handled like an unexpected response, which sends the reset that RFC 7252, 5.4.1, requires.
            exchange = None
        if exchange is None:
            self._notification_received(peer, message)
            return
        self._counts.responses_received += 1
        if message.type == Type.CONFIRMABLE:
            self._remember(peer, message, datagram)
            self._acknowledge(peer, message)
        self._forget(exchange)
        if exchange.response is not None and not exchange.response.done():
            exchange.response.set_result(message)

    def _waiting_for(self, peer: Peer, message: Message) -> CoapExchange | None:
        for exchange in self._exchanges.get(peer.address, ()):
            request = exchange.message
            if exchange.response is None or not _is_response_to(message, request):
                continue
            # Only a response within an acknowledgement has the message id of the request. Source: RFC 7252, 5.2.
            if message.type != Type.ACKNOWLEDGEMENT:
                return None if _is_late_notification(message, request) else exchange
            if request.message_id == message.message_id:
                return exchange
        return None

    def _notification_received(self, peer: Peer, message: Message) -> None:
        if message.type == Type.ACKNOWLEDGEMENT:
            self._counts.dropped += 1
        elif message.unknown_critical is None and self._upper.notification_arrived(peer, message):
            self._counts.notifications_received += 1
            if message.type == Type.CONFIRMABLE:
                self._acknowledge(peer, message)
        else:
            self._reject(peer, message.message_id)

    def _is_duplicate(self, peer: Peer, message: Message, datagram: bytes) -> bool:
        """Return whether a message is a duplicate. If it is, send the response again."""
        earlier = self._received.get(_key(peer, message))
        # The socket always returns the same peer object for an address. DTLS returns a new peer object for each
        # session.
        if earlier is None or earlier.peer is not peer or earlier.datagram != hash(datagram):
            return False
        if earlier.until <= self._loop.time():
            return False
        self._counts.duplicates += 1
        if earlier.response is not None:
            self._send(peer, earlier.response)
        return True

    def _empty_received(self, peer: Peer, message: Message) -> None:
        is_reset = message.type == Type.RESET
        if is_reset:
            self._counts.resets_received += 1
        else:
            self._counts.acknowledgements_received += 1
        for exchange in self._exchanges.get(peer.address, ()):
            # An empty message has no token.
            if exchange.message.message_id == message.message_id:
                self._exchange_acknowledged(exchange, is_reset)
                return

    def _exchange_acknowledged(self, exchange: CoapExchange, is_reset: bool) -> None:
        if is_reset:
            reason = f"{exchange.peer.address} rejected the request with a reset"
            may_have_arrived = exchange.acknowledged or exchange.attempts > 1
            self._end(exchange, Unreachable(reason, may_have_arrived=may_have_arrived))
        elif exchange.response is None:
            # The message was a separate response. This acknowledgement ends its exchange.
            self._forget(exchange)
        elif not exchange.acknowledged:
            exchange.acknowledged = True
            exchange.timer.cancel()
            wait = self._tuning.separate_response_seconds
            exchange.timer = self._loop.call_later(wait, self._retransmit_or_fail, exchange)

    def _request_received(self, peer: Peer, request: Message, datagram: bytes) -> None:
        if self._is_duplicate(peer, request, datagram):
            return
        self._counts.requests_received += 1
        # Remember the request before it is handled, because an immediate response is stored with the request.
        self._remember(peer, request, datagram)
        if request.type == Type.CONFIRMABLE:
            # A restarted device may reuse the message id and the token. If two timers had the same key, the second
            # would fail.
            self._drop_acknowledgement(peer, request)
            timer = self._loop.call_later(self._tuning.empty_ack_seconds, self._acknowledge_request, peer, request)
            self._unacknowledged[_key(peer, request)] = timer
        self._upper.request_arrived(peer, request)

    def _drop_acknowledgement(self, peer: Peer, request: Message) -> bool:
        """Cancel the empty acknowledgement of a request. Return whether it had not been sent yet."""
        timer = self._unacknowledged.pop(_key(peer, request), None)
        if timer is None:
            return False
        timer.cancel()
        return True

    def _acknowledge_request(self, peer: Peer, request: Message) -> None:
        """Send the empty acknowledgement of a request whose response takes a long time."""
        del self._unacknowledged[_key(peer, request)]
        self._acknowledge(peer, request)

    def _remember(self, peer: Peer, message: Message, datagram: bytes) -> None:
        now = self._loop.time()
        while self._received:
            oldest = next(iter(self._received.values()))
            if oldest.until > now and len(self._received) < self._limits.remembered_messages:
                break
            self._received.popitem(last=False)
        key = _key(peer, message)
        # The entry is removed first, so that it moves to the end. Entries are in the order of ``until``.
        self._received.pop(key, None)
        self._received[key] = _ReceivedMessage(peer, hash(datagram), now + self._tuning.exchange_lifetime_seconds)

    def _send_and_remember(self, peer: Peer, request: Message, message: Message) -> None:
        datagram = message.encode()
        earlier = self._received.get(_key(peer, request))
        if earlier is not None:
            earlier.response = datagram
        self._send(peer, datagram)

    def _acknowledge(self, peer: Peer, message: Message) -> None:
        self._counts.acknowledgements_sent += 1
        self._send_and_remember(peer, message, Message(Type.ACKNOWLEDGEMENT, EMPTY, message.message_id))

    def _reject(self, peer: Peer, message_id: int | None) -> None:
        if message_id is None:
            self._counts.dropped += 1
            return
        self._counts.resets_sent += 1
        self._send(peer, Message(Type.RESET, EMPTY, message_id).encode())

    def _send(self, peer: Peer, datagram: bytes) -> None:
        """Send a datagram that is not retransmitted."""
        self._clear_sole(peer)
        try:
            self._put(peer, datagram)
        except Unreachable:
            self._counts.unreachable += 1

    def _put(self, peer: Peer, datagram: bytes) -> None:
        self.transport.send(peer, datagram)

    def _clear_sole(self, peer: Peer) -> None:
        for exchange in self._exchanges.get(peer.address, ()):
            exchange.is_sole = False

    def _new_message_id(self) -> int:
        self._next_message_id = (self._next_message_id + 1) & 0xFFFF
        return self._next_message_id


def _is_response_to(message: Message, request: Message) -> bool:
    """Return whether a response has the token of a request.

    One client was observed to respond to a request for a further block with the token of the first request. In that
    case the message id is sufficient.
    """
    is_late_token = message.type == Type.ACKNOWLEDGEMENT and request.first(Option.BLOCK2) is not None
    return message.token == request.token or (is_late_token and message.message_id == request.message_id)


def _is_late_notification(message: Message, request: Message) -> bool:
    """Return whether a message with the token of a request is a notification, and not the response."""
    if message.first(Option.OBSERVE) is None:
        return False
    requested, received = request.block(Option.BLOCK2), message.block(Option.BLOCK2)
    is_other_block = requested is not None and (received is None or received.number != requested.number)
    return is_other_block or request.number(Option.OBSERVE) == 1
