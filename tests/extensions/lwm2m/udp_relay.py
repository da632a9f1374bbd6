"""A UDP relay between a device and a server. A test can make it drop or change datagrams."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Callable
from typing import Literal, Self

Direction = Literal["up", "down"]
"""``up`` is from the device to the server."""
Fate = Callable[[Direction, int, bytes], list[bytes]]
"""A function that returns the datagrams to forward for a datagram, by its direction and its number from 1."""


def faithful(_direction: Direction, _number: int, datagram: bytes) -> list[bytes]:
    """Forward all datagrams unchanged."""
    return [datagram]


def drop(direction: Direction, *numbers: int) -> Fate:
    """Drop the datagrams with these numbers in one direction. The first one has number 1."""
    return lambda way, number, datagram: [] if way == direction and number in numbers else [datagram]


def drop_all(direction: Direction | None = None) -> Fate:
    """Drop all datagrams, in one direction or in both."""
    return lambda way, _number, datagram: [] if direction in (None, way) else [datagram]


class UdpRelay:
    """A relay between devices and a server. ``fate`` can be changed at any time.

    Devices send to ``address``. The relay has one socket to the server for each of them.
    """

    def __init__(self, server: tuple[str, int], fate: Fate = faithful) -> None:
        self.fate = fate
        self.passed: Counter[Direction] = Counter()
        self._server = server
        self._upstream: dict[tuple[str, int], socket.socket] = {}
        self._listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    async def __aenter__(self) -> Self:
        self._listening.bind(("127.0.0.1", 0))
        _read(self._listening, self._up)
        return self

    async def __aexit__(self, *_error: object) -> None:
        for opened in (*self._upstream.values(), self._listening):
            _close(opened)

    @property
    def address(self) -> tuple[str, int]:
        """The address for the devices."""
        host, port = self._listening.getsockname()
        return host, port

    def _up(self, datagram: bytes, device: tuple[str, int]) -> None:
        self.passed["up"] += 1
        for outcome in self.fate("up", self.passed["up"], datagram):
            self._upstream_of(device).sendto(outcome, self._server)

    def _upstream_of(self, device: tuple[str, int]) -> socket.socket:
        if device not in self._upstream:
            upstream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._upstream[device] = upstream
            _read(upstream, lambda datagram, _server: self._down(datagram, device))
        return self._upstream[device]

    def _down(self, datagram: bytes, device: tuple[str, int]) -> None:
        self.passed["down"] += 1
        for outcome in self.fate("down", self.passed["down"], datagram):
            self._listening.sendto(outcome, device)


def _read(opened: socket.socket, received: Callable[[bytes, tuple[str, int]], None]) -> None:
    def ready() -> None:
        with contextlib.suppress(OSError):  # the kernel reports a closed port
            received(*opened.recvfrom(65_535))

    opened.setblocking(False)
    asyncio.get_running_loop().add_reader(opened, ready)


def _close(opened: socket.socket) -> None:
    asyncio.get_running_loop().remove_reader(opened)
    opened.close()
