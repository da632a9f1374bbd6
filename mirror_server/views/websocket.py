"""A websocket as an answer: what the view decides, for the server to open it. Source: wire.md 4."""

from __future__ import annotations

from flask import Response

from mirror_server.notifications.sockets import Socket

OPEN = "mirror.open_websocket"
"""Key of the WSGI environment of a websocket's handshake, under which the server takes an :class:`OpenedWebsocket`.

It answers whether it took it; one too many is refused.
"""


class OpenedWebsocket(Response):
    """The answer to a handshake, which is sent when the server opens the websocket.

    Args:
        socket: What is sent through it.
    """

    def __init__(self, socket: Socket) -> None:
        super().__init__(status=101)
        del self.headers["Content-Type"]
        self.socket = socket
