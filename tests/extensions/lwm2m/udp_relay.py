"""A relay of UDP between a device and a server, which drops and changes datagrams as a test says."""

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
"""What comes out for a datagram, by its direction and number from 1: nothing, itself, itself twice, another one."""


def faithful(_direction: Direction, _number: int, datagram: bytes) -> list[bytes]:
    """All goes through as it came."""
    return [datagram]


def drop(direction: Direction, *numbers: int) -> Fate:
    """The datagrams of these numbers are lost, from 1 for each direction."""
    return lambda way, number, datagram: [] if way == direction and number in numbers else [datagram]


def drop_all(direction: Direction | None = None) -> Fate:
    """All is lost, in one direction or in both."""
    return lambda way, _number, datagram: [] if direction in (None, way) else [datagram]


class UdpRelay:
    """Stands between devices and a server; ``fate`` may be changed at any time.

    Devices speak to ``address``, and each of them reaches the server from a socket of its own.
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
        """Where the devices find the server."""
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
        with contextlib.suppress(OSError):  # a port that is closed, told by the kernel
            received(*opened.recvfrom(65_535))

    opened.setblocking(False)
    asyncio.get_running_loop().add_reader(opened, ready)


def _close(opened: socket.socket) -> None:
    asyncio.get_running_loop().remove_reader(opened)
    opened.close()
