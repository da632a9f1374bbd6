"""The app for a WSGI server. Environment variables configure it, and signals end it.

The app is created in the process that serves it.
"""

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
from mirror_server.hooks import read_settings, setting_classes
from mirror_server.server import Services
from mirror_server.store.backend import AlreadyServed, DatabaseError
from mirror_server.web.flask_app import MirrorApp, create_app

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_CANNOT_SERVE = 3
"""The exit code at which gunicorn ends. After any other code, gunicorn would restart the process again and again."""

_PREDECESSOR_SECONDS = 5
_RETRY_SECONDS = 0.2
_LAST_SECONDS = 3
_FLUSH_SECONDS = 0.2
_PEEK = socket.MSG_PEEK | getattr(socket, "MSG_DONTWAIT", 0)

_log = logging.getLogger(__name__)


@click.command()
@options_of("wsgi", *setting_classes())
def _settings(**settings: Any) -> Settings:
    return read_settings(**settings)


def create() -> MirrorApp:
    """Return the app of a server that runs until the process ends. Its settings are the ``MIRROR_`` variables.

    Raises:
        SystemExit: A variable, the database or this process cannot be used. The message is written to stderr.
    """
    try:
        _check_process()
        settings: Settings = _settings.main([], standalone_mode=False)
        services = _services(settings)
        # Other processes may serve the same database, and this process does not know them. Only this process can serve
        # a database file.
        services.accepts_upgrades = services.database.is_shared
        app = _start(services)
    except (click.ClickException, DatabaseError, CannotServe) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        print(f"Error: {message}", file=sys.stderr, flush=True)  # noqa: T201 - logging may not be configured yet
        raise SystemExit(_CANNOT_SERVE) from error
    atexit.register(services.close)
    if sys.platform != "win32":
        os.register_at_fork(after_in_child=partial(_reject, app, services))
    if threading.current_thread() is threading.main_thread():
        _end_by_signals(app)
    return app


def _check_process() -> None:
    """Reject gunicorn's arbiter, which only starts other processes and does not serve itself.

    Raises:
        ClickException: This process is the arbiter.
    """
    # A gunicorn worker installs its handler of this signal before it loads the app.
    if "gunicorn.arbiter" in sys.modules and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        message = "the process that creates this server has to serve it; start gunicorn without --preload"
        raise click.ClickException(message)


def _services(settings: Settings) -> Services:
    """Return the services of the server. If another process on the same database is about to end, wait for it.

    Raises:
        DatabaseError: The database cannot be used, or another process continues to serve it.
    """
    end_at = time.monotonic() + _PREDECESSOR_SECONDS
    while True:
        try:
            return Services(settings)
        except AlreadyServed as error:
            if time.monotonic() >= end_at:
                cure = "only one process can serve a SQLite file; start gunicorn with --workers 1, or use PostgreSQL"
                raise AlreadyServed(f"{error}: {cure}") from error
        time.sleep(_RETRY_SECONDS)


def _start(services: Services) -> MirrorApp:
    """Create the app and start the server. After an error, close everything.

    Raises:
        DatabaseError: The database no longer responds.
        CannotServe: A setting cannot be applied.
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
    """Return whether the client has closed its connection.

    Return false if the WSGI server does not provide the socket.
    """
    connection = _connection(environ)
    if connection is None:
        return False
    try:
        # Calls the method of the base class, because the method of a TLS socket accepts no flags.
        return socket.socket.recv(connection, 1, _PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _connection(environ: WSGIEnvironment) -> socket.socket | None:
    found = environ.get("gunicorn.socket")
    if found is None:
        # Waitress has its own check, but that works only while waitress reads ahead. Its channel has the socket.
        channel = getattr(environ.get("waitress.client_disconnected"), "__self__", None)
        found = getattr(channel, "socket", None)
    return found if isinstance(found, socket.socket) else None


def _reject(app: MirrorApp, services: Services) -> None:
    """Reject all requests in a forked child process.

    The child has neither the threads of the server nor its own database connection.
    """
    # The child must not close resources that its parent uses.
    atexit.unregister(services.close)
    message = "this process was forked after the server was created, so it cannot serve; create the app after the fork"

    def reject() -> None:
        raise ApiError(503, message)

    app.before_request_funcs[None].insert(0, reject)
    _log.error(message)


def _end_by_signals(app: MirrorApp) -> None:
    """End the open polls when a signal ends the process, so that the process does not wait for them."""
    for number in {signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGQUIT", signal.SIGTERM)}:
        previous = signal.getsignal(number)
        if callable(previous):
            signal.signal(number, partial(_stop_then, app, previous))
        elif number == signal.SIGTERM and previous is signal.SIG_DFL:
            signal.signal(number, partial(_stop_and_exit, app))


def _stop_then(app: MirrorApp, previous: Any, number: int, frame: FrameType | None) -> None:
    app.stopping.set()
    previous(number, frame)


def _stop_and_exit(app: MirrorApp, _number: int, _frame: FrameType | None) -> None:
    """End the process after the responses to open polls, or immediately at a second signal."""
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
