"""A server with a CoAP port inside the test."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from devices_on_loopback import DeviceSide
from ports import free_port

from mirror_server.config import ListenAddress


@pytest.fixture
def device_side() -> Iterator[DeviceSide]:
    side = DeviceSide(free_port(socket.SOCK_DGRAM))
    yield side
    side.close()


@pytest.fixture
def real(new_server: Any, device_side: DeviceSide) -> Any:
    """A server to which real devices come, on a clock that stands still."""
    return new_server(coap=ListenAddress("127.0.0.1", device_side.port))
