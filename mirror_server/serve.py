"""Runs the server: a socket, uvicorn, the bridge."""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from mirror_server import arrow
from mirror_server.answering import answer_others
from mirror_server.app import create_app
from mirror_server.bridge import Bridge
from mirror_server.services import Services

_STOP_SECONDS = 3
_BACKLOG = 2048
_OBJECTS_A_COLLECTION = 10_000
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ListenError(Exception):
    """The address cannot be listened on; the message says why and what to do."""


class _Server(uvicorn.Server):
    """Ends the held polls at the first signal, so that stopping does not wait for them."""

    def __init__(self, config: uvicorn.Config, bridge: Bridge) -> None:
        super().__init__(config)
        self._bridge = bridge

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Begin to stop, or at a second Ctrl-C stop at once.

        uvicorn would raise the signal again at its end, and with that cut off what is closed after it.
        """
        self._bridge.stop_waiting()
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    @contextmanager
    def taking_signals(self) -> Iterator[None]:
        """Take the signals that end a process also before the event loop runs and after it.

        A KeyboardInterrupt in the middle of an import leaves Python's import lock taken, and each thread that imports
        something later, to close down for instance, waits for it for ever.
        """
        before = {sig: signal.signal(sig, self.handle_exit) for sig in _SIGNALS}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)


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
        cure = "choose others with --host and --port"
        raise ListenError(f"cannot listen on {host}:{port}: {error.strerror}; {cure}") from error
    return listener


def stop_with_stdin() -> None:
    """Have SIGTERM sent to this process when its standard input ends, as it does when the program behind it ends."""

    def run() -> None:
        # Not through sys.stdin: its lock would be held when the interpreter ends.
        while os.read(0, 4096):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=run, name="stdin", daemon=True).start()


def serve(services: Services, listener: socket.socket) -> None:
    """Serve until a signal stops it; then everything that was accepted is on disk."""
    settings = services.settings
    app = create_app(services)
    answer_others(services, app)
    bridge = Bridge(app, max_body_bytes=settings.max_body_bytes, max_parked_polls=settings.max_parked_polls)
    config = uvicorn.Config(
        bridge,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_STOP_SECONDS,
        backlog=_BACKLOG,
    )
    server = _Server(config, bridge)
    with server.taking_signals():
        try:
            services.start()
            # Now, so that the first snapshot need not wait for it.
            threading.Thread(target=arrow.load, name="arrow", daemon=True).start()
            _spare_the_collector()
            server.run(sockets=[listener])
        finally:
            services.close()


def _spare_the_collector() -> None:
    """Have the garbage collector look for cycles less often, and not among what was loaded at the start.

    A group of observations makes thousands of objects that live until it is on disk, none of them in a cycle.
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS_A_COLLECTION, *gc.get_threshold()[1:])
