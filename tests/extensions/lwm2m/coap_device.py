"""A device with a plain socket, and a handler that records its calls, for the tests of CoAP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from mirror_server.extensions.lwm2m.coap import CoapEndpoint, CoapLimits, Tuning, listen
from mirror_server.extensions.lwm2m.coap.messages import (
    BlockOption,
    Message,
    Option,
    Type,
    code_number,
    decode,
    uint_option,
)
from mirror_server.extensions.lwm2m.transport_api import ObserveNotification, Peer, Request, Response

T = TypeVar("T")
ResponseSpec = tuple[str, bytes, tuple[tuple[int, bytes], ...]]
"""Code, payload and options."""

QUICK = Tuning(ack_timeout_seconds=0.25, separate_response_seconds=0.5, empty_ack_seconds=0.25, response_seconds=60)
READ = Request("GET", "/3303/0/5700", accept=0)


class RecordingHandler:
    """A handler that records its calls. ``respond`` creates the responses."""

    def __init__(self) -> None:
        self.requests: list[tuple[Peer, Request]] = []
        self.notifications: list[ObserveNotification] = []
        self.known_tokens = {b"mine"}
        self.ended_sessions: list[Peer] = []
        self.over_limit: list[ObserveNotification] = []
        self.respond: Callable[[Request], Awaitable[Response]] = self._created

    async def handle(self, peer: Peer, request: Request) -> Response:
        self.requests.append((peer, request))
        return await self.respond(request)

    def delay_response(self, code: str, payload: bytes = b"", **more: Any) -> asyncio.Event:
        """Respond to requests with this after the returned event is set."""
        response_ready = asyncio.Event()

        async def respond(_request: Request) -> Response:
            await response_ready.wait()
            return Response(code, payload, **more)

        self.respond = respond
        return response_ready

    def notified(self, notification: ObserveNotification) -> bool:
        self.notifications.append(notification)
        return notification.token in self.known_tokens

    def rate_exceeded(self, notification: ObserveNotification) -> None:
        self.over_limit.append(notification)
        self.known_tokens.discard(notification.token)

    def session_ended(self, peer: Peer) -> None:
        self.ended_sessions.append(peer)

    async def _created(self, _request: Request) -> Response:
        return Response("2.01", location=("rd", "1"))


class Device:
    """A plain socket that sends and receives bytes."""

    def __init__(self, server: tuple[str, int]) -> None:
        family = socket.AF_INET6 if ":" in server[0] else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        self.server = server

    @property
    def peer(self) -> Peer:
        host, port, *_ = self._socket.getsockname()
        return Peer(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    def close(self) -> None:
        self._socket.close()

    def send(self, message: Message | bytes) -> None:
        self._socket.sendto(message if isinstance(message, bytes) else message.encode(), self.server)

    async def receive(self) -> Message:
        datagram = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self._socket, 65_535), 60)
        return decode(datagram)

    async def exchange(self, message: Message | bytes) -> Message:
        """Send a message, and return the next one received."""
        self.send(message)
        return await self.receive()

    async def start_request(self, coming: Coroutine[Any, Any, T]) -> tuple[asyncio.Task[T], Message]:
        """Start a request of the endpoint. Return its task and the received message."""
        return asyncio.create_task(coming), await self.receive()

    async def run_with_responses(self, coming: Coroutine[Any, Any, T], *responses: ResponseSpec) -> T:
        """Return the result of a request. Its messages get these responses, and are then in ``received_requests``."""
        task = asyncio.create_task(coming)
        await self.respond_to_requests(*responses)
        return await task

    async def receives_nothing(self) -> bool:
        """Return whether nothing arrives before the reset of a ping."""
        return (await self.exchange(Message(Type.CONFIRMABLE, 0, 0x7777))).message_id == 0x7777

    def respond(self, request: Message, code: str, payload: bytes = b"", *options: tuple[int, bytes]) -> None:
        """Send a piggybacked response."""
        kind = Type.ACKNOWLEDGEMENT
        self.send(Message(kind, code_number(code), request.message_id, request.token, list(options), payload))

    def acknowledge(self, message: Message) -> None:
        self.send(Message(Type.ACKNOWLEDGEMENT, 0, message.message_id))

    async def respond_to_requests(self, *responses: ResponseSpec) -> list[Message]:
        """Respond to the next requests in order, and return them."""
        self.received_requests = []
        for code, payload, options in responses:
            self.received_requests.append(await self.receive())
            self.respond(self.received_requests[-1], code, payload, *options)
        return self.received_requests


@asynccontextmanager
async def listening(
    handler: RecordingHandler | None = None,
    host: str = "127.0.0.1",
    tuning: Tuning = QUICK,
    limits: CoapLimits | None = None,
) -> AsyncIterator[CoapEndpoint]:
    """An endpoint on a free port."""
    endpoint = await listen(handler or RecordingHandler(), coap=(host, 0), tuning=tuning, limits=limits or CoapLimits())
    try:
        yield endpoint
    finally:
        await endpoint.close()


@asynccontextmanager
async def endpoint_with_device(
    handler: RecordingHandler | None = None, **options: Any
) -> AsyncIterator[tuple[CoapEndpoint, Device]]:
    """Yield an endpoint, and a device that knows its address."""
    async with listening(handler, **options) as endpoint:
        assert endpoint.coap_address is not None
        device = Device(endpoint.coap_address)
        try:
            yield endpoint, device
        finally:
            device.close()


async def until(condition: Callable[[], Any]) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.001)


async def registered(device: Device, handler: RecordingHandler) -> Peer:
    """Register a device, and return its peer."""
    device.send(registration(message_id=60_000))
    await device.receive()
    return handler.requests[-1][0]


def block1(number: int, more: bool, size: int) -> tuple[int, bytes]:
    """Return the Block1 option of a request."""
    return Option.BLOCK1, BlockOption(number, more, size).encode()


def block2(number: int, more: bool, size: int) -> tuple[int, bytes]:
    """Return the Block2 option of a response."""
    return Option.BLOCK2, BlockOption(number, more, size).encode()


def confirmable(code: str, message_id: int = 1, token: bytes = b"\x01", **more: Any) -> Message:
    """Return a confirmable message."""
    return Message(Type.CONFIRMABLE, code_number(code), message_id, token, **more)


def registration(message_id: int = 1, payload: bytes = b"</3/0>", **more: Any) -> Message:
    """Return the registration message of a device."""
    query = [(Option.URI_QUERY, b"ep=boiler"), (Option.URI_QUERY, b"lt=300")]
    options = [(Option.URI_PATH, b"rd"), uint_option(Option.CONTENT_FORMAT, 40), *query]
    return confirmable("0.02", message_id, options=options + more.pop("options", []), payload=payload, **more)


def notification(
    message_id: int, token: bytes, sequence: int, payload: bytes, kind: Type = Type.NON_CONFIRMABLE
) -> Message:
    """Return a notification."""
    return Message(kind, code_number("2.05"), message_id, token, [uint_option(Option.OBSERVE, sequence)], payload)
