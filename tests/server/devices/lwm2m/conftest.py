"""A server with a CoAP port inside the test."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from devices_on_loopback import DeviceSide

from mirror_server.config import ListenAddress


@pytest.fixture
def device_side() -> Iterator[DeviceSide]:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    side = DeviceSide(port)
    yield side
    side.close()


@pytest.fixture
def real(new_server: Any, device_side: DeviceSide) -> Any:
    """A server to which real devices come, on a clock that stands still."""
    return new_server(coap=ListenAddress("127.0.0.1", device_side.port))
