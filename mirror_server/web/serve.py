"""Running the server with a listening socket, uvicorn and the ASGI bridge."""

from __future__ import annotations

import errno
import gc
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from mirror_server.core.errors import CannotServe
from mirror_server.hooks import Measurement
from mirror_server.server import Services
from mirror_server.web.asgi_bridge import QUEUED, ASGIBridge
from mirror_server.web.flask_app import create_app

_STOP_SECONDS = 3
_BACKLOG = 2048
_COLLECT_ALL_EVERY = 100
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Upgrade = Callable[[HttpToolsProtocol], Callable[[bytes], None] | None]
"""A function that upgrades a connection to another protocol. It is ``ws`` in uvicorn's configuration.

It is called on the event loop when the head of a request with ``Upgrade`` was read and no other request of the
connection is in progress. It returns a function that takes over the connection and is called with the bytes after the
head. If it returns ``None``, the request is served as a request without ``Upgrade``. It may raise a :class:`ApiError`.
"""


class _StopSignals:
    """A handler of the signals that end a process.

    It is active from before the event loop runs until everything is closed.

    A KeyboardInterrupt during an import would leave Python's import lock acquired. Then any thread that imports a
    module later, for example to close down, would block forever. Therefore signals are stored until
    :meth:`handle_with` is called.
    """

    def __init__(self) -> None:
        self._pending: list[int] = []
        self._handler: Callable[[int, FrameType | None], None] | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._previous = {sig: signal.signal(sig, self._receive) for sig in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for sig, handler in self._previous.items():
            signal.signal(sig, handler)

    def handle_with(self, handler: Callable[[int, FrameType | None], None]) -> None:
        """Set the function that handles signals, and call it for the signals that were stored."""
        self._handler = handler
        while self._pending:
            handler(self._pending.pop(0), None)

    def _receive(self, sig: int, frame: FrameType | None) -> None:
        if self._handler is None:
            self._pending.append(sig)
        else:
            self._handler(sig, frame)


class _Server(uvicorn.Server):
    """A uvicorn server that ends the open polls at the first signal, so that the shutdown does not wait for them."""

    def __init__(self, config: uvicorn.Config, bridge: ASGIBridge, accept: Callable[..., Any]) -> None:
        super().__init__(config)
        self._bridge = bridge
        self._accept = accept

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # Uvicorn starts a task for each request, so all requests of one turn of the loop can share a result.
        self.lifespan.state[QUEUED] = True
        accepting = self._accept(server=self, sockets=sockets)
        await super().startup(sockets if accepting is None else [])
        self.servers += accepting or ()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Begin the shutdown, or stop immediately after a second Ctrl-C.

        Unlike uvicorn, this method does not store the signal. Uvicorn would raise the stored signal again at its end,
        which would interrupt the closing of the services.
        """
        self._bridge.stop_waiting()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Port 0 selects a free port.

    Raises:
        CannotServe: The address is in use, or does not belong to this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    # Without this option, a restarted server could not listen while old connections are in the state TIME_WAIT.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # From now on, clients can connect and wait for the server to start, and no other process can use the port.
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        is_of_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
        cure = "choose another port with --port" if is_of_port else "choose an address of this machine with --host"
        raise CannotServe(f"cannot listen on {host}:{port}: {error.strerror}; {cure}") from error
    return listener


def serve(services: Services, listener: socket.socket, announce: Callable[[str], None] = lambda _: None) -> None:
    """Run the server until a signal stops it. After that, everything that was accepted is on disk.

    Args:
        services: The services of the server. They are closed at the end.
        listener: The socket to which clients connect.
        announce: A function that is called with ``http`` or ``https`` when the server listens and handles signals. So
            a program that reads the announcement can send a signal.

    Raises:
        DatabaseError: The database no longer responds.
        CannotServe: A setting cannot be applied.
    """
    with _StopSignals() as signals:
        try:
            server = _server_of(services)
            signals.handle_with(server.handle_exit)

            services.start()
            announce("https" if server.config.is_ssl else "http")
            _collect_rarely()
            server.run(sockets=[listener])
        finally:
            services.close()


def _collect_rarely() -> None:
    """Configure the garbage collector to examine young objects as usual, and old objects rarely.

    Thousands of open polls are millions of objects. Examining all of them takes most of a second, during which no
    request is served. It also frees nothing, because reference counts already free the objects of completed requests.
    """
    # Hardly any object of the start is garbage, and finding it takes longer than any other step of the start.
    gc.freeze()
    gc.enable()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _COLLECT_ALL_EVERY)


def _server_of(services: Services) -> _Server:
    app = create_app(services)
    services.coordinator.respond_with(app)
    bridge = ASGIBridge(app, services.settings)
    services.database.wait_for_responses = bridge.wait_for_responses
    config = uvicorn.Config(
        bridge,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # The server has its own setting for trusted proxies.
        proxy_headers=False,
        timeout_graceful_shutdown=_STOP_SECONDS,
        backlog=_BACKLOG,
    )
    hook = services.extensions.hook
    hook.configure_server(config=config, bridge=bridge, services=services)
    server = _Server(config, bridge, hook.accept)
    connections = server.server_state.connections
    services.gauges.append(
        lambda: (
            Measurement("mirror_open_connections", "Connections of clients.", len(connections)),
            Measurement("mirror_unread_bytes", "Unsent bytes of responses.", bridge.backpressure.total_bytes),
        )
    )
    return server
