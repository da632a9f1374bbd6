"""Runs the server: a socket, uvicorn, the bridge."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any, Self, cast

import uvicorn

from mirror_server.config import Settings
from mirror_server.hooks import Measurement
from mirror_server.services import Services
from mirror_server.web.app import create_app
from mirror_server.web.asgi_bridge import Bridge
from mirror_server.web.connections import BoundedConnection
from mirror_server.web.tls import Certificate, TlsListener

if sys.platform != "win32":
    import resource

_STOP_SECONDS = 3
_BACKLOG = 2048
_OTHER_FILES = 300
_FEWEST_CONNECTIONS = 100
_FEW_CONNECTIONS = 1000
_COLLECT_ALL_EVERY = 100
_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_log = logging.getLogger(__name__)


class ListenError(Exception):
    """The address cannot be listened on; the message says why and what to do."""


class TooFewFiles(Exception):
    """The system allows too few open files; the message says how many and what to do."""


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

    def __init__(self, config: uvicorn.Config, bridge: Bridge, settings: Settings) -> None:
        super().__init__(config)
        self._bridge = bridge
        self._settings = settings
        self._certificate: Certificate | None = None

    def speak_tls(self, certificate: Certificate) -> None:
        """Speak TLS; SIGHUP has the certificate loaded again, and connections that are open stay."""
        self._certificate = certificate
        if sys.platform != "win32":
            signal.signal(signal.SIGHUP, lambda *_: certificate.reload())

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; see :class:`TlsListener` for why not as uvicorn does where TLS is spoken."""
        if self._certificate is None or sockets is None:
            await super().startup(sockets)
            return
        await super().startup([])
        make = partial(
            cast("Callable[..., asyncio.Protocol]", self.config.http_protocol_class),
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        for listener in sockets:
            accepting = TlsListener(
                listener,
                self._certificate,
                make,
                self.server_state.connections,
                max_connections=self._settings.max_connections,
                handshake_seconds=self._settings.idle_timeout_seconds,
            )
            self.servers.append(cast("asyncio.Server", accepting))

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
        ListenError: The address is taken or not of this machine.
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
        raise ListenError(f"cannot listen on {host}:{port}: {error.strerror}; {cure}") from error
    return listener


def serve(
    services: Services,
    listener: socket.socket,
    announce: Callable[[], None] = lambda: None,
    certificate: Certificate | None = None,
) -> None:
    """Serve until a signal stops it; then everything that was accepted is on disk.

    Args:
        services: What is served; closed at the end.
        listener: Where clients connect.
        announce: Called when all listens, and a signal would stop the server in order: who reads what it tells may
            send one.
        certificate: That of TLS, loaded again at SIGHUP; ``None`` for plain HTTP.

    Raises:
        DatabaseError: The database does not answer any more.
        CannotServe: Something that the settings ask for is not possible.
        TooFewFiles: The system allows too few open files.
    """
    with _StopSignals() as signals:
        try:
            server = _server_of(services)
            if certificate is not None:
                server.speak_tls(certificate)
                services.gauges.append(partial(_measure_certificate, certificate))
            signals.act_by(server.handle_exit)
            services.start()
            announce()
            _collect_rarely()
            server.run(sockets=[listener])
        finally:
            services.close()


def _measure_certificate(certificate: Certificate) -> list[Measurement]:
    ends_at_seconds = 0 if certificate.ends_at is None else certificate.ends_at.timestamp()
    meaning = "When the certificate ends, as seconds since 1970; 0 where that is not known."
    return [Measurement("mirror_tls_certificate_ends_at_seconds", meaning, ends_at_seconds)]


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
    settings = replace(services.settings, max_connections=_allow_connections(services.settings.max_connections))
    app = create_app(services)
    services.coordinator.answer_with(app)
    bridge = Bridge.of(app, settings)
    services.database.tell_first(bridge.wait_for_told)
    connection = partial(BoundedConnection, settings=settings, answer_refusal=bridge.answer_refusal)
    for upgrade in services.extensions.hook.upgrades(services=services, bridge=bridge):
        connection = partial(connection, upgrade=upgrade)
    config = uvicorn.Config(
        bridge,
        http=cast("type[asyncio.Protocol]", connection),
        lifespan="off",
        # The connection hands over to other protocols by itself, see there.
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        # Whose word is taken for who sends a request is a setting of this server's own.
        proxy_headers=False,
        timeout_graceful_shutdown=_STOP_SECONDS,
        backlog=_BACKLOG,
    )
    server = _Server(config, bridge, settings)
    connections = server.server_state.connections
    services.gauges.append(
        lambda: (
            Measurement("mirror_open_connections", "Connections of clients.", len(connections)),
            Measurement("mirror_unread_bytes", "Parts of answers that clients are to take.", bridge.unread_bytes),
        )
    )
    return server


def _allow_connections(wanted: int) -> int:
    """Return how many connections can be open, after raising the system's limit of open files as far as it allows.

    Raises:
        TooFewFiles: The limit leaves too few connections to be of use.
    """
    if sys.platform == "win32":
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    connections = allowed - _OTHER_FILES
    # The server's own files are open however few connections there may be.
    fewer = ", or lower --max-connections" if allowed > _OTHER_FILES else ""
    message = (
        f"the system allows this process {allowed} open files, of which the server uses up to {_OTHER_FILES} itself; "
        f"{wanted} connections need {needed}: raise the limit, with 'ulimit -n {needed}' or LimitNOFILE={needed} in a "
        f"systemd unit{fewer}"
    )
    if connections < min(wanted, _FEWEST_CONNECTIONS):
        raise TooFewFiles(message)
    if connections < min(wanted, _FEW_CONNECTIONS):
        _log.warning("only %d connections can be open: %s", connections, message)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return connections
