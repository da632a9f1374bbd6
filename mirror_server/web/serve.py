"""Runs the server: a socket, uvicorn, the bridge."""

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
from mirror_server.web.app import create_app
from mirror_server.web.bridge import QUEUED, Bridge

_STOP_SECONDS = 3
_BACKLOG = 2048
_COLLECT_ALL_EVERY = 100
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

Upgrade = Callable[[HttpToolsProtocol], Callable[[bytes], None] | None]
"""Makes another protocol of a connection that asks for it; ``ws`` of uvicorn's configuration.

Called where the head of a request with ``Upgrade`` was read, and no other is being answered, on the event loop. What it
gives has the connection from then on, and is called with what came behind the head. ``None`` is for a request that is
answered as one without ``Upgrade``; it may raise a :class:`ApiError`.
"""


class _StopSignals:
    """Takes the signals that end a process, from before the event loop runs until everything is closed.

    A KeyboardInterrupt in the middle of an import leaves Python's import lock taken, and each thread that imports
    something later, to close down for instance, waits for it for ever. What comes before anybody can act on it waits.
    """

    def __init__(self) -> None:
        self._waiting: list[int] = []
        self._act: Callable[[int, FrameType | None], None] | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {sig: signal.signal(sig, self._take) for sig in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for sig, handler in self._before.items():
            signal.signal(sig, handler)

    def act_by(self, act: Callable[[int, FrameType | None], None]) -> None:
        """Have this called at each signal, and for those that came already."""
        self._act = act
        while self._waiting:
            act(self._waiting.pop(0), None)

    def _take(self, sig: int, frame: FrameType | None) -> None:
        if self._act is None:
            self._waiting.append(sig)
        else:
            self._act(sig, frame)


class _Server(uvicorn.Server):
    """Ends the held polls at the first signal, so that stopping does not wait for them."""

    def __init__(self, config: uvicorn.Config, bridge: Bridge, accept: Callable[..., Any]) -> None:
        super().__init__(config)
        self._bridge = bridge
        self._accept = accept

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        self.lifespan.state[QUEUED] = True
        accepting = self._accept(server=self, sockets=sockets)
        await super().startup(sockets if accepting is None else [])
        self.servers += accepting or ()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Begin to stop, or at a second Ctrl-C stop at once.

        uvicorn would raise the signal again at its end, and with that cut off what is closed after it.
        """
        self._bridge.stop_waiting()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one.

    Raises:
        CannotServe: The address is taken or not of this machine.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # From here on who connects waits for the server to start, and who listens on the same port is told.
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        is_of_port = error.errno in (errno.EADDRINUSE, errno.EACCES)
        cure = "choose another port with --port" if is_of_port else "choose an address of this machine with --host"
        raise CannotServe(f"cannot listen on {host}:{port}: {error.strerror}; {cure}") from error
    return listener


def serve(services: Services, listener: socket.socket, announce: Callable[[str], None] = lambda _: None) -> None:
    """Serve until a signal stops it; then everything that was accepted is on disk.

    Args:
        services: What is served; closed at the end.
        listener: Where clients connect.
        announce: Called with ``http`` or ``https`` when all listens, and a signal would stop the server in order: who
            reads what it tells may send one.

    Raises:
        DatabaseError: The database does not answer any more.
        CannotServe: Something that the settings ask for is not possible.
    """
    with _StopSignals() as signals:
        try:
            server = _server_of(services)
            signals.act_by(server.handle_exit)
            services.start()
            announce("https" if server.config.is_ssl else "http")
            _collect_rarely()
            server.run(sockets=[listener])
        finally:
            services.close()


def _collect_rarely() -> None:
    """Let Python look for garbage in what was made lately, and seldom in what stays.

    Thousands of held polls are millions of objects. To go through all of them takes most of a second, in which nobody
    is answered, and finds nothing: what a request leaves behind is garbage at once.
    """
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _COLLECT_ALL_EVERY)


def _server_of(services: Services) -> _Server:
    app = create_app(services)
    services.coordinator.respond_with(app)
    bridge = Bridge(app, services.settings)
    services.database.wait_for_responses = bridge.wait_for_responses
    config = uvicorn.Config(
        bridge,
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # Whose word is taken for who sends a request is a setting of this server's own.
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
            Measurement("mirror_unread_bytes", "Parts of answers that clients are to take.", bridge.unread.total_bytes),
        )
    )
    return server
