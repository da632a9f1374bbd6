"""The app for a WSGI server, made of the environment in the process that serves, and its end by signals."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import socket
import sys
import threading
import time
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from mirror_server.config import Settings, options_of
from mirror_server.core.errors import ApiError, CannotServe
from mirror_server.hooks import call_installed, read_settings
from mirror_server.server import Services
from mirror_server.store.backend import AlreadyServed, DatabaseError
from mirror_server.web.app import MirrorApp, create_app

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_CANNOT_SERVE = 3
"""The exit code after which gunicorn ends; after another one it would start the process again and again."""

_SUCCESSION_SECONDS = 5
_AGAIN_SECONDS = 0.2
_LAST_SECONDS = 3
_FLUSH_SECONDS = 0.2
_PEEK = socket.MSG_PEEK | getattr(socket, "MSG_DONTWAIT", 0)

_log = logging.getLogger(__name__)


@click.command()
@options_of("wsgi", Settings, *call_installed("settings"))
def _settings(**settings: Any) -> Settings:
    return read_settings(**settings)


def create() -> MirrorApp:
    """The app of a server that runs until the process ends; its settings are ``MIRROR_`` variables of the environment.

    Raises:
        SystemExit: A variable, the database or this process cannot be used; the log says why.
    """
    try:
        _check_process()
        settings: Settings = _settings.main([], standalone_mode=False)
        services = _services(settings)
        # Of what else serves the database nothing is known; a file has this one process.
        services.accepts_upgrades = services.database.is_shared
        app = _start(services)
    except (click.ClickException, DatabaseError, CannotServe) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        print(f"Error: {message}", file=sys.stderr, flush=True)  # noqa: T201 - there may be no log yet
        raise SystemExit(_CANNOT_SERVE) from error
    atexit.register(services.close)
    if sys.platform != "win32":
        os.register_at_fork(after_in_child=partial(_reject, app, services))
    if threading.current_thread() is threading.main_thread():
        _end_by_signals(app)
    return app


def _check_process() -> None:
    """Refuse the process of gunicorn that only starts others.

    Raises:
        ClickException: It is that one.
    """
    # In a worker gunicorn looks after this signal before it asks for the app.
    if "gunicorn.arbiter" in sys.modules and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        message = "this server cannot be made before the processes that serve it; start gunicorn without --preload"
        raise click.ClickException(message)


def _services(settings: Settings) -> Services:
    """The parts of the server; another process that is just ending is waited for.

    Raises:
        DatabaseError: The database cannot be used, or another process goes on serving it.
    """
    end_at = time.monotonic() + _SUCCESSION_SECONDS
    while True:
        try:
            return Services(settings)
        except AlreadyServed as error:
            if time.monotonic() >= end_at:
                cure = "one process serves a file, so start gunicorn with --workers 1, or name a PostgreSQL database"
                raise AlreadyServed(f"{error}: {cure}") from error
        time.sleep(_AGAIN_SECONDS)


def _start(services: Services) -> MirrorApp:
    """Make the app and start, or leave nothing behind.

    Raises:
        DatabaseError: The database does not answer any more.
        CannotServe: Something that the settings ask for is not possible.
    """
    try:
        app = create_app(services)
        app.is_disconnected = _is_disconnected
        services.coordinator.respond_with(app)
        services.start()
    except BaseException:
        services.close()
        raise
    return app


def _is_disconnected(environ: WSGIEnvironment) -> bool:
    """Whether the client closed its connection; false under a WSGI server that does not show it."""
    connection = _connection(environ)
    if connection is None:
        return False
    try:
        # Not its own method, which under TLS takes no flags.
        return socket.socket.recv(connection, 1, _PEEK) == b""
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


def _reject(app: MirrorApp, services: Services) -> None:
    """Refuse every request in a process forked from this one: it has neither its threads nor a database of its own."""
    atexit.unregister(services.close)
    message = "this process was forked from the one that made the server, and cannot serve; make the app after the fork"

    def reject() -> None:
        raise ApiError(503, message)

    app.before_request_funcs[None].insert(0, reject)
    _log.error(message)


def _end_by_signals(app: MirrorApp) -> None:
    """Let the signals that end the process end the held polls first, so that it does not wait for them."""
    for number in {signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGQUIT", signal.SIGTERM)}:
        before = signal.getsignal(number)
        if callable(before):
            signal.signal(number, partial(_stop_then, app, before))
        elif number == signal.SIGTERM and before is signal.SIG_DFL:
            signal.signal(number, partial(_stop_and_exit, app))


def _stop_then(app: MirrorApp, before: Any, number: int, frame: FrameType | None) -> None:
    app.stopping.set()
    before(number, frame)


def _stop_and_exit(app: MirrorApp, _number: int, _frame: FrameType | None) -> None:
    """End the process: the second time at once, else when the polls are answered, for which its main thread goes on."""
    if app.stopping.is_set():
        sys.exit(0)
    app.stopping.set()
    threading.Thread(target=_exit_after_response, args=(app,), name="exit", daemon=True).start()


def _exit_after_response(app: MirrorApp) -> None:
    end_at = time.monotonic() + _LAST_SECONDS
    while app.blocking_polls.in_use and time.monotonic() < end_at:
        time.sleep(_FLUSH_SECONDS)
    time.sleep(_FLUSH_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
