"""A port for what is told its port before it listens there, and for what listens there a second time."""

import os
import socket
from itertools import cycle
from random import SystemRandom

_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 16
_PORTS = range(20_000 + _WORKER, 32_000, 16)
"""Of this worker alone, and below those that a system gives to whoever asks for any, and to connections.

A port of those may be somebody else's before it is used, and while the server that had it starts again.
"""
_IN_TURN = cycle(SystemRandom().sample(_PORTS, len(_PORTS)))


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port at which nobody listens on this machine."""
    while True:
        port = next(_IN_TURN)
        try:
            with socket.socket(socket.AF_INET, kind) as probe:
                probe.bind(("127.0.0.1", port))
                return port
        except OSError:
            continue
