"""Test devices that speak LwM2M with datagrams built by hand, without any code of the server or of the product's
device.

Each device has its own socket. One thread waits for all of them, so thousands of devices cost little.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple, Self

CON, NON, ACK, RST = range(4)
GET, POST, PUT, DELETE = 0x01, 0x02, 0x03, 0x04
CREATED, DELETED, CHANGED, CONTENT = 0x41, 0x42, 0x44, 0x45
BAD_REQUEST, NOT_FOUND, NOT_ALLOWED = 0x80, 0x84, 0x85
OBSERVE, LOCATION_PATH, URI_PATH, CONTENT_FORMAT, URI_QUERY, ACCEPT, BLOCK2, BLOCK1 = 6, 8, 11, 12, 15, 17, 23, 27
LINKS = 40
_LONGEST = 65_535


class Message(NamedTuple):
    """A CoAP datagram; ``options`` are in the order of their numbers."""

    kind: int
    code: int
    number: int
    token: bytes = b""
    options: tuple[tuple[int, bytes], ...] = ()
    payload: bytes = b""

    def option(self, number: int) -> bytes | None:
        """Return the first value of an option."""
        return next((value for each, value in self.options if each == number), None)

    def texts(self, number: int) -> tuple[str, ...]:
        """Return all values of an option."""
        return tuple(value.decode() for each, value in self.options if each == number)

    @property
    def path(self) -> str:
        return "/" + "/".join(self.texts(URI_PATH))

    @property
    def code_text(self) -> str:
        """The code in the usual notation: ``4.04``."""
        return f"{self.code >> 5}.{self.code & 31:02}"


def pack(message: Message) -> bytes:
    """Return the message as a datagram. Source: RFC 7252, section 3."""
    kind, code, number, token, options, payload = message
    parts = [struct.pack(">BBH", 0x40 | kind << 4 | len(token), code, number), token]
    last = 0
    for option, value in sorted(options, key=lambda each: each[0]):
        delta, more_delta = _nibble(option - last)
        length, more_length = _nibble(len(value))
        parts += (bytes((delta << 4 | length,)), more_delta, more_length, value)
        last = option
    return b"".join([*parts, b"\xff" + payload if payload else b""])


def _nibble(number: int) -> tuple[int, bytes]:
    if number < 13:
        return number, b""
    return (13, bytes((number - 13,))) if number < 269 else (14, struct.pack(">H", number - 269))


def parse(datagram: bytes) -> Message:
    """Parse a datagram of the server."""
    first, code, number = struct.unpack_from(">BBH", datagram)
    at = 4 + (first & 15)
    token, options, option = datagram[4:at], [], 0
    while at < len(datagram) and datagram[at] != 0xFF:
        byte, at = datagram[at], at + 1
        delta, at = _integer(byte >> 4, datagram, at)
        length, at = _integer(byte & 15, datagram, at)
        option += delta
        options.append((option, datagram[at : at + length]))
        at += length
    return Message(first >> 4 & 3, code, number, token, tuple(options), datagram[at + 1 :])


def _integer(nibble: int, datagram: bytes, at: int) -> tuple[int, int]:
    if nibble == 13:
        return datagram[at] + 13, at + 1
    if nibble == 14:
        return struct.unpack_from(">H", datagram, at)[0] + 269, at + 2
    return nibble, at


def number_of(option: bytes | None) -> int:
    """Decode the value of an option as a number."""
    return int.from_bytes(option or b"", "big")


def option_of(number: int) -> bytes:
    """Encode a number as the value of an option."""
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


class BareDevice:
    """A device whose values are texts. :meth:`respond` executes requests.

    Attributes:
        values: Path -> value. A linked path without a value is executable.
        observed: Path -> token of the observation.
        requests: The requests of the server, in order.
        responses: The responses and resets received.
        location: The path of its registration, or empty.
    """

    def __init__(
        self, port: int, name: str, values: dict[str, str], *, host: str = "127.0.0.1", links: str | None = None
    ) -> None:
        self.name = name
        self.values = values
        self.links = ",".join(f"<{path}>" for path in values) if links is None else links
        self.observed: dict[str, bytes] = {}
        self.requests: list[Message] = []
        self.responses: list[Message] = []
        self.created = 0
        self.location: tuple[str, ...] = ()
        self.silent = False
        self._server = ("127.0.0.1", port)
        self._host = host
        self._number = random.Random(name).randrange(_LONGEST)
        self._sequence = 0
        self.socket = self._bound()

    def _bound(self) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.setblocking(False)
        made.bind((self._host, 0))
        made.connect(self._server)
        return made

    def move(self) -> None:
        """Switch to another port, like a device whose NAT dropped the mapping."""
        self.socket.close()
        self.socket = self._bound()

    def send(self, datagram: bytes) -> None:
        # A server that does not listen is noticed by the missing response.
        with suppress(ConnectionRefusedError):
            self.socket.send(datagram)

    def request(self, code: int, path: Iterable[str], query: Iterable[str] = (), payload: bytes = b"") -> bytes:
        """Return a confirmable request of the device, as a datagram that may be sent again."""
        self._number = (self._number + 1) % (_LONGEST + 1)
        options = [(URI_PATH, part.encode()) for part in path] + [(URI_QUERY, part.encode()) for part in query]
        options += [(CONTENT_FORMAT, option_of(LINKS))] if payload else []
        token = struct.pack(">H", self._number)
        return pack(Message(CON, code, self._number, token, tuple(options), payload))

    def registration(self, **parameters: str) -> bytes:
        """Return the registration request."""
        query = {"ep": self.name, "lt": "86400", "lwm2m": "1.0", "b": "U"} | parameters
        return self.request(POST, ["rd"], (f"{key}={value}" for key, value in query.items()), self.links.encode())

    def update(self, *query: str) -> bytes:
        return self.request(POST, self.location, query)

    def leaving(self) -> bytes:
        return self.request(DELETE, self.location)

    def notification(self, path: str, value: str, *, kind: int = NON, token: bytes | None = None) -> bytes:
        """Return a notification of an observed resource, or one with any token."""
        self.values[path] = value
        self._number = (self._number + 1) % (_LONGEST + 1)
        self._sequence = (self._sequence + 1) % 2**24
        known = self.observed[path] if token is None else token
        options = ((OBSERVE, option_of(self._sequence)), (CONTENT_FORMAT, b""))
        return pack(Message(kind, CONTENT, self._number, known, options, value.encode()))

    def receive(self) -> None:
        """Process all datagrams that have arrived."""
        while True:
            try:
                datagram = self.socket.recv(_LONGEST)
            except OSError:
                return
            self._take(parse(datagram))

    def _take(self, message: Message) -> None:
        if 0 < message.code < 0x20:
            self.requests.append(message)
            if not self.silent:
                self.respond(message)
            return
        self.responses.append(message)
        if message.code == CREATED:
            self.created += 1
            self.location = message.texts(LOCATION_PATH)

    def respond(self, request: Message) -> None:
        """Execute a request and send a piggybacked response."""
        code, options, payload = self._done(request)
        kind = ACK if request.kind == CON else NON
        self.send(pack(Message(kind, code, request.number, request.token, options, payload)))

    def _done(self, request: Message) -> tuple[int, tuple[tuple[int, bytes], ...], bytes]:
        path = request.path
        if request.code == GET and number_of(request.option(ACCEPT)) == LINKS:
            below = [each for each in self.values if each == path or each.startswith(path.rstrip("/") + "/")]
            links = ",".join(f"<{each}>" for each in [path, *below]).encode()
            return CONTENT, ((CONTENT_FORMAT, option_of(LINKS)),), links
        if path not in self.values:
            return NOT_FOUND, (), b""
        if request.code == GET:
            return CONTENT, (*self._observing(request), (CONTENT_FORMAT, b"")), self.values[path].encode()
        if request.code == PUT and request.option(CONTENT_FORMAT) is not None:
            self.values[path] = request.payload.decode()
        return CHANGED, (), b""

    def _observing(self, request: Message) -> tuple[tuple[int, bytes], ...]:
        observe = request.option(OBSERVE)
        if observe is None:
            return ()
        if number_of(observe) == 1:
            self.observed.pop(request.path, None)
            return ()
        self.observed[request.path] = request.token
        self._sequence += 1
        return ((OBSERVE, option_of(self._sequence)),)


class Devices:
    """A thread that receives for many devices, until the end of the block.

    Other threads may send for a device without a lock, because only this thread receives.
    """

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._by_file: dict[int, BareDevice] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._receive, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for device in self._by_file.values():
            device.socket.close()
        self._poll.close()

    def add(self, device: BareDevice) -> BareDevice:
        """Start to receive for a device. Call it again after the device has moved."""
        self._by_file[device.socket.fileno()] = device
        self._poll.register(device.socket.fileno(), select.EPOLLIN)
        return device

    def _receive(self) -> None:
        while not self._ended.is_set():
            for file, _ in self._poll.poll(0.05):
                self._by_file[file].receive()


def send_until(device: BareDevice, datagram: bytes, condition: Callable[[], object], seconds: float = 60) -> None:
    """Send a datagram every second until a condition is true, like a device that gets no response.

    Raises:
        TimeoutError: The condition did not become true in time.
    """
    pause = threading.Event()
    end_at = time.monotonic() + seconds
    again_at = 0.0
    while not condition():
        now = time.monotonic()
        if now > end_at:
            raise TimeoutError(f"{device.name} waited {seconds} s; it received {device.responses[-3:]}")
        if now >= again_at:
            device.send(datagram)
            again_at = now + 1
        pause.wait(0.002)
