"""The server for any WSGI server with threads, configured by the environment.

With gunicorn ``gunicorn --threads 16 'mirror_server.wsgi:create()'``, with waitress
``waitress-serve --threads 16 --call mirror_server.wsgi:create``. There each poll and event stream takes a thread, so
that only ``MIRROR_MAX_BLOCKING_POLLS`` may be open at once: keep that below the number of threads. One process only
serves an SQLite file; on PostgreSQL there may be any number (``gunicorn --workers 4``).
"""

from __future__ import annotations

import atexit
import signal
import sys
import threading
from typing import Any

import click

from mirror_server.answering import answer_others
from mirror_server.app import MirrorApp, create_app
from mirror_server.config import Settings
from mirror_server.options import blocking_polls_option, settings_options
from mirror_server.services import Services
from mirror_server.store.failures import DatabaseError


@click.command()
@settings_options
@blocking_polls_option
def _settings(**settings: Any) -> Settings:
    return Settings(**settings)


def create() -> MirrorApp:
    """The app of a server that runs until the process ends; its settings are ``MIRROR_`` variables of the environment.

    Raises:
        SystemExit: A variable or the database cannot be used; the message says why.
    """
    try:
        settings: Settings = _settings.main([], standalone_mode=False)
        services = Services(settings)
    except (click.ClickException, DatabaseError) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        raise SystemExit(f"Error: {message}") from error
    _end_by_exit()
    app = create_app(services)
    answer_others(services, app)
    services.start()
    atexit.register(services.close)
    return app


def _end_by_exit() -> None:
    """Let SIGTERM end the process in order, where the WSGI server does not look after it itself."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
