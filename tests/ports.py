"""Ports for servers that get their port as an option, or that start twice on the same port."""

import os
import socket
from itertools import cycle
from random import SystemRandom

_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 16
_PORTS = range(20_000 + _WORKER, 32_000, 16)
"""The ports of this worker, below the ephemeral ports of the system.

Another program could get an ephemeral port before it is used, or while a server restarts.
"""
_IN_TURN = cycle(SystemRandom().sample(_PORTS, len(_PORTS)))


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return a port on which no program of this machine listens."""
    while True:
        port = next(_IN_TURN)
        try:
            with socket.socket(socket.AF_INET, kind) as probe:
                probe.bind(("127.0.0.1", port))
                return port
        except OSError:
            continue
