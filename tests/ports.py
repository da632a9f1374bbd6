"""A port for what is told its port before it listens there."""

import socket
from random import SystemRandom

_NEVER_GIVEN_OUT = range(20_000, 32_000)
"""Below the ports that a system gives to whoever asks for any, and to connections: one of those may be gone again."""


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port at which nobody listens on this machine."""
    while True:
        port = SystemRandom().choice(_NEVER_GIVEN_OUT)
        try:
            with socket.socket(socket.AF_INET, kind) as probe:
                probe.bind(("127.0.0.1", port))
                return port
        except OSError:
            continue
