"""Whether the client of a request is still there, where a WSGI server lets a thread wait for its answer."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_LOOK = socket.MSG_PEEK | getattr(socket, "MSG_DONTWAIT", 0)


def is_disconnected(environ: WSGIEnvironment) -> bool:
    """Whether the client closed its connection; false under a server that does not show it."""
    connection = _connection(environ)
    if connection is None:
        return False
    try:
        # Not its own method, which under TLS takes no flags.
        return socket.socket.recv(connection, 1, _LOOK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _connection(environ: WSGIEnvironment) -> socket.socket | None:
    found = environ.get("gunicorn.socket")
    if found is None:
        # What waitress offers here notices the end only where it reads ahead; the connection is the same.
        channel = getattr(environ.get("waitress.client_disconnected"), "__self__", None)
        found = getattr(channel, "socket", None)
    return found if isinstance(found, socket.socket) else None
